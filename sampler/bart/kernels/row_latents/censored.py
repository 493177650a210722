"""Latent outcomes of censored rows (docs/maths.md#censored-outcomes)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.probit import normal_above
from sampler.bart.kernels.state import GRID_LIMIT
from sampler.kernels.arrays import Float, Floats2, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

PLAIN = 0.2  # probability of an interval from which on normal draws are made until one is inside
STEEP = 1.5  # change of the log density over an interval, from which on an exponential envelope is better


@kernel(allocates=False)
def normal_between(random: Words, low: Float, high: Float) -> Float:
    """Draw a standard normal given that it is in [low, high], either of them infinite perhaps; exact."""
    if high == math.inf:
        return normal_above(random, low)
    if low == -math.inf:
        return -normal_above(random, -high)
    if high <= 0.0 or -low > high:  # the end nearer to 0 comes first
        return -normal_between_near(random, -high, -low)
    return normal_between_near(random, low, high)


@kernel(allocates=False)
def normal_between_near(random: Words, low: Float, high: Float) -> Float:
    """Draw a standard normal given that it is in [low, high], where |low| <= |high|."""
    width = high - low
    if 0.5 * (math.erfc(-math.sqrt(0.5) * high) - math.erfc(-math.sqrt(0.5) * low)) > PLAIN:
        while True:
            z = normal(random)
            if low <= z <= high:
                return z
    nearest = max(low, 0.0)
    if nearest * width < STEEP:
        while True:
            z = low + width * uniform(random)
            if math.log(uniform(random)) <= 0.5 * (nearest * nearest - z * z):
                return z
    share = -math.expm1(-low * width)
    while True:
        beyond = -math.log1p(-share * uniform(random)) / low
        if math.log(uniform(random)) <= -0.5 * beyond * beyond:
            return low + min(beyond, width)


@kernel(allocates=False, entry=True)
def draw_censored(
    rows: Ints, limits: Floats2, residual: Ints, latent: Ints, weights: Ints, variance: Float, unit: Float,
    random: Words,
) -> None:  # fmt: skip
    """Draw the outcomes of censored rows between their limits, given f and the noise.

    f is latent - residual, so it doesn't matter which outcomes stand in `latent`.

    Parameters
    ----------
    rows
        Censored rows, int32 [censored].
    limits
        Lower and upper limits less the offset, in grid steps, float64 [2, censored].
    residual, latent
        Residuals, and outcomes less the offset, in grid steps, int32 [rows].
    weights, variance, unit
        The noise of row i has variance `variance` / (weights[i] unit), or `variance` without weights.
    random
        State of the random numbers.

    """
    sd = math.sqrt(variance)
    for k in range(len(rows)):
        i = rows[k]
        if len(weights) > 0:
            if weights[i] == 0:
                continue
            sd = math.sqrt(variance / (float(weights[i]) * unit))
        f = latent[i] - residual[i]
        z = normal_between(random, (limits[0, k] - f) / sd, (limits[1, k] - f) / sd)
        value = min(max(f + sd * z, -2.0 * GRID_LIMIT), 2.0 * GRID_LIMIT)
        latent[i] = np.int32(np.rint(value))
        residual[i] = np.int32(latent[i] - f)
