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

from sampler.bart.kernels.leaf_models.weighted_pass import BEFORE, BEFORE_BUCKET, NOW, NOW_BUCKET
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
from sampler.kernels.by_slot import add_at, add_to, load, repeat, value_at
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
    last = now - 1

    def fused(
        residual: Ints, previous: Bytes, delta: Ints, current: Bytes,
        column: Bytes, leaf: Int, cut: Int, side: Int, rows: Int, block: Int, sums: Longs,
    ) -> None:  # fmt: skip
        zero: Int = np.int32(0)
        one: Int = np.int32(1)
        changes = load(delta, before)
        for k in range(MOST_LEAVES):
            sums[TRIAL + k] = 0
        left: Int = 0
        count = left
        for start in range(0, rows, block):
            by_leaf = repeat(zero, now)  # of the last leaf, everything
            a_left = a_count = zero
            for i in range(start, min(start + block, rows)):
                r = np.int32(residual[i] + value_at(changes, previous[i]))
                residual[i] = r
                s = current[i]
                by_leaf = add_at(by_leaf, s, r)
                inside = (s == leaf) & (np.uint8(column[i] + side) <= cut)
                a_left = np.int32(a_left + (r if inside else zero))
                a_count = np.int32(a_count + (one if inside else zero))
            add_to(sums, TRIAL, by_leaf)
            left, count = left + a_left, count + a_count
        sums[0], sums[1] = left, count
        for k in range(last):
            sums[TRIAL + last] -= sums[TRIAL + k]

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
def place_of_pass(before: Slots, now: Slots, trial: Trial) -> Int:
    """Find the place of the pass for two trees and a trial, if any, among those of `weighted_pass.passes`."""
    place = BEFORE_BUCKET[before.leaves] * len(NOW) + NOW_BUCKET[now.leaves]
    return place + (len(BEFORE) * len(NOW) if trial.leaf >= 0 else 0)


@kernel(inline=True, allocates=False)
def weighted_pass(
    passes: Longs, residual: Ints, before: Slots, delta: Ints, now: Slots, trial: Trial, num_rows: Int,
    weights: Ints, sums: Longs,
) -> None:  # fmt: skip
    """Run the fused pass with weights, int32 [n]."""
    which = WEIGHTS + place_of_pass(before, now, trial)
    arguments = (
        residual, before.low, delta, now.low, trial.column, byte_leaf(trial), trial.cut, trial.side, num_rows,
        weights, sums, now.counts,
    )  # fmt: skip
    call_pass(passes[which], arguments)


@kernel(allocates=False)
def scatter_pass(
    residual: Ints, before: Slots, delta: Ints, now: Slots, trial: Trial, weights: Ints, num_rows: Int,
    sums: Longs, lanes: Longs2,
) -> None:  # fmt: skip
    """Move the residual and sum it for trees of any size, with weights, counted by leaf too, or without."""
    lanes[:, : now.leaves] = 0  # four, so that neighbouring rows of one leaf don't wait for each other's sum
    left = count = np.int64(0)
    weighted = len(weights) > 0
    if weighted:
        now.counts[: now.leaves] = 0
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
        if weighted:
            now.counts[s] += weight
        if s == trial.leaf and np.uint8(trial.column[i] + trial.side) <= trial.cut:
            left += weight * r
            count += weight
    sums[0], sums[1] = left, count
    for k in range(now.leaves):
        sums[TRIAL + k] = lanes[0, k] + lanes[1, k] + lanes[2, k] + lanes[3, k]
