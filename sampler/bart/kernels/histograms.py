"""Passes of the rule draw over rows: sums by code of a column, and rows of one code that differ elsewhere.

Parameters are as in `sampler.kernels.rows`; `first` and `second` uint8 [rows] have the codes of two columns.
"""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.state import CodeSums, LeafPair
from sampler.kernels.arrays import MISSING, Bool, Byte, Bytes, Bytes2, Int, Ints, Longs, Longs2
from sampler.kernels.jit import kernel

COUNT_SHIFT = 40  # a bin holds a count above and a sum below this bit
SIZE_SHIFT = 37  # of weights, which sum to less (`Training.weight_unit`): the rows of a bin, above it
HISTOGRAM_BLOCK = 2048  # rows: a sum of |partial residual| < 2^27 stays inside 40 bits
COPIES = 4  # of a column's bins, for rows in turn: neighbours of one code needn't wait for each other


@kernel(inline=True, allocates=False)
def rows_of_pair(pair: LeafPair, start: Int, stop: Int) -> LeafPair:
    """Restrict a pair to a range of rows."""
    return LeafPair(pair.slots[start:stop], pair.left, pair.right, pair.left_old, pair.right_old)


@kernel(allocates=False)
def partial_residuals(pair: LeafPair, residual: Ints, values: Longs) -> None:
    """Pack a count of 1 with the partial residual (residual + old value) of each row; 0 outside the pair."""
    one = np.int64(1) << COUNT_SHIFT
    for i in range(len(pair.slots)):
        slot = pair.slots[i]
        inside = (slot == pair.left) | (slot == pair.right)
        value = one + residual[i] + (pair.left_old if slot == pair.left else pair.right_old)
        values[i] = value if inside else 0


@kernel(allocates=False)
def scatter_pair(first: Bytes, second: Bytes, values: Longs, first_bins: Longs, second_bins: Longs) -> None:
    """Add packed values to the bins of two columns' codes, in `COPIES` of them."""
    whole = len(first) // COPIES
    for k in range(whole):
        for copy in range(COPIES):
            i = COPIES * k + copy
            value = values[i]
            first_bins[256 * copy + first[i]] += value
            second_bins[256 * copy + second[i]] += value
    for i in range(COPIES * whole, len(first)):
        value = values[i]
        first_bins[first[i]] += value
        second_bins[second[i]] += value


@kernel(inline=True, allocates=False)
def unpack_bin(bins: Longs, code: Int, more: Bool, sums: Longs, counts: Longs) -> None:
    """Move a bin's sum (low 40 bits, signed) and count (the rest) out of its copies, adding if `more`."""
    packed = np.int64(0)
    for copy in range(COPIES):
        packed += bins[256 * copy + code]
        bins[256 * copy + code] = 0
    low = 64 - COUNT_SHIFT
    total = (packed << low) >> low
    count = (packed - total) >> COUNT_SHIFT
    sums[code] = total + (sums[code] if more else 0)
    counts[code] = count + (counts[code] if more else 0)


@kernel(inline=True, allocates=False)
def unpack_bins(bins: Longs, width: Int, more: Bool, sums: Longs, counts: Longs) -> None:
    """Unpack the bins of the codes below `width`, and the bin of missing values."""
    for code in range(width):
        unpack_bin(bins, code, more, sums, counts)
    unpack_bin(bins, MISSING, more, sums, counts)


@kernel(allocates=False)
def histograms(
    pair: LeafPair, residual: Ints, first: Bytes, second: Bytes, first_width: Int, second_width: Int,
    into: CodeSums,
) -> None:  # fmt: skip
    """Sum and count two leaves' partial residuals by code of two columns; codes are below the widths."""
    bins = into.bins
    for start in range(0, len(pair.slots), HISTOGRAM_BLOCK):
        stop = min(start + HISTOGRAM_BLOCK, len(pair.slots))
        partial_residuals(rows_of_pair(pair, start, stop), residual[start:stop], into.values)
        scatter_pair(first[start:stop], second[start:stop], into.values, bins[0], bins[1])
        unpack_bins(bins[0], first_width, start > 0, into.sums[0], into.counts[0])
        unpack_bins(bins[1], second_width, start > 0, into.sums[1], into.counts[1])


