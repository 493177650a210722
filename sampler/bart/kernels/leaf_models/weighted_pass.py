"""Fused passes for rows with weights: sums of weight x residual, exact in 64 bits.

Half as many rows fit a register as without weights. Few kernels, by the leaves that each can tell apart in
the previous and in the current tree: the previous one's selects are cheap; for half of the updates, which try
no rule, there are kernels that don't look for its rows. Weights may change from sweep to sweep, so they are
counted by leaf as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from sampler.bart.kernels.state import MOST_LEAVES, TRIAL
from sampler.kernels.arrays import Bytes, Int, Ints, Longs, i4, i8, u1, void
from sampler.kernels.by_slot import add_at, add_to, load, repeat, value_at
from sampler.kernels.jit import Kernel, pointer_kernel

BEFORE = (3, 8)
NOW = (2, 3, 4, 8)
BEFORE_BUCKET = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])  # of a tree with that many leaves
NOW_BUCKET = np.array([0, 0, 0, 1, 2, 3, 3, 3, 3])

_pointer: Any = types.CPointer
_weighted_t = void(
    _pointer(i4), _pointer(u1), _pointer(i4), _pointer(u1), _pointer(u1), u1, u1, u1, i8, _pointer(i4),
    _pointer(i8), _pointer(i8),
)  # fmt: skip


def make_weighted(before: Int, now: Int, *, tries: bool) -> Callable[..., None]:
    """Make the fused pass (`residual_pass.fuse`) with weights int32 [rows] in place of a block of rows.

    The caller pads nothing: rows are those of the data, and sums of 64 bits can't overflow (`Training`
    chooses the weights' unit so). Weights of the current tree's leaves go to `counts`, int64 [at least 8].
    Without `tries` it takes no trial.
    """
    last = now - 1

    def weighted(
        residual: Ints, previous: Bytes, delta: Ints, current: Bytes,
        column: Bytes, leaf: Int, cut: Int, side: Int, rows: Int, weights: Ints, sums: Longs,
        counts: Longs,
    ) -> None:  # fmt: skip
        changes = load(delta, before)
        zero: Int = np.int64(0)
        by_leaf = weight_by_leaf = repeat(zero, now)  # of the last leaf, everything
        left = count = zero
        for i in range(rows):
            r = np.int32(residual[i] + value_at(changes, previous[i], before))
            residual[i] = r
            s = current[i]
            w = np.int64(weights[i])
            v = w * np.int64(r)
            by_leaf = add_at(by_leaf, s, v, now)
            weight_by_leaf = add_at(weight_by_leaf, s, w, now)
            inside = tries & (s == leaf) & (np.uint8(column[i] + side) <= cut)
            left += v if inside else zero
            count += w if inside else zero
        sums[0], sums[1] = left, count
        for k in range(MOST_LEAVES):
            sums[TRIAL + k] = counts[k] = 0
        add_to(sums, TRIAL, by_leaf)
        add_to(counts, 0, weight_by_leaf)
        for k in range(last):
            sums[TRIAL + last] -= sums[TRIAL + k]
            counts[last] -= counts[k]

    weighted.__qualname__ = f"weighted_{before}_{now}{'_trial' if tries else ''}"
    return weighted


def passes(module: str, signature: Any, make: Callable[..., Any]) -> list[Kernel]:
    """Register a pass for each number of leaves before and now, without a trial, then those with one."""
    return [
        pointer_kernel(module, signature, make(before, now, tries=tries))
        for tries in (False, True)
        for before in BEFORE
        for now in NOW
    ]


WEIGHTED = passes(__name__, _weighted_t, make_weighted)
