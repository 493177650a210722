"""Compiled kernels of single trees."""
