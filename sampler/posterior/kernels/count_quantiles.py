"""Quantiles of mixtures of counts, by adding up their probabilities from zero."""

from __future__ import annotations

import math

from sampler.kernels.arrays import Floats, Floats2
from sampler.kernels.jit import kernel

LARGEST = 500  # up to it, a mixture's smallest normal probability of zero belongs to no count that matters
UNKNOWN = -1.0  # in place of a quantile above it


@kernel(allocates=False, entry=True)
def count_quantiles(
    mean: Floats2, size: Floats, structural: Floats2, levels: Floats, room: Floats2, quantiles: Floats2
) -> None:
    """Find the smallest counts whose distribution functions reach ascending `levels`, [level, row].

    `mean` [row, draw] is of counts that are not structural zeros, `size` [draw] their dispersion, empty for
    Poisson counts; `structural` [row, draw] has the probabilities of structural zeros, or no rows. `room` has
    two rows, [2, draw].
    """
    num_rows, num_draws = mean.shape
    dispersed, some_structural = len(size) > 0, len(structural) > 0
    for i in range(num_rows):
        below = 0.0
        for d in range(num_draws):
            zero = structural[i, d] if some_structural else 0.0
            if dispersed:
                room[0, d] = (1 - zero) * math.exp(-size[d] * math.log1p(mean[i, d] / size[d]))
                room[1, d] = mean[i, d] / (mean[i, d] + size[d])
            else:
                room[0, d] = (1 - zero) * math.exp(-mean[i, d])
                room[1, d] = mean[i, d]
            below += zero + room[0, d]
        reached = 0
        for k in range(LARGEST + 1):
            while reached < len(levels) and below >= levels[reached] * num_draws:
                quantiles[reached, i] = float(k)
                reached += 1
            if reached == len(levels):
                break
            for d in range(num_draws):
                more = (k + size[d]) if dispersed else 1.0
                room[0, d] *= more * room[1, d] / (k + 1)
                below += room[0, d]
        for later in range(reached, len(levels)):
            quantiles[later, i] = UNKNOWN
