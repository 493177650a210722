"""Passes over the rows of a tree: code ranges of a leaf, relabelling, routing, settling the residual.

`slots` uint8 [rows] has each row's leaf slot, or its low byte where `high` uint8 [rows] has another one; rows
are padded to a multiple of LANES with PAD, `num_rows` counts those of the data. `column` uint8 [rows] has the
codes of one column, `codes` uint8 [p, rows] those of all. A rule is `cut` and `side` as `shifted` gives them.
`residual` int32 [rows] and `delta` int32 [leaves] are in grid steps, `weights` int32 [n] in units (empty: 1).
"""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import (
    CUT,
    FEATURE,
    LEFT,
    MISSING,
    PAD,
    RIGHT,
    SIDE,
    Bool,
    Byte,
    Bytes,
    Bytes2,
    Float,
    Int,
    Int32,
    Ints,
    Ints2,
)
from sampler.kernels.jit import kernel

SQUARE_BITS = 25  # of a sum of squares, summed apart from those above


@kernel(allocates=False)
def code_range(slots: Bytes, column: Bytes, leaf: Byte) -> tuple[Int, Int, Int]:
    """Lowest and highest present code of a column in a leaf, and whether any is missing there.

    (255, -1, ...) when no row of the leaf has a code.
    """
    low, above, missing = np.uint8(MISSING), np.uint8(0), np.uint8(0)
    for i in range(len(slots)):
        inside = slots[i] == leaf
        code = column[i]
        low = min(low, code if inside else np.uint8(MISSING))
        above = max(above, np.uint8(code + 1) if inside else np.uint8(0))  # a missing code wraps to 0
        missing = np.uint8(missing | (np.uint8(1) if inside & (code == MISSING) else np.uint8(0)))
    return np.int64(low), np.int64(above) - 1, np.int64(missing)


@kernel(allocates=False)
def splittable(
    codes: Bytes2, slots: Bytes, leaf: Byte, num_rows: Int, column: Bytes, cut: Byte, side: Byte, left: Bool
) -> Bool:
    """Whether the part of a leaf that a rule sends left (or right) holds two rows that differ in some column.

    `cut` and `side` as `shifted` gives them. Stops at the first pair, nearly always the first two rows; rows
    of other parts are passed over 64 at a time.
    """
    first = -1
    for start in range(0, num_rows, 64):
        stop = min(start + 64, num_rows)
        any_inside = np.uint8(0)
        for i in range(start, stop):
            inside = (slots[i] == leaf) & ((np.uint8(column[i] + side) <= cut) == left)
            any_inside = np.uint8(any_inside | np.uint8(inside))
        if any_inside == 0:
            continue
        for i in range(start, stop):
            if slots[i] != leaf or (np.uint8(column[i] + side) <= cut) != left:
                continue
            if first < 0:
                first = i
                continue
            for j in range(len(codes)):
                if codes[j, i] != codes[j, first]:
                    return True
    return False


@kernel(allocates=False)
def shifted(cut: Int, side: Int) -> tuple[Byte, Byte]:
    """Shift a rule to one comparison: a code goes left iff uint8(code + side) <= uint8(cut + side).

    With the missing on the left, adding 1 wraps their code 255 to 0.
    """
    return np.uint8(cut + side), np.uint8(side)


@kernel(allocates=False)
def relabel_grown(slots: Bytes, column: Bytes, leaf: Byte, cut: Byte, side: Byte, new: Byte) -> None:
    """Give the rows of a leaf that its new rule sends right the new slot."""
    for i in range(len(slots)):
        right = (slots[i] == leaf) & (np.uint8(column[i] + side) > cut)
        slots[i] = new if right else slots[i]


@kernel(allocates=False)
def relabel_pruned(slots: Bytes, keep: Byte, drop: Byte, last: Byte) -> None:
    """Join slot `drop` to `keep`, and give `last` the number that became free."""
    for i in range(len(slots)):
        slot = slots[i]
        joined = keep if slot == drop else slot
        slots[i] = drop if (slot == last) & (last != drop) else joined


