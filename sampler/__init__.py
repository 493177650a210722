"""Bayesian additive regression trees, compiled with numba."""
