"""The prior of a forest's trees by depth (docs/maths.md#tree-prior), and the shares of columns and moves."""

from __future__ import annotations

import math
from typing import NamedTuple

from sampler.kernels.arrays import Float, Floats, Floats2, Int, Longs
from sampler.kernels.jit import kernel


class TreePrior(NamedTuple):
    """What a forest's trees are drawn from and by: a node of depth d splits with p = alpha (1 + d)^-beta."""

    alpha: Float
    beta: Float
    depths: Floats2  # [2, depths], log(1 - p) and log p
    shares: Floats2  # [2, p], the columns' shares and their running sums; [0, 0]: all alike
    moves: Floats  # [NUM_MOVES], probabilities
    steps: Longs  # [NUM_MOVES], addresses of the moves' kernels; 0: never made, or made in place


@kernel(inline=True, allocates=False)
def log_stay(prior: TreePrior, depth: Int) -> Float:
    """log(1 - p) at a depth; shallow depths are tabled."""
    if depth < prior.depths.shape[1]:
        return prior.depths[0, depth]
    return math.log1p(-prior.alpha * (1.0 + depth) ** -prior.beta)


@kernel(inline=True, allocates=False)
def log_split(prior: TreePrior, depth: Int) -> Float:
    """Log p at a depth."""
    if depth < prior.depths.shape[1]:
        return prior.depths[1, depth]
    return math.log(prior.alpha) - prior.beta * math.log1p(depth)