@kernel(allocates=False)
def scatter_two(first: Bytes, second: Bytes, values: Longs, first_bins: Longs, second_bins: Longs) -> None:
    """Add two values of each row to the two bins of its code of two columns: they stand side by side."""
    for i in range(len(first)):
        one, two = values[2 * i], values[2 * i + 1]
        a, b = 2 * np.int64(first[i]), 2 * np.int64(second[i])
        first_one, first_two = first_bins[a] + one, first_bins[a + 1] + two
        first_bins[a], first_bins[a + 1] = first_one, first_two
        second_one, second_two = second_bins[b] + one, second_bins[b + 1] + two
        second_bins[b], second_bins[b + 1] = second_one, second_two


@kernel(allocates=False)
def take_bins(bins: Longs2, sums: Longs2, counts: Longs2) -> None:
    """Move the two bins of every code of two columns out."""
    for which in range(2):
        for code in range(sums.shape[1]):
            sums[which, code], counts[which, code] = bins[which, 2 * code], bins[which, 2 * code + 1]
            bins[which, 2 * code] = bins[which, 2 * code + 1] = 0


@kernel(allocates=False)
def weighted_residuals(pair: LeafPair, residual: Ints, weights: Ints, values: Longs) -> None:
    """Weight x partial residual of each row, and its weight packed with a count of 1; 0 outside the pair."""
    one = np.int64(1) << SIZE_SHIFT
    for i in range(len(pair.slots)):
        slot = pair.slots[i]
        inside = (slot == pair.left) | (slot == pair.right)
        weight = np.int64(weights[i])
        value = weight * (np.int64(residual[i]) + (pair.left_old if slot == pair.left else pair.right_old))
        values[2 * i] = value if inside else 0
        values[2 * i + 1] = one + weight if inside else 0


@kernel(allocates=False)
def weighted_histograms(
    pair: LeafPair, residual: Ints, weights: Ints, first: Bytes, second: Bytes, num_rows: Int, into: CodeSums
) -> None:
    """Sum two leaves' weighted rows by code of two columns, and count the rows of each code."""
    bins, counts = into.bins, into.counts
    block = len(into.values) // 2
    for start in range(0, num_rows, block):
        stop = min(start + block, num_rows)
        rows = rows_of_pair(pair, start, stop)
        weighted_residuals(rows, residual[start:stop], weights[start:stop], into.values)
        scatter_two(first[start:stop], second[start:stop], into.values, bins[0], bins[1])
    take_bins(bins, into.sums, counts)
    for which in range(2):
        for code in range(counts.shape[1]):
            into.rows[which, code] = counts[which, code] >> SIZE_SHIFT
            counts[which, code] &= (np.int64(1) << SIZE_SHIFT) - 1


@kernel(inline=True, allocates=False)
def differ(codes: Bytes2, i: Int, k: Int) -> Bool:
    """Whether two rows differ in some column."""
    for j in range(len(codes)):  # noqa: SIM110  # compiled
        if codes[j, i] != codes[j, k]:
            return True
    return False


@kernel(allocates=False)
def group_splittable(
    codes: Bytes2,
    slots: Bytes,
    left: Byte,
    right: Byte,
    column: Bytes,
    code: Byte,
    num_rows: Int,
    examples: Ints,
) -> Bool:
    """Whether the rows of two leaves that have one code of a column differ in some other column.

    Nearly always two of the code's few example rows are there and differ; else all rows are looked at.
    """
    first: Int = -1
    for example in range(len(examples)):
        row = np.int64(examples[example])
        if row >= 0 and (slots[row] == left or slots[row] == right):
            if first >= 0 and differ(codes, row, first):
                return True
            first = row
    first = -1
    for start in range(0, num_rows, 64):
        stop = min(start + 64, num_rows)
        any_inside = np.uint8(0)
        for i in range(start, stop):
            inside = (column[i] == code) & ((slots[i] == left) | (slots[i] == right))
            any_inside = np.uint8(any_inside | np.uint8(inside))
        if any_inside == 0:
            continue
        for i in range(start, stop):
            if column[i] != code or (slots[i] != left and slots[i] != right):
                continue
            if first < 0:
                first = i
                continue
            if differ(codes, i, first):
                return True
    return False
