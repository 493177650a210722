"""The dot product in eight lanes: one sum would wait for each addition, and the order is always the same."""

from __future__ import annotations

from sampler.kernels.arrays import Float, Floats
from sampler.kernels.jit import kernel

LANES = 8


@kernel(allocates=False)
def dot(one: Floats, other: Floats) -> Float:
    """Sum the products of two arrays of one length."""
    a = b = c = d = e = f = g = h = 0.0
    stop = len(one) // LANES * LANES
    for i in range(0, stop, LANES):
        a += one[i] * other[i]
        b += one[i + 1] * other[i + 1]
        c += one[i + 2] * other[i + 2]
        d += one[i + 3] * other[i + 3]
        e += one[i + 4] * other[i + 4]
        f += one[i + 5] * other[i + 5]
        g += one[i + 6] * other[i + 6]
        h += one[i + 7] * other[i + 7]
    for i in range(stop, len(one)):
        a += one[i] * other[i]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))
