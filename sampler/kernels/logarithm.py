"""The natural logarithm in plain arithmetic: it vectorises, and is the same on every processor."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Float
from sampler.kernels.exponential import LN2_HIGH, LN2_LOW, MANTISSA_BITS, WHOLE, WHOLE_BITS
from sampler.kernels.jit import kernel

ROOT_HALF_BITS = np.float64(0.5**0.5).view(np.int64)


@kernel(inline=True, allocates=False)
def logarithm(x: Float) -> Float:
    """Compute log x, x finite and at least 2^-1022, within 3e-16 of the larger of 1 and |log x|.

    x = 2^k y with y between the roots of 1/2 and 2; log y = 2 artanh((y - 1) / (y + 1)), by its series.
    """
    bits = np.float64(x).view(np.int64)
    power = (bits - ROOT_HALF_BITS) >> MANTISSA_BITS
    y = np.int64(bits - (power << MANTISSA_BITS)).view(np.float64)
    k = np.int64(power + WHOLE_BITS).view(np.float64) - WHOLE  # the number, without a conversion
    s = (y - 1.0) / (y + 1.0)
    z = s * s
    p = 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    twice = s + s
    return k * LN2_HIGH + (twice + (twice * (z * p) + k * LN2_LOW))
