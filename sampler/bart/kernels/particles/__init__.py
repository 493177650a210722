"""Compiled kernels of particle Gibbs over trees."""
