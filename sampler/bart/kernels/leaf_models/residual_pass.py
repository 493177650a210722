"""Passes over the rows for a tree update: move the residual by the last tree's change, sum it by leaf.

A partial residual's sum in a leaf is the residual's sum plus count x old leaf value, so nothing is added
back. Up to 8 leaves the leaf is found by a chain of selects, which vectorises where an indexed scatter does
not; one kernel is compiled for each pair of leaf-count buckets of the previous and the current tree, with a
trial and without. Sums are of int32 in blocks of rows, flushed to int64: exact, whatever the block and the
vector width.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types

from sampler.bart.kernels.leaf_models.weighted_pass import BEFORE, BEFORE_BUCKET, NOW, NOW_BUCKET
from sampler.bart.kernels.state import MOST_LEAVES, TRIAL, Slots, Trial
from sampler.kernels.arrays import (
    NO_LEAF,
    Bool,
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

WEIGHTED_FIRST = 1  # Normal.passes has the fused pass, then those with weights

_pointer: Any = types.CPointer
_fused_t = void(
    _pointer(i4), _pointer(u1), _pointer(i4), _pointer(u1), _pointer(u1), u1, u1, u1, i8, i8, i8,
    _pointer(i8), i8, i8,
)  # fmt: skip
BytesAt = Annotated[Any, _pointer(u1)]
IntsAt = Annotated[Any, _pointer(i4)]
LongsAt = Annotated[Any, _pointer(i8)]


class FusedPass(NamedTuple):
    """Arguments of the fused pass; arrays are given by where they begin.

    Rows that pad the column have slot 255 in every tree, so they take the last leaf's change and enter only
    the total.
    """

    residual: IntsAt  # [rows]
    previous: BytesAt  # [rows], the previous tree's slots
    delta: IntsAt  # [at least 8], its change of leaf values
    current: BytesAt  # [rows], the current tree's slots
    column: BytesAt  # [rows], codes of the trial rule's column
    leaf: Byte  # its leaf, NO_LEAF for no trial
    cut: Byte  # its cut + side
    side: Byte
    rows: Int  # a multiple of 64
    padding: Int  # how many of them pad the column
    block: Int  # rows summed together, |residual| x block < 2^31
    sums: LongsAt  # [at least TRIAL + 8], where sums go


@kernel(inline=True, allocates=False)
def fuse(of: FusedPass, before: Int, now: Int, trial: Bool) -> None:
    """Run the pass for at most `before` leaves in the previous tree and `now` in the current one."""
    residual, previous, current, column, sums = of.residual, of.previous, of.current, of.column, of.sums
    leaf, cut, side, last = of.leaf, of.cut, of.side, now - 1
    zero: Int = np.int32(0)
    one: Int = np.int32(1)
    changes = load(of.delta, MOST_LEAVES)
    for k in range(MOST_LEAVES):
        sums[TRIAL + k] = 0
    left: Int = 0
    count = left
    for start in range(0, of.rows, of.block):
        by_leaf = repeat(zero, MOST_LEAVES)  # of the last leaf, everything
        a_left = a_count = zero
        for i in range(start, min(start + of.block, of.rows)):
            r = np.int32(residual[i] + value_at(changes, previous[i], before))
            residual[i] = r
            s = current[i]
            by_leaf = add_at(by_leaf, s, r, now)
            if trial:
                inside = (s == leaf) & (np.uint8(column[i] + side) <= cut)
                a_left = np.int32(a_left + (r if inside else zero))
                a_count = np.int32(a_count + (one if inside else zero))
        add_to(sums, TRIAL, by_leaf)
        left, count = left + a_left, count + a_count
    sums[0], sums[1] = left, count
    sums[TRIAL + last] -= of.padding * of.delta[before - 1]
    for k in range(last):
        sums[TRIAL + last] -= sums[TRIAL + k]


@kernel(inline=True, allocates=False)
def fuse_by_leaves_now(of: FusedPass, before: Int, now: Int, trial: Bool) -> None:
    """Run the pass for a constant that the current tree's leaves don't exceed."""
    if now <= 2:
        fuse(of, before, 2, trial)
    elif now == 3:
        fuse(of, before, 3, trial)
    elif now == 4:
        fuse(of, before, 4, trial)
    else:
        fuse(of, before, MOST_LEAVES, trial)


@kernel(inline=True, allocates=False)
def fuse_by_leaves(of: FusedPass, before: Int, now: Int, trial: Bool) -> None:
    """Run the pass for two constants that the leaves of the previous and the current tree don't exceed."""
    if before <= 2:
        fuse_by_leaves_now(of, 2, now, trial)
    elif before == 3:
        fuse_by_leaves_now(of, 3, now, trial)
    elif before == 4:
        fuse_by_leaves_now(of, 4, now, trial)
    else:
        fuse_by_leaves_now(of, MOST_LEAVES, now, trial)


def fused(
    residual: Ints, previous: Bytes, delta: Ints, current: Bytes,
    column: Bytes, leaf: Int, cut: Int, side: Int, rows: Int, padding: Int, block: Int, sums: Longs,
    before: Int, now: Int,
) -> None:  # fmt: skip
    """Run the pass that was compiled for such trees, with a trial or without."""
    of = FusedPass(residual, previous, delta, current, column, leaf, cut, side, rows, padding, block, sums)
    if leaf == NO_LEAF:
        fuse_by_leaves(of, before, now, False)
    else:
        fuse_by_leaves(of, before, now, True)


FUSED = pointer_kernel(__name__, _fused_t, fused)


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
    padding = len(residual) - num_rows
    arguments = (
        residual, before.low, delta, now.low, trial.column, byte_leaf(trial), trial.cut, trial.side,
        len(residual), padding, block, sums, before.leaves, now.leaves,
    )  # fmt: skip
    call_pass(passes[0], arguments)
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
    which = WEIGHTED_FIRST + place_of_pass(before, now, trial)
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
