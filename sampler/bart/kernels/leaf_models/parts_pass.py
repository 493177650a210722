"""Fused passes of log-linear forests: rows multiplied, then their parts summed as whole multiples.

Twins of `weighted_pass`, with as many kernels, for the parts of `log_linear_pass`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from sampler.bart.kernels.leaf_models.log_linear_pass import whole
from sampler.bart.kernels.leaf_models.weighted_pass import passes
from sampler.bart.kernels.state import MOST_LEAVES, TRIAL
from sampler.kernels.arrays import Bytes, Float, Floats, Int, Ints, Longs, f8, i4, i8, u1, void
from sampler.kernels.by_slot import add_at, add_to, load, repeat, value_at

_pointer: Any = types.CPointer
_parts_t = void(
    _pointer(f8), _pointer(i4), _pointer(u1), _pointer(f8), _pointer(i4), _pointer(u1), _pointer(u1), u1, u1,
    u1, i8, _pointer(i4), f8, _pointer(i8),
)  # fmt: skip


def make_parts(before: Int, now: Int, *, tries: bool) -> Callable[..., None]:
    """Make the pass for at most `before` leaves in the previous tree and `now` in the current one.

    Its arguments: parts and logarithms of the rows, the previous tree's slots, its factors and change of leaf
    values, the current tree's slots, the trial rule's column, its leaf (NO_LEAF for no trial), cut + side and
    side, rows (those of the data), what each counts, the scale of whole parts, and where the sums go. Without
    `tries` it takes no trial.
    """
    last = now - 1

    def parts(
        part: Floats, log_value: Ints, previous: Bytes, factors: Floats, delta: Ints, current: Bytes,
        column: Bytes, leaf: Int, cut: Int, side: Int, rows: Int, counted: Ints, scale: Float, sums: Longs,
    ) -> None:  # fmt: skip
        multiples, changes = load(factors, before), load(delta, before)
        zero: Int = np.int64(0)
        by_leaf = repeat(zero, now)  # of the last leaf, everything
        left = count = zero
        for i in range(rows):
            p = previous[i]
            value = part[i] * value_at(multiples, p, before)
            part[i] = value
            log_value[i] = np.int32(log_value[i] - value_at(changes, p, before))
            s = current[i]
            v = whole(value, scale)
            by_leaf = add_at(by_leaf, s, v, now)
            inside = tries & (s == leaf) & (np.uint8(column[i] + side) <= cut)
            left += v if inside else zero
            count += np.int64(counted[i]) if inside else zero
        sums[0], sums[1] = left, count
        for k in range(MOST_LEAVES):
            sums[TRIAL + k] = 0
        add_to(sums, TRIAL, by_leaf)
        for k in range(last):
            sums[TRIAL + last] -= sums[TRIAL + k]

    parts.__qualname__ = f"parts_{before}_{now}{'_trial' if tries else ''}"
    return parts


PARTS = passes(__name__, _parts_t, make_parts)
