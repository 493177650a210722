"""Passes over the rows of two leaves that a new rule will part anew; parameters as in `kernels.rows`."""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.state import LeafPair
from sampler.kernels.arrays import Byte, Bytes, Int, Ints
from sampler.kernels.jit import kernel


@kernel(allocates=False)
def mark_pair(slots: Bytes, high: Bytes, left: Int, right: Int, num_rows: Int, mask: Bytes) -> None:
    """Set `mask` to 1 and 2 for the rows of two leaves of a tree whose slots take two bytes."""
    for i in range(num_rows):
        slot = slots[i] + 256 * np.int64(high[i])
        mask[i] = np.uint8(1 if slot == left else (2 if slot == right else 0))


@kernel(allocates=False)
def unmark_pair(slots: Bytes, high: Bytes, left: Int, right: Int, num_rows: Int, mask: Bytes) -> None:
    """Set the slots of the rows that `mask` marks as 1 and 2."""
    for i in range(num_rows):
        if mask[i] != 0:
            slot = left if mask[i] == 1 else right
            slots[i] = np.uint8(slot & 255)
            high[i] = np.uint8(slot >> 8)


@kernel(allocates=False)
def reroute_pair(residual: Ints, pair: LeafPair, column: Bytes, cut: Byte, side: Byte) -> None:
    """Give the rows of two leaves their old values back (a new leaf may mix both) and a new rule."""
    slots, left, right = pair.slots, pair.left, pair.right
    for i in range(len(slots)):
        slot = slots[i]
        inside = (slot == left) | (slot == right)
        old = pair.left_old if slot == left else pair.right_old
        residual[i] = np.int32(residual[i] + (old if inside else np.int32(0)))
        new = left if np.uint8(column[i] + side) <= cut else right
        slots[i] = new if inside else slot


@kernel(allocates=False)
def give_back(residual: Ints, pair: LeafPair) -> None:
    """Give the rows of two leaves their old values back."""
    for i in range(len(pair.slots)):
        slot = pair.slots[i]
        inside = (slot == pair.left) | (slot == pair.right)
        old = pair.left_old if slot == pair.left else pair.right_old
        residual[i] = np.int32(residual[i] + (old if inside else np.int32(0)))


@kernel(allocates=False)
def left_part(
    residual: Ints, weights: Ints, pair: LeafPair, column: Bytes, cut: Byte, side: Byte, num_rows: Int
) -> tuple[Int, Int]:
    """Sum of partial residuals and count of the rows of two leaves that a rule sends left."""
    slots, left, right = pair.slots, pair.left, pair.right
    total = count = np.int64(0)
    if len(weights) > 0:
        for i in range(num_rows):
            slot = slots[i]
            inside = ((slot == left) | (slot == right)) & (np.uint8(column[i] + side) <= cut)
            weight = np.int64(weights[i]) if inside else np.int64(0)
            total += weight * (np.int64(residual[i]) + (pair.left_old if slot == left else pair.right_old))
            count += weight
        return total, count
    for i in range(num_rows):
        slot = slots[i]
        inside = ((slot == left) | (slot == right)) & (np.uint8(column[i] + side) <= cut)
        value = np.int64(residual[i]) + (pair.left_old if slot == left else pair.right_old)
        total += value if inside else 0
        count += np.int64(inside)
    return total, count
