"""Sums of the parts of log-linear forests by code of a column, for the exact rule draw."""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.histograms import rows_of_pair, scatter_two, take_bins
from sampler.bart.kernels.leaf_models.log_linear_pass import old_factors, whole
from sampler.bart.kernels.state import CodeSums, LeafPair
from sampler.kernels.arrays import Bytes, Float, Floats, Int, Ints, Longs
from sampler.kernels.jit import kernel


@kernel(allocates=False)
def parts_and_counts(
    part: Floats, weights: Ints, scale: Float, pair: LeafPair, left_factor: Float, right_factor: Float,
    values: Longs,
) -> None:  # fmt: skip
    """Whole part without this tree of each row, and its weight; 0 outside the pair."""
    slots, left, right, zero = pair.slots, pair.left, pair.right, np.int64(0)
    for i in range(len(slots)):
        slot = slots[i]
        inside = (slot == left) | (slot == right)
        value = whole(part[i] * (left_factor if slot == left else right_factor), scale)
        weight = np.int64(weights[i]) if len(weights) > 0 else np.int64(1)
        values[2 * i] = value if inside else zero
        values[2 * i + 1] = weight if inside else zero


@kernel(allocates=False)
def sum_by_code(
    part: Floats, weights: Ints, scale: Float, pair: LeafPair, first: Bytes, second: Bytes, num_rows: Int,
    into: CodeSums,
) -> None:  # fmt: skip
    """Sum two leaves' parts without this tree by code of two columns, and count them.

    Rows are counted too where they have weights.
    """
    left_factor, right_factor = old_factors(pair)
    block = len(into.values) // 2
    for start in range(0, num_rows, block):
        stop = min(start + block, num_rows)
        rows, weight = rows_of_pair(pair, start, stop), weights[start:stop]
        parts_and_counts(part[start:stop], weight, scale, rows, left_factor, right_factor, into.values)
        scatter_two(first[start:stop], second[start:stop], into.values, into.bins[0], into.bins[1])
    take_bins(into.bins, into.sums, into.counts)
    if len(weights) == 0:
        return
    into.rows[:] = 0
    for i in range(num_rows):
        slot = pair.slots[i]
        inside = np.int64((slot == pair.left) | (slot == pair.right))
        into.rows[0, first[i]] += inside
        into.rows[1, second[i]] += inside
