"""Scale of log-linear leaves, drawn given all of them (docs/maths.md#scale-of-log-linear-leaves).

That of precisions is moved together with them too (docs/maths.md#noise-that-differs-by-row).
"""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.leaf_models.log_linear_pass import ROWS_OF_A_SUM, STEP, exponential, slot_at
from sampler.bart.kernels.state import VALUE, Forest
from sampler.bart.kernels.tree_tables import slots_of
from sampler.kernels.arrays import Bool, Float, Floats, Floats2, Int, Ints, Ints3, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import below, uniform

FARTHEST = 8  # places that a scale moves together with the leaves


@kernel(allocates=False, entry=True)
def add_leaves(num_leaves: Ints, leaf: Ints3, sums: Floats) -> None:
    """Add the number of a forest's leaves, and the sums of their logarithms and values, to `sums` [3]."""
    for tree in range(len(num_leaves)):
        for slot in range(num_leaves[tree]):
            logarithm = STEP * float(leaf[tree, slot, VALUE])
            sums[0] += 1.0
            sums[1] += logarithm
            sums[2] += exponential(logarithm)


@kernel(allocates=False, entry=True)
def draw_place(grid: Floats2, sums: Floats, scores: Floats, random: Words) -> Int:
    """Draw the place of the scale on its grid given all leaves.

    Parameters
    ----------
    grid
        By place the shape and the rate of the leaves' Gamma, shape log(rate) - log Gamma(shape), and the log
        prior, float64 [4, place].
    sums
        Of `add_leaves`.
    scores
        Room, float64 [place].
    random
        State of the random numbers.

    Returns
    -------
    int
        The place.

    """
    largest = -1e300
    for k in range(len(scores)):
        scores[k] = grid[3, k] + sums[0] * grid[2, k] + grid[0, k] * sums[1] - grid[1, k] * sums[2]
        largest = max(largest, scores[k])
    total = 0.0
    for k in range(len(scores)):
        scores[k] = exponential(scores[k] - largest)
        total += scores[k]
    remainder = uniform(random) * total
    for k in range(len(scores)):
        remainder -= scores[k]
        if remainder < 0.0:
            return k
    return len(scores) - 1


@kernel(allocates=False, entry=True)
def propose_place(places: Int, place: Int, random: Words) -> Int:
    """Propose one of the eight places on either side, each as probable; -1 where the grid has none there."""
    far = np.int64(1 + below(random, FARTHEST))
    proposed = place + far if uniform(random) < 0.5 else place - far
    return proposed if 0 <= proposed < places else np.int64(-1)


@kernel(allocates=False, entry=True)
def accepts_precisions(
    grid: Floats2,
    places: tuple[Int, Int],
    factor: Float,
    forest: Forest,
    log_value: Ints,
    counts: Ints,
    unit: Float,
    weights: Floats,
    residual: Ints,
    variance: Float,
    power: Float,
    num_rows: Int,
    random: Words,
) -> Bool:
    """Decide whether a forest of precisions gets another scale, all its logarithms multiplied by `factor`.

    Parameters
    ----------
    grid
        That of `draw_place`.
    places
        The present place and that proposed.
    factor
        Scale of log f proposed over the present one.
    forest, log_value
        The precisions, and the rows' log f in steps.
    counts, unit
        Errors that a row has, int32 [n], in units of `unit`; empty: 1.
    weights, residual, variance, num_rows
        Of `begin_precision`.
    power
        The likelihood's.
    random
        State of the random numbers.

    Returns
    -------
    bool
        Whether it is accepted.

    """
    old, new = places
    ratio = grid[3, new] - grid[3, old]
    each = grid[2, new] - grid[2, old] + math.log(factor)
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            g = STEP * float(forest.leaf[tree, slot, VALUE])
            ratio += each + (grid[0, new] * factor - grid[0, old]) * g
            ratio -= grid[1, new] * exponential(factor * g) - grid[1, old] * exponential(g)
    gain = 0.0
    for start in range(0, num_rows, ROWS_OF_A_SUM):
        of_block = 0.0
        for i in range(start, min(start + ROWS_OF_A_SUM, num_rows)):
            weight = weights[i] if len(weights) > 0 else 1.0
            error, g = float(residual[i]), STEP * float(log_value[i])
            change = exponential(factor * g) - exponential(g)
            count = unit * (float(counts[i]) if len(counts) > 0 else 1.0)
            own = count * (factor - 1.0) * g - weight * error * error / variance * change
            of_block += own if count > 0.0 else 0.0
        gain += of_block
    return math.log(uniform(random)) < ratio + 0.5 * power * gain


@kernel(allocates=False, entry=True)
def multiply_logarithms(forest: Forest, log_value: Ints, factor: Float, num_rows: Int) -> None:
    """Multiply the logarithms of all leaves by `factor`, rounded to steps, and find the rows' log f anew."""
    log_value[:num_rows] = 0
    for tree in range(len(forest.num_leaves)):
        leaf, leaves = forest.leaf[tree], np.int64(forest.num_leaves[tree])
        for slot in range(leaves):
            leaf[slot, VALUE] = np.int32(math.floor(factor * float(leaf[slot, VALUE]) + 0.5))
        slots = slots_of(forest, tree, leaves)
        for i in range(num_rows):
            log_value[i] += leaf[slot_at(slots, i), VALUE]
