"""Random numbers in compiled code; the generator's state is four words.

xoshiro256++ (Blackman and Vigna 2021), seeded by numpy's SeedSequence; normals by the ziggurat in Doornik's
form (2005, 128 boxes, the box number and the uniform from different bits); gammas by Marsaglia and Tsang
(2000).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sampler.kernels.arrays import Bool, Float, Int, Word, Words
from sampler.kernels.jit import kernel

BOXES = 128
TAIL = 3.442619855899  # where the lowest box's tail starts
AREA = 9.91256303526217e-3  # of every box
SQUEEZE = 0.0331  # of Marsaglia and Tsang
MASK32 = np.uint64(0xFFFFFFFF)


def _ziggurat() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Right edges of the boxes (the lowest first) and the share of each box that lies inside the next."""
    edge = np.zeros(BOXES + 1)
    height = math.exp(-0.5 * TAIL * TAIL)
    edge[0] = AREA / height
    edge[1] = TAIL
    for i in range(2, BOXES):
        edge[i] = math.sqrt(-2 * math.log(AREA / edge[i - 1] + height))
        height = math.exp(-0.5 * edge[i] * edge[i])
    return edge, edge[1:] / edge[:-1]


EDGE, SHARE = _ziggurat()


@kernel(inline=True, allocates=False, entry=True)
def next_word(random: Words) -> Word:
    """Draw 64 random bits (xoshiro256++)."""
    s0, s1, s2, s3 = random[0], random[1], random[2], random[3]
    x = s0 + s3
    result = ((x << np.uint64(23)) | (x >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    random[1] = s1 ^ s2
    random[0] = s0 ^ s3
    random[2] = s2 ^ shifted
    random[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return result


@kernel(inline=True, allocates=False, entry=True)
def uniform(random: Words) -> Float:
    """Draw a uniform number inside (0, 1), an odd multiple of 2^-53: its logarithm is finite."""
    return (float(next_word(random) >> np.uint64(12)) + 0.5) * 2.0**-52


@kernel(inline=True, allocates=False, entry=True)
def below(random: Words, bound: Int) -> Int:
    """Draw a uniform integer in 0..bound-1, without bias (Lemire 2019); bound < 2^32."""
    wide = np.uint64(bound)
    product = (next_word(random) >> np.uint64(32)) * wide
    low = product & MASK32
    if low < wide:
        threshold = (np.uint64(1) << np.uint64(32)) % wide
        while low < threshold:
            product = (next_word(random) >> np.uint64(32)) * wide
            low = product & MASK32
    return np.int64(product >> np.uint64(32))


@kernel(allocates=False)
def _tail(random: Words, negative: Bool) -> Float:
    """Draw a normal variable beyond TAIL (Marsaglia 1964)."""
    while True:
        x = math.log(uniform(random)) / TAIL
        y = math.log(uniform(random))
        if -2.0 * y >= x * x:
            return x - TAIL if negative else TAIL - x


@kernel(allocates=False, entry=True)
def normal(random: Words) -> Float:
    """Draw a standard normal variable."""
    while True:
        word = next_word(random)
        u = float(np.int64(word) >> 11) * 2.0**-52  # in [-1, 1)
        box = np.int64(word & np.uint64(BOXES - 1))
        if abs(u) < SHARE[box]:
            return u * EDGE[box]
        if box == 0:
            return _tail(random, u < 0)
        x = u * EDGE[box]
        upper = math.exp(-0.5 * (EDGE[box] * EDGE[box] - x * x))
        lower = math.exp(-0.5 * (EDGE[box + 1] * EDGE[box + 1] - x * x))
        if lower + uniform(random) * (upper - lower) < 1.0:
            return x


@kernel(allocates=False)
def gamma(random: Words, shape: Float) -> Float:
    """Draw a gamma variable of scale 1; a shape below 1 is boosted."""
    boost = 1.0
    if shape < 1.0:
        boost = uniform(random) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(random)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u, square = uniform(random), x * x
        if u < 1.0 - SQUEEZE * square * square:  # implies what follows, and holds nearly always
            return boost * d * v
        if math.log(u) < 0.5 * square + d - d * v + d * math.log(v):
            return boost * d * v
