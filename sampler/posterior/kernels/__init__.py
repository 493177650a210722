"""Compiled kernels of predictions and their summaries."""
