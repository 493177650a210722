"""Passes over the rows for a tree update: move the residual by the last tree's change, sum it by leaf.

A partial residual's sum in a leaf is the residual's sum plus count x old leaf value, so nothing is added
back. Up to 8 leaves the leaf is found by a chain of selects, which vectorises where an indexed scatter does
not; one kernel is compiled for each pair of leaf-count buckets of the previous and the current tree. Sums
are of int32 in blocks of rows, flushed to int64: exact, whatever the block and the vector width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from sampler.bart.kernels.leaf_models.weighted_pass import BEFORE_BUCKET, NOW, NOW_BUCKET
from sampler.bart.kernels.state import MOST_LEAVES, TRIAL, Slots, Trial
from sampler.kernels.arrays import (
    NO_LEAF,
    Byte,
    Bytes,
    Int,
    Ints,
    Longs,
    Longs2,
    i4,
    i8,
    u1,
    void,
)
from sampler.kernels.function_pointers import call_pass
from sampler.kernels.jit import kernel, pointer_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

BUCKETS = (2, 3, 4, 6, MOST_LEAVES)  # leaves that a kernel can tell apart
BUCKET = np.array([0, 0, 0, 1, 2, 3, 3, 4, 4])  # of a tree with that many leaves
WEIGHTS = len(BUCKETS) ** 2  # Normal.passes has the fused passes, then those with weights

_pointer: Any = types.CPointer
_fused_t = void(
    _pointer(i4), _pointer(u1), _pointer(i4), _pointer(u1), _pointer(u1), u1, u1, u1, i8, i8, _pointer(i8)
)  # fmt: skip


def make_fused(before: Int, now: Int) -> Callable[..., None]:
    """Make the fused pass for at most `before` leaves in the previous tree and `now` in the current one.

    Its arguments: residual, the previous tree's slots and change of leaf values, the current tree's slots,
    the trial rule's column, its leaf (NO_LEAF for no trial), cut + side and side, rows (a multiple of 64),
    rows a block (|residual| x block < 2^31), and where the sums go. Rows that pad the column have slot 255
    in every tree, so they take the last leaf's change and enter only the total; the caller corrects for
    them.
    """

    def fused(
        residual: Ints, previous: Bytes, delta: Ints, current: Bytes,
        column: Bytes, leaf: Int, cut: Int, side: Int, rows: Int, block: Int, sums: Longs,
    ) -> None:  # fmt: skip
        zero: Int = np.int32(0)
        one: Int = np.int32(1)
        d0, d1, d2, d3, d4, d5, d6 = delta[0], delta[1], delta[2], delta[3], delta[4], delta[5], delta[6]
        last = delta[before - 1]
        s0: Int = 0
        s1 = s2 = s3 = s4 = s5 = s6 = everything = left = count = s0
        for start in range(0, rows, block):
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = total = a_left = a_count = zero
            for i in range(start, min(start + block, rows)):
                p = previous[i]
                d = d0 if p == 0 else last
                if before > 2:
                    d = d1 if p == 1 else d
                if before > 3:
                    d = d2 if p == 2 else d
                if before > 4:
                    d = d3 if p == 3 else d
                if before > 5:
                    d = d4 if p == 4 else d
                if before > 6:
                    d = d5 if p == 5 else d
                if before > 7:
                    d = d6 if p == 6 else d
                r = np.int32(residual[i] + d)
                residual[i] = r
                s = current[i]
                total = np.int32(total + r)
                a0 = np.int32(a0 + (r if s == 0 else zero))
                if now > 2:
                    a1 = np.int32(a1 + (r if s == 1 else zero))
                if now > 3:
                    a2 = np.int32(a2 + (r if s == 2 else zero))
                if now > 4:
                    a3 = np.int32(a3 + (r if s == 3 else zero))
                if now > 5:
                    a4 = np.int32(a4 + (r if s == 4 else zero))
                if now > 6:
                    a5 = np.int32(a5 + (r if s == 5 else zero))
                if now > 7:
                    a6 = np.int32(a6 + (r if s == 6 else zero))
                inside = (s == leaf) & (np.uint8(column[i] + side) <= cut)
                a_left = np.int32(a_left + (r if inside else zero))
                a_count = np.int32(a_count + (one if inside else zero))
            s0, s1, s2, s3 = s0 + a0, s1 + a1, s2 + a2, s3 + a3
            s4, s5, s6 = s4 + a4, s5 + a5, s6 + a6
            everything, left, count = everything + total, left + a_left, count + a_count
        sums[0], sums[1] = left, count
        sums[2], sums[3], sums[4], sums[5] = s0, s1, s2, s3
        sums[6], sums[7], sums[8], sums[9] = s4, s5, s6, 0
        sums[2 + now - 1] = everything - s0 - s1 - s2 - s3 - s4 - s5 - s6

    fused.__qualname__ = f"fused_{before}_{now}"
    return fused


FUSED = [pointer_kernel(__name__, _fused_t, make_fused(before, now)) for before in BUCKETS for now in BUCKETS]


@kernel(inline=True, allocates=False)
def byte_leaf(trial: Trial) -> Byte:
    """Return the trial's leaf as a byte, NO_LEAF for no trial."""
    return np.uint8(trial.leaf if trial.leaf >= 0 else NO_LEAF)


