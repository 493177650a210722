"""Leaf models: how a forest's leaves and rows enter its moves, chosen when the moves are compiled.

A leaf model is a module with a NamedTuple, which holds its parameters and what it keeps for each row, and a
function for each of `operations`. Kernels take the NamedTuple as `model: Model`; each is compiled once per
leaf model (`sampler.kernels.groups`). A move knows a leaf by its sums over rows alone.
"""
