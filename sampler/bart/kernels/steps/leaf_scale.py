"""Scale of log-linear leaves, drawn given all of them (docs/maths.md#scale-of-log-linear-leaves)."""

from __future__ import annotations

from sampler.bart.kernels.leaf_models.log_linear_pass import STEP, exponential
from sampler.bart.kernels.state import VALUE
from sampler.kernels.arrays import Floats, Floats2, Int, Ints, Ints3, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import uniform


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
    below = uniform(random) * total
    for k in range(len(scores)):
        below -= scores[k]
        if below < 0.0:
            return k
    return len(scores) - 1
