"""Fused passes for rows with weights: sums of weight x residual, exact in 64 bits.

Half as many rows fit a register as without weights. Few kernels, by the leaves that each can tell apart in
the previous and in the current tree: the previous one's selects are cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from sampler.kernels.arrays import i4, i8, u1, void
from sampler.kernels.jit import pointer_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from sampler.kernels.arrays import Bytes, Int, Ints, Longs

BEFORE = (3, 8)
NOW = (2, 3, 4, 8)
BEFORE_BUCKET = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])  # of a tree with that many leaves
NOW_BUCKET = np.array([0, 0, 0, 1, 2, 3, 3, 3, 3])

_pointer: Any = types.CPointer
_weighted_t = void(
    _pointer(i4), _pointer(u1), _pointer(i4), _pointer(u1), _pointer(u1), u1, u1, u1, i8, _pointer(i4),
    _pointer(i8),
)  # fmt: skip


def make_weighted(before: Int, now: Int) -> Callable[..., None]:
    """Make the fused pass (`residual_pass.make_fused`) with weights int32 [rows] in place of a block of rows.

    The caller pads nothing: rows are those of the data, and sums of 64 bits can't overflow (`Training`
    chooses the weights' unit so).
    """

    def weighted(
        residual: Ints, previous: Bytes, delta: Ints, current: Bytes,
        column: Bytes, leaf: Int, cut: Int, side: Int, rows: Int, weights: Ints, sums: Longs,
    ) -> None:  # fmt: skip
        d0, d1, d2, d3, d4, d5, d6 = delta[0], delta[1], delta[2], delta[3], delta[4], delta[5], delta[6]
        last = delta[before - 1]
        zero: Int = np.int64(0)
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = total = left = count = zero
        for i in range(rows):
            p = previous[i]
            d = d0 if p == 0 else last
            if before > 2:
                d = d1 if p == 1 else d
            if before > 3:
                d = d2 if p == 2 else d
                d = d3 if p == 3 else d
                d = d4 if p == 4 else d
                d = d5 if p == 5 else d
                d = d6 if p == 6 else d
            r = np.int32(residual[i] + d)
            residual[i] = r
            s = current[i]
            w = np.int64(weights[i])
            v = w * np.int64(r)
            total += v
            a0 += v if s == 0 else zero
            if now > 2:
                a1 += v if s == 1 else zero
            if now > 3:
                a2 += v if s == 2 else zero
            if now > 4:
                a3 += v if s == 3 else zero
                a4 += v if s == 4 else zero
                a5 += v if s == 5 else zero
                a6 += v if s == 6 else zero
            inside = (s == leaf) & (np.uint8(column[i] + side) <= cut)
            left += v if inside else zero
            count += w if inside else zero
        sums[0], sums[1] = left, count
        sums[2], sums[3], sums[4], sums[5] = a0, a1, a2, a3
        sums[6], sums[7], sums[8], sums[9] = a4, a5, a6, 0
        sums[2 + now - 1] = total - a0 - a1 - a2 - a3 - a4 - a5 - a6

    weighted.__qualname__ = f"weighted_{before}_{now}"
    return weighted


WEIGHTED = [
    pointer_kernel(__name__, _weighted_t, make_weighted(before, now)) for before in BEFORE for now in NOW
]
