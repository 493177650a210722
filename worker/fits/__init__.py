"""Fits: a chain of a model in slices, its end, and the specification that both read from the store."""
