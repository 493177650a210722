"""Stored draws of all chains, their sums at rows, and the figures of predictions made of them."""
