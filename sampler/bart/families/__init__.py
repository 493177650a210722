"""Families of a sum of trees: which forests a chain has, and what its sweep draws besides their trees.

Each family is a module with a class of `likelihood.Likelihood`, named in `sampler.families`.
"""
