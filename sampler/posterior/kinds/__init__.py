"""Posteriors of other models than a sum of trees with one size of noise."""
