"""Treatments: which rows had one, and how the trees of a model see it."""