@kernel(inline=True, allocates=False)
def fused_pass(
    passes: Longs, residual: Ints, before: Slots, delta: Ints, now: Slots, trial: Trial, num_rows: Int,
    block: Int, sums: Longs,
) -> None:  # fmt: skip
    """Run the fused pass for trees of at most 8 leaves, and take the padding rows out of the sums."""
    which = BUCKET[before.leaves] * len(BUCKETS) + BUCKET[now.leaves]
    rows = len(residual)
    arguments = (
        residual, before.low, delta, now.low, trial.column, byte_leaf(trial), trial.cut, trial.side, rows,
        block, sums,
    )  # fmt: skip
    call_pass(passes[which], arguments)
    if rows > num_rows:
        last_before = BUCKETS[BUCKET[before.leaves]] - 1
        last_now = BUCKETS[BUCKET[now.leaves]] - 1
        sums[TRIAL + last_now] -= (rows - num_rows) * delta[last_before]
        residual[num_rows:] = 0


@kernel(inline=True, allocates=False)
def weighted_pass(
    passes: Longs, residual: Ints, before: Slots, delta: Ints, now: Slots, trial: Trial, num_rows: Int,
    weights: Ints, sums: Longs,
) -> None:  # fmt: skip
    """Run the fused pass with weights, int32 [n]."""
    which = WEIGHTS + BEFORE_BUCKET[before.leaves] * len(NOW) + NOW_BUCKET[now.leaves]
    arguments = (
        residual, before.low, delta, now.low, trial.column, byte_leaf(trial), trial.cut, trial.side, num_rows,
        weights, sums,
    )  # fmt: skip
    call_pass(passes[which], arguments)


@kernel(allocates=False)
def scatter_pass(
    residual: Ints, before: Slots, delta: Ints, now: Slots, trial: Trial, weights: Ints, num_rows: Int,
    sums: Longs, lanes: Longs2,
) -> None:  # fmt: skip
    """Move the residual and sum it for trees of any size, with weights or without (an empty array)."""
    lanes[:, : now.leaves] = 0  # four, so that neighbouring rows of one leaf don't wait for each other's sum
    left = count = np.int64(0)
    weighted = len(weights) > 0
    for i in range(num_rows):
        p = np.int64(before.low[i])
        if before.wide:
            p += 256 * np.int64(before.high[i])
        s = np.int64(now.low[i])
        if now.wide:
            s += 256 * np.int64(now.high[i])
        r = np.int32(residual[i] + delta[p])
        residual[i] = r
        weight = np.int64(weights[i]) if weighted else np.int64(1)
        lanes[i & 3, s] += weight * r
        if s == trial.leaf and np.uint8(trial.column[i] + trial.side) <= trial.cut:
            left += weight * r
            count += weight
    sums[0], sums[1] = left, count
    for k in range(now.leaves):
        sums[TRIAL + k] = lanes[0, k] + lanes[1, k] + lanes[2, k] + lanes[3, k]
