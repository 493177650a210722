"""Codes and slots for tests of kernels."""

import numpy as np


def padded(values, fill):
    """Return rows padded to whole registers."""
    rows_ = -(-len(values) // 64) * 64
    out = np.full(rows_, fill, values.dtype)
    out[: len(values)] = values
    return out


def goes_left(codes, cut, side):
    """Return which rows go left by a rule (cut, missing side)."""
    return np.where(codes == 255, side == 1, codes <= cut)


def codes_of(rng, n, highest=20, missing=0.1):
    """Return codes, some of them missing."""
    return np.where(rng.random(n) < missing, 255, rng.integers(0, highest + 1, n)).astype(np.uint8)
