"""Compiled kernels of sums of trees."""
