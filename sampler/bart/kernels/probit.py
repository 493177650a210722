"""Latent outcomes of probit (Albert and Chib 1993; docs/maths.md#probit)."""

from __future__ import annotations

import math

import numpy as np

from sampler.kernels.arrays import Bytes, Float, Ints, Words
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


@kernel(allocates=False)
def draw_latent(
    labels: Bytes, residual: Ints, latent: Ints, offset: Float, step: Float, random: Words
) -> None:
    """Draw z ~ Normal(offset + f, 1), positive where the label is 1 and negative where it is 0.

    f is latent - residual, so it doesn't matter whether the last z or zeros stand in `latent`.
    """
    for i in range(len(labels)):
        f = latent[i] - residual[i]
        mean = offset + step * f
        sign = 1.0 if labels[i] != 0 else -1.0
        z = mean + sign * normal_above(random, -sign * mean)
        latent[i] = np.int32(np.rint((z - offset) / step))
        residual[i] = np.int32(latent[i] - f)