@kernel(allocates=False)
def relabel_grown_wide(
    slots: Bytes, high: Bytes, column: Bytes, leaf: Int, cut: Byte, side: Byte, new: Int, num_rows: Int
) -> None:
    """Relabel as `relabel_grown`, for slots of two bytes."""
    for i in range(num_rows):
        if slots[i] + 256 * np.int64(high[i]) == leaf and np.uint8(column[i] + side) > cut:
            slots[i] = np.uint8(new & 255)
            high[i] = np.uint8(new >> 8)


@kernel(allocates=False)
def relabel_pruned_wide(slots: Bytes, high: Bytes, keep: Int, drop: Int, last: Int, num_rows: Int) -> None:
    """Relabel as `relabel_pruned`, for slots of two bytes."""
    for i in range(num_rows):
        slot = slots[i] + 256 * np.int64(high[i])
        if slot == drop:
            slot = keep
        elif slot == last:
            slot = drop
        slots[i] = np.uint8(slot & 255)
        high[i] = np.uint8(slot >> 8)


@kernel(allocates=False)
def mark_leaf(slots: Bytes, high: Bytes, leaf: Int, num_rows: Int, mask: Bytes) -> None:
    """Set `mask` to 1 for the rows of a leaf of a tree whose slots take two bytes, else 0."""
    for i in range(num_rows):
        mask[i] = np.uint8(slots[i] + 256 * np.int64(high[i]) == leaf)


@kernel(allocates=False)
def settle(
    residual: Ints, slots: Bytes, high: Bytes, wide: Bool, delta: Ints, now: Int, weights: Ints, num_rows: Int
) -> tuple[Float, Int]:
    """Apply a tree's change of leaf values; return the residual's sum of squares and largest absolute value.

    `now` 0: there is no change to apply. The sum is taken in integers, so the order of rows is no matter:
    |residual| < 2^25, and the weights sum to less than 2^37 (`Training.weight_unit`).
    """
    weighted = len(weights) > 0
    largest = high_part = low_part = np.int64(0)
    for start in range(0, num_rows, 1024):
        block = np.int64(0)
        for i in range(start, min(start + 1024, num_rows)):
            r = np.int64(residual[i])
            if now > 0:
                slot = np.int64(slots[i])
                if wide:
                    slot += 256 * np.int64(high[i])
                r += delta[slot]
                residual[i] = np.int32(r)
            largest = max(largest, abs(r))
            square = r * r
            if weighted:
                weight = np.int64(weights[i])
                high_part += weight * (square >> SQUARE_BITS)
                low_part += weight * (square & ((1 << SQUARE_BITS) - 1))
            else:
                block += square
        high_part += block >> SQUARE_BITS
        low_part += block & ((1 << SQUARE_BITS) - 1)
    high_part += low_part >> SQUARE_BITS
    low_part &= (1 << SQUARE_BITS) - 1
    return float(high_part) * 2.0**SQUARE_BITS + float(low_part), largest


@kernel(allocates=False)
def largest_absolute(residual: Ints) -> Int:
    """Find the largest absolute value of the residual."""
    low, high = np.int32(0), np.int32(0)
    for i in range(len(residual)):
        low = min(low, residual[i])
        high = max(high, residual[i])
    return max(np.int64(high), -np.int64(low))


@kernel(allocates=False)
def route(
    codes: Bytes2, node: Ints2, num_leaves: Int32, slots: Bytes, high: Bytes, wide: Bool, num_rows: Int
) -> None:
    """Walk every row down a tree to its leaf slot; rows that pad get PAD."""
    for i in range(len(slots)):
        at = 0 if num_leaves > 1 else ~0
        while at >= 0:
            side = np.uint8(node[at, SIDE])
            code = np.uint8(codes[node[at, FEATURE], i] + side)
            at = node[at, LEFT] if code <= np.uint8(node[at, CUT] + side) else node[at, RIGHT]
        slot = ~at
        slots[i] = np.uint8(slot & 255) if i < num_rows else np.uint8(PAD)
        if wide:
            high[i] = np.uint8(slot >> 8)


@kernel(allocates=False, entry=True)
def find_examples(column: Bytes, num_rows: Int, examples: Ints2) -> None:
    """Find the first few rows of each code of a column, -1 where there are no more."""
    examples[:] = -1
    for i in range(num_rows):
        code = column[i]
        for k in range(examples.shape[1]):
            if examples[code, k] < 0:
                examples[code, k] = i
                break
