"""The compiled kernels. Importing this registers them all; `sampler.compile.warm` compiles or loads them."""

from sampler.kernels import (
    depths,
    fused,
    leaves,
    mixture,
    moments,
    packing,
    predicting,
    random,
    rows,
    rules,
    sweep,
    trees,
    update,
)

__all__ = [
    "depths",
    "fused",
    "leaves",
    "mixture",
    "moments",
    "packing",
    "predicting",
    "random",
    "rows",
    "rules",
    "sweep",
    "trees",
    "update",
]
