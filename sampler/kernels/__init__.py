"""The compiled kernels. Importing this registers them all; `sampler.compile.warm` compiles or loads them."""

from sampler.kernels import fused, leaves, random, rows, rules, sweep, trees, update

__all__ = ["fused", "leaves", "random", "rows", "rules", "sweep", "trees", "update"]
