"""Latent outcomes of probit (Albert and Chib 1993; docs/maths.md#probit)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.state import Outcome
from sampler.kernels.arrays import Bytes, Float, Int, Ints, Longs, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

SWITCH = 0.45  # above it the exponential envelope accepts more often than the normal itself (Robert 1995)


@kernel(allocates=False)
def normal_above(random: Words, low: Float) -> Float:
    """Draw a standard normal given that it exceeds `low`, by rejection: exact in both tails."""
    if low < SWITCH:
        while True:
            z = normal(random)
            if z > low:
                return z
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))
    while True:
        z = low - math.log(uniform(random)) / rate
        if math.log(uniform(random)) <= -0.5 * (z - rate) * (z - rate):
            return z


@kernel(inline=True, allocates=False)
def normal_of_class(random: Words, mean: Float, sd: Float, label: Int) -> Float:
    """Draw z ~ Normal(mean, sd^2), positive where the label is 1 and negative where it is 0."""
    sign = 1.0 if label != 0 else -1.0
    return mean + sd * (sign * normal_above(random, -sign * mean / sd))


@kernel(allocates=False)
def draw_latent(
    labels: Bytes, residual: Ints, latent: Ints, offset: Float, step: Float, random: Words
) -> None:
    """Draw z ~ Normal(offset + f, 1) of the class of each row.

    f is latent - residual, so it doesn't matter whether the last z or zeros stand in `latent`.
    """
    for i in range(len(labels)):
        f = latent[i] - residual[i]
        z = normal_of_class(random, offset + step * f, 1.0, labels[i])
        latent[i] = np.int32(np.rint((z - offset) / step))
        residual[i] = np.int32(latent[i] - f)


@kernel(allocates=False, entry=True)
def draw_latent_given(
    outcome: Outcome, residual: Ints, others: Ints, members: Longs, sd: Float, random: Words
) -> None:
    """Draw z ~ Normal(offset + f + what other outcomes say, sd^2) of the class of some rows.

    Parameters
    ----------
    outcome
        Labels, latent outcomes and grid, as of `draw_latent`.
    residual
        z - f of all rows, int32 [n], in grid steps.
    others
        What the other outcomes' errors say of that of z, int32 [n], in grid steps.
    members
        The rows to draw.
    sd
        Standard deviation of z given f and the other outcomes.
    random
        State of the random numbers.

    """
    for i in members:
        f = outcome.latent[i] - residual[i]
        mean = outcome.offset + outcome.step * (f + others[i])
        z = normal_of_class(random, mean, sd, outcome.labels[i])
        outcome.latent[i] = np.int32(np.rint((z - outcome.offset) / outcome.step))
        residual[i] = np.int32(outcome.latent[i] - f)
