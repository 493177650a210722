"""Draws of the shares of the columns (DART).

Shares s ~ Dirichlet(theta/p, ..); a split has column j with probability s_j / (sum of s over the columns that
can split its node), so Dirichlet(theta/p + counts) is not their conditional. With s = gammas over their sum,
that denominator is the integral of e^(-u x sum) over u: given a u for each split, the gammas are independent.
All in logarithms: a gamma of shape theta/p is often smaller than any float.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.particles.layout import CHILD, NONE, ROWS, START, Swarm, lay_out
from sampler.bart.kernels.state import Forest, Work
from sampler.kernels.arrays import FEATURE, Bool, Bytes, Data, Float, Floats, Floats2, Int, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, uniform

LOWEST = -690.0  # of a log share, relative to the largest: its share is still a number


class ShareTables(NamedTuple):
    """The columns' shares and what their draw needs, float64 [p] each."""

    log_share: Floats
    count: Floats  # type: ignore[assignment]  # splits on the column
    rate: Floats  # of the column's gamma: 1 and the u of the nodes that it can split
    valid: Floats  # 1 where the column can split the node at hand, else 0


@kernel(allocates=False)
def log_gamma_draw(random: Words, shape: Float) -> Float:
    """Draw the logarithm of a gamma variable of scale 1, however small its shape."""
    if shape >= 1.0:
        return math.log(gamma(random, shape))
    return math.log(gamma(random, shape + 1.0)) + math.log(uniform(random)) / shape


@kernel(allocates=False)
def varies(codes: Bytes, rows: Ints) -> Bool:
    """Whether a column has two codes at these rows: nearly always the first two differ."""
    first = codes[rows[0]]
    for k in range(1, len(rows)):  # noqa: SIM110  # compiled
        if codes[rows[k]] != first:
            return True
    return False


@kernel(allocates=False)
def look_at_splits(
    data: Data, forest: Forest, work: Work, swarm: Swarm, shares: ShareTables, total: Float
) -> Float:
    """Add each split to its column's `count`, and its u to the `rate` of each column that can split its node.

    Returns 0, or the leaves of a tree that there is no room for.
    """
    columns = len(data.codes)
    share, valid = forest.prior.shares[0], shares.valid
    for tree in range(len(forest.num_leaves)):
        if forest.num_leaves[tree] <= 1:
            continue
        if not lay_out(data, forest, swarm, tree):
            return float(forest.num_leaves[tree])
        node = swarm.node[0]
        for at in range(2 * forest.num_leaves[tree] - 1):
            if node[at, CHILD] == NONE:
                continue
            rows = swarm.rows[0, node[at, START] : node[at, START] + node[at, ROWS]]
            mass = 0.0
            for j in range(columns):
                valid[j] = 1.0 if varies(data.codes[j], rows) else 0.0
                mass += valid[j] * share[j]
            u = min(-math.log(uniform(work.random)) / (total * mass), 1e300)
            for j in range(columns):
                shares.rate[j] += valid[j] * u
            shares.count[node[at, FEATURE]] += 1.0
    return 0.0


@kernel(allocates=False, entry=True)
def set_shares(shares: Floats2, log_share: Floats) -> None:
    """Set shares and their running sums, float64 [2, p], from their logarithms."""
    largest = -np.inf
    for j in range(len(log_share)):
        largest = max(largest, log_share[j])
    total = 0.0
    for j in range(len(log_share)):
        shares[0, j] = math.exp(max(log_share[j] - largest, LOWEST))
        total += shares[0, j]
    running = 0.0
    for j in range(len(log_share)):
        shares[0, j] /= total
        running += shares[0, j]
        shares[1, j] = running


@kernel(allocates=False)
def draw_theta(grid: Floats2, sum_log: Float, random: Words) -> Int:
    """Draw a place on the grid of theta [theta / p; log prior + log normaliser] by the sum of log shares."""
    largest = -np.inf
    for k in range(grid.shape[1]):
        largest = max(largest, grid[1, k] + grid[0, k] * sum_log)
    total = 0.0
    for k in range(grid.shape[1]):
        total += math.exp(grid[1, k] + grid[0, k] * sum_log - largest)
    left = uniform(random) * total
    for k in range(grid.shape[1]):
        left -= math.exp(grid[1, k] + grid[0, k] * sum_log - largest)
        if left < 0.0:
            return k
    return np.int64(grid.shape[1] - 1)


@kernel(allocates=False, entry=True)
def draw_shares(
    data: Data,
    forest: Forest,
    work: Work,
    swarm: Swarm,
    shares: ShareTables,
    grid: Floats2,
    theta: Int,
) -> Int:
    """Draw the shares, then theta; return its place on the grid, or -1 if more room for nodes is needed."""
    columns = len(data.codes)
    log_share, count, rate = shares.log_share, shares.count, shares.rate
    shape = grid[0, theta]  # theta / p
    for j in range(columns):
        count[j], rate[j] = 0.0, 1.0
    # the sum of the gammas is independent of the shares: any draw of it will do
    total = gamma(work.random, shape * columns)
    total = max(total, 1e-300)
    if look_at_splits(data, forest, work, swarm, shares, total) > 0.0:
        return -1
    largest = -np.inf
    for j in range(columns):
        log_share[j] = log_gamma_draw(work.random, shape + count[j]) - math.log(rate[j])
        largest = max(largest, log_share[j])
    mass = 0.0
    for j in range(columns):
        mass += math.exp(log_share[j] - largest)
    norm = largest + math.log(mass)
    sum_log = 0.0
    for j in range(columns):
        log_share[j] -= norm
        sum_log += log_share[j]
    set_shares(forest.prior.shares, log_share)
    return draw_theta(grid, sum_log, work.random)
