"""The exponential function in plain arithmetic: it vectorises, and is the same on every processor."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Float
from sampler.kernels.jit import kernel

FARTHEST = 700.0
LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # the first 33 bits, so that its multiples by whole numbers are exact
LN2_LOW = 1.90821492927058770002e-10
WHOLE = 1.5 * 2.0**52  # a number plus this is rounded to a whole one, which stands in its lowest bits
WHOLE_BITS = np.float64(WHOLE).view(np.int64)
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52


@kernel(inline=True, allocates=False)
def exponential_within(x: Float) -> Float:
    """Compute e^x for |x| <= FARTHEST, within 1e-15, relatively."""
    rounded = np.float64(x * LOG2_E + WHOLE)
    k = rounded - WHOLE
    f = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * f + 1.0 / 479001600.0
    p = p * f + 1.0 / 39916800.0
    p = p * f + 1.0 / 3628800.0
    p = p * f + 1.0 / 362880.0
    p = p * f + 1.0 / 40320.0
    p = p * f + 1.0 / 5040.0
    p = p * f + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f + 1.0
    p = p * f + 1.0
    power = np.int64((rounded.view(np.int64) + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float64)  # 2^k
    return p * power
