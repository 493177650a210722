"""Passes over the rows of two leaves that a new rule will part anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.kernels.arrays import bytes_1, i4, i8, ints_1, u1, void
from sampler.kernels.jit import kernel

if TYPE_CHECKING:
    from sampler.kernels.arrays import Bytes, Int, Ints


@kernel(void(bytes_1, bytes_1, i8, i8, i8, bytes_1), allocates=False)
def mark_pair(slots: Bytes, high: Bytes, left: Int, right: Int, num_rows: Int, mask: Bytes) -> None:
    """Mask = 1 and 2 for the rows of two leaves of a tree whose slots take two bytes."""
    for i in range(num_rows):
        slot = slots[i] + 256 * np.int64(high[i])
        mask[i] = np.uint8(1 if slot == left else (2 if slot == right else 0))


@kernel(void(bytes_1, bytes_1, i8, i8, i8, bytes_1), allocates=False)
def unmark_pair(slots: Bytes, high: Bytes, left: Int, right: Int, num_rows: Int, mask: Bytes) -> None:
    """The slots that `mask` says."""
    for i in range(num_rows):
        if mask[i] != 0:
            slot = left if mask[i] == 1 else right
            slots[i] = np.uint8(slot & 255)
            high[i] = np.uint8(slot >> 8)


@kernel(void(ints_1, bytes_1, u1, u1, i4, i4, bytes_1, u1, u1), allocates=False)
def reroute_pair(
    residual: Ints, slots: Bytes, left: Int, right: Int, left_old: Int, right_old: Int,
    column: Bytes, cut: Int, side: Int,
) -> None:  # fmt: skip
    """Give the rows of two leaves their old values back (a new leaf may mix both) and a new rule."""
    for i in range(len(slots)):
        slot = slots[i]
        inside = (slot == left) | (slot == right)
        old = left_old if slot == left else right_old
        residual[i] = np.int32(residual[i] + (old if inside else np.int32(0)))
        new = left if np.uint8(column[i] + side) <= cut else right
        slots[i] = new if inside else slot


@kernel(void(ints_1, bytes_1, u1, u1, i4, i4), allocates=False)
def give_back(residual: Ints, slots: Bytes, first: Int, second: Int, first_old: Int, second_old: Int) -> None:
    """Give the rows of two leaves their old values back."""
    for i in range(len(slots)):
        slot = slots[i]
        inside = (slot == first) | (slot == second)
        old = first_old if slot == first else second_old
        residual[i] = np.int32(residual[i] + (old if inside else np.int32(0)))
