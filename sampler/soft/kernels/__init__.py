"""Compiled kernels of trees of soft splits."""
