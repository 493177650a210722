"""Prior of a forest's trees (docs/maths.md#tree-prior), with the shares of columns and of moves."""

from __future__ import annotations

import math
from typing import NamedTuple

from sampler.kernels.arrays import Float, Floats, Floats2, Int, Longs, Longs2
from sampler.kernels.jit import kernel


class TreePrior(NamedTuple):
    """Prior and moves of a forest's trees.

    A node of depth d splits with p = alpha (1 + d)^-beta, unless particles draw by another law.
    """

    alpha: Float
    beta: Float
    depths: Floats2  # [2, depths], log(1 - p) and log p
    shares: Floats2  # [2, p], the columns' shares and their running sums; [0, 0]: all alike
    moves: Floats  # [NUM_MOVES], probabilities
    steps: Longs  # [NUM_MOVES], addresses of the moves' kernels; 0: never made, or made in place
    update: Int  # address of the kernel that updates every tree once (`tree_update.UPDATE_TREES`)
    swarm: Int  # address of particles, which `update` then is of, and steps[PG] of local moves; 0: none
    law: Int  # address of the kernel by which particles draw from the prior (`particles.laws`)
    table: Floats2  # its figures
    directions: Longs2  # [2, p], 1 where f rises with a column, -1 where it falls; whether rows lack it
    orders: Longs  # room of `monotone`; both are empty where no column is monotone
    log_odds: Floats  # [m], of a tree's presence by how many others are present; empty where all are
    number: Floats  # [1], trees that are present, a scalar of the outcome; empty where all are


@kernel(inline=True, allocates=False)
def log_stay(prior: TreePrior, depth: Int) -> Float:
    """Log probability 1 - p that a node of a depth stays a leaf; shallow depths are tabled."""
    if depth < prior.depths.shape[1]:
        return prior.depths[0, depth]
    return math.log1p(-prior.alpha * (1.0 + depth) ** -prior.beta)


@kernel(inline=True, allocates=False)
def log_split(prior: TreePrior, depth: Int) -> Float:
    """Log probability p that a node of a depth splits."""
    if depth < prior.depths.shape[1]:
        return prior.depths[1, depth]
    return math.log(prior.alpha) - prior.beta * math.log1p(depth)
