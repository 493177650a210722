"""Compiled leaf models of sums of trees: evidence, split gain, leaf draw."""
