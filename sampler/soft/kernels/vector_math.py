"""Elementary functions for the density of soft splits, written for whole vector registers.

The C library's exp takes one number at a time, and took most of the time of a density: `exp_of_negative`
is plain arithmetic, so that loops over rows compile to vectors. Sums may be taken in any order, so that they
do too: the order is the processor's, as it is in the no-U-turn sampler that calls the density.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.kernels.arrays import Float, Floats
from sampler.kernels.jit import kernel

LOG_2PI = math.log(2 * math.pi)
SATURATED = 40.0  # beyond, exp(-a) is nothing beside one, and products of a few would be no normal numbers
ASYMPTOTIC = 6.0  # from where the digamma function is its series
PER_OCTAVE = 1 / math.log(2)
# log(2) in two parts, the first with so few digits that whole multiples of it are exact
OCTAVE, OCTAVE_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
ROUNDING = 1.5 * 2.0**52  # added to a small number: its nearest whole one is in the last bits then
MANTISSA = 52
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1 / math.factorial(k) for k in range(2, 14))


@kernel(inline=True, allocates=False)
def exp_of_negative(x: Float) -> Float:
    """exp(x) for x from -SATURATED to 0, to the last digit but one.

    By powers of two and Taylor's series within half of one, whose next term is below the last digit; its
    terms are added in pairs, which wait for each other less than one after the other.
    """
    shifted = x * PER_OCTAVE + ROUNDING
    whole = shifted - ROUNDING
    r = (x - whole * OCTAVE) - whole * OCTAVE_REST
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (C2 + C3 * r)
    middle = (C4 + C5 * r) + r2 * (C6 + C7 * r)
    high = ((C8 + C9 * r) + r2 * (C10 + C11 * r)) + r4 * (C12 + C13 * r)
    p = low + r4 * (middle + r4 * high)
    exponent = np.float64(shifted).view(np.int64) << MANTISSA
    scaled = np.int64(np.float64(p).view(np.int64) + exponent)
    return scaled.view(np.float64)


@kernel(inline=True, allocates=False)
def sigmoid(a: Float) -> Float:
    """1 / (1 + exp(-a))."""
    e = math.exp(-abs(a))
    return 1.0 / (1.0 + e) if a >= 0 else e / (1.0 + e)


@kernel(allocates=False)
def digamma(x: Float) -> Float:
    """Compute the derivative of the log gamma function at x > 0, to 1e-12."""
    shifted = 0.0
    while x < ASYMPTOTIC:
        shifted -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * 691 / 32760)))))
    return shifted + math.log(x) - 0.5 / x - series


@kernel(inline=True, allocates=False, any_order=True)
def dot(one: Floats, other: Floats) -> Float:
    """Sum products."""
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@kernel(inline=True, allocates=False, any_order=True)
def total_of(one: Floats) -> Float:
    """Sum values."""
    total = 0.0
    for i in range(len(one)):
        total += one[i]
    return total
