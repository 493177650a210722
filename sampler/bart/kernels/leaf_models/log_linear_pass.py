"""Passes over the rows of log-linear forests.

Parts of s are summed as whole numbers: each is rounded to a multiple of 1 / scale by one addition, so a sum
is exact and has no order. Exponentials and log Gamma are plain arithmetic, the same on every processor.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.state import LeafPair, Slots, Trial
from sampler.kernels.arrays import Bool, Byte, Bytes, Float, Floats, Int, Ints, Longs, Model, Words
from sampler.kernels.exponential import FARTHEST, WHOLE, WHOLE_BITS, exponential_within
from sampler.kernels.jit import kernel
from sampler.kernels.logarithm import logarithm
from sampler.kernels.random import gamma

STEP = 2.0**-20  # of logarithms of leaf values
MOST_STEPS = 2.0**25  # |log of a leaf value| is at most 32
LOG_LIMIT = 1 << 30  # steps, of |log f|
TRIAL = 2  # place of the first leaf's sum in `Work.sums`
COARSER = 256.0
ROOM = 1 << 51  # of a sum of whole parts: a part may be as large and is still rounded right
TARGET = 43  # bits of the sum of all parts at the start of a sweep
ROWS_OF_A_SUM = 1024  # floats are summed block by block, so that the order is fixed

LARGE = 12  # from here on Stirling's series is exact to rounding
HALF_LOG_2PI = 0.9189385332046727


@kernel(inline=True, allocates=False)
def exponential(x: Float) -> Float:
    """Compute e^x, x within +-700 (else that of the end), within 1e-15, relatively."""
    return exponential_within(max(-FARTHEST, min(FARTHEST, x)))


@kernel(inline=True, allocates=False)
def log_gamma_inline(x: Float) -> Float:
    """Compute log Gamma(x), x > 0, without a branch: Stirling's series, small arguments by the recurrence."""
    shift = 1.0
    for k in range(LARGE):
        shift *= x + float(k)
    small = x < float(LARGE)
    x = x + float(LARGE) if small else x
    inverse = 1.0 / x
    y = inverse * inverse
    series = -691.0 / 360360.0
    series = series * y + 1.0 / 1188.0
    series = series * y - 1.0 / 1680.0
    series = series * y + 1.0 / 1260.0
    series = series * y - 1.0 / 360.0
    series = series * y + 1.0 / 12.0
    value = (x - 0.5) * logarithm(x) - x + HALF_LOG_2PI + series * inverse
    return value - (logarithm(shift) if small else 0.0)


@kernel(allocates=False, entry=True)
def log_gamma(x: Float) -> Float:
    """Compute log Gamma(x), x > 0."""
    return log_gamma_inline(x)


@kernel(allocates=False, entry=True)
def tabulate_log_gamma(shape: Float, table: Floats) -> None:
    """Set the table of log Gamma(shape + k / 2)."""
    for k in range(len(table)):
        table[k] = log_gamma(shape + 0.5 * float(k))


@kernel(inline=True, allocates=False)
def draw_log_value(leaf_law: Floats, size: Float, total: Float, random: Words) -> Float:
    """Draw the logarithm of a leaf value, Gamma(shape + r, rate + s), in steps, not yet rounded."""
    value = gamma(random, leaf_law[0] + size) / (leaf_law[1] + max(total, 0.0))
    return max(-MOST_STEPS, min(MOST_STEPS, math.log(value) / STEP))


@kernel(inline=True, allocates=False)
def evidence(leaf_law: Floats, table: Floats, size: Float, total: Float) -> Float:
    """Log evidence, log Gamma(shape + r) - (shape + r) log(rate + s); log Gamma of half r is in a table."""
    shape = leaf_law[0] + size
    place = np.int64(2.0 * size)
    tabled = 0 <= place < len(table) and 0.5 * float(place) == size
    constant = table[place] if tabled else log_gamma(shape)
    return constant - shape * math.log(leaf_law[1] + max(total, 0.0))


@kernel(inline=True, allocates=False)
def tabled(table: Floats, size: Float) -> Float:
    """Look up log Gamma(shape + r) for r `size`, a half or whole number that the table has."""
    return table[np.uint64(np.float64(2.0 * size + WHOLE).view(np.int64) - WHOLE_BITS)]


@kernel(allocates=False)
def pair_evidences(
    leaf_law: Floats, table: Floats, unit: Float, total: Float, size: Float, terms: Floats, sizes: Floats
) -> None:
    """Replace the totals of left parts, in `terms`, by the evidence of left and right; sizes by 1.

    `total` and `size` are of both parts, sizes multiples of `unit`.
    """
    shape, rate = leaf_law[0], leaf_law[1]
    for k in range(len(terms)):
        left, right = shape + sizes[k], shape + (size - sizes[k])
        term = left * logarithm(rate + max(terms[k], 0.0))
        terms[k] = -term - right * logarithm(rate + max(total - terms[k], 0.0))
    if 2.0 * size < float(len(table)) and 2.0 * unit == np.floor(2.0 * unit):
        for k in range(len(terms)):  # apart: what looks up places of an array does not vectorise
            terms[k] += tabled(table, sizes[k]) + tabled(table, size - sizes[k])
            sizes[k] = 1.0
        return
    for k in range(len(terms)):
        terms[k] += log_gamma_inline(shape + sizes[k]) + log_gamma_inline(shape + (size - sizes[k]))
        sizes[k] = 1.0


@kernel(inline=True, allocates=False)
def whole(part: Float, scale: Float) -> Int:
    """Round a part to whole units."""
    return np.float64(part * scale + WHOLE).view(np.int64) - WHOLE_BITS


@kernel(inline=True, allocates=False)
def slot_at(slots: Slots, row: Int) -> Int:
    """Look up the leaf slot of a row."""
    slot = np.int64(slots.low[row])
    if slots.wide:
        slot += 256 * np.int64(slots.high[row])
    return slot


@kernel(allocates=False)
def set_factors(delta: Ints, leaves: Int, factors: Floats) -> None:
    """Find what the rows of each leaf are multiplied by; `delta` has old less new logarithms.

    Eight at a time: there is room, and what is beyond the leaves is 0 or not used.
    """
    for k in range((leaves + 7) & ~7):
        factors[k] = exponential(-STEP * float(delta[k]))


@kernel(allocates=False)
def move_and_scatter(
    model: Model, num_rows: Int, before: Slots, delta: Ints, now: Slots, trial: Trial, sums: Longs
) -> None:
    """Move and sum as the fused passes (`parts_pass`), for trees of any size."""
    part, log_value, weights = model.part, model.log_value, model.weights
    factors, scale = model.factors, model.scale[0]
    for k in range(TRIAL + now.leaves):
        sums[k] = 0
    left = count = np.int64(0)
    for i in range(num_rows):
        p, s = slot_at(before, i), slot_at(now, i)
        value = part[i] * factors[p]
        part[i] = value
        log_value[i] -= delta[p]
        v = whole(value, scale)
        sums[TRIAL + s] += v
        inside = (s == trial.leaf) & (np.uint8(trial.column[i] + trial.side) <= trial.cut)
        left += v if inside else np.int64(0)
        seen = np.int64(weights[i]) if len(weights) > 0 else np.int64(1)
        count += seen if inside else np.int64(0)
    sums[0], sums[1] = left, count


@kernel(allocates=False)
def sum_parts(model: Model, num_rows: Int, now: Slots, trial: Trial, sums: Longs) -> None:
    """Sum the parts by slots, as a pass does after the move."""
    part, weights, scale = model.part, model.weights, model.scale[0]
    for k in range(TRIAL + now.leaves):
        sums[k] = 0
    left = count = np.int64(0)
    for i in range(num_rows):
        s = slot_at(now, i)
        v = whole(part[i], scale)
        sums[TRIAL + s] += v
        inside = (s == trial.leaf) & (np.uint8(trial.column[i] + trial.side) <= trial.cut)
        left += v if inside else np.int64(0)
        seen = np.int64(weights[i]) if len(weights) > 0 else np.int64(1)
        count += seen if inside else np.int64(0)
    sums[0], sums[1] = left, count


@kernel(allocates=False)
def outgrown(sums: Longs, leaves: Int) -> Bool:
    """Whether a sum of parts is beyond what the scale leaves room for."""
    is_outside = False
    for k in range(leaves):
        is_outside |= not 0 <= sums[TRIAL + k] < ROOM
    return is_outside


@kernel(allocates=False)
def settle(log_value: Ints, num_rows: Int, before: Slots, delta: Ints) -> Int:
    """Apply a change of leaf values to the rows' log f; returns the largest |log f|."""
    largest = np.int64(0)
    for i in range(num_rows):
        log_value[i] -= delta[slot_at(before, i)]
        largest = max(largest, abs(np.int64(log_value[i])))
    return largest


@kernel(inline=True, allocates=False)
def old_factors(pair: LeafPair) -> tuple[Float, Float]:
    """Find the factors that take their old values out of the rows of two leaves."""
    return exponential(-STEP * float(pair.left_old)), exponential(-STEP * float(pair.right_old))


@kernel(allocates=False)
def give_back(part: Floats, log_value: Ints, pair: LeafPair) -> None:
    """Divide the rows of two leaves by their old values."""
    left_factor, right_factor = old_factors(pair)
    slots, left, right = pair.slots, pair.left, pair.right
    left_old, right_old, zero = pair.left_old, pair.right_old, np.int32(0)
    for i in range(len(slots)):
        slot = slots[i]
        part[i] *= left_factor if slot == left else (right_factor if slot == right else 1.0)
        log_value[i] -= left_old if slot == left else (right_old if slot == right else zero)


@kernel(allocates=False)
def reroute(pair: LeafPair, column: Bytes, cut: Byte, side: Byte) -> None:
    """Send the rows of two leaves by a new rule."""
    slots, left, right = pair.slots, pair.left, pair.right
    for i in range(len(slots)):
        slot = slots[i]
        new = left if np.uint8(column[i] + side) <= cut else right
        slots[i] = new if (slot == left) | (slot == right) else slot


@kernel(allocates=False)
def left_part(
    part: Floats, weights: Ints, scale: Float, pair: LeafPair, column: Bytes, cut: Byte, side: Byte,
    num_rows: Int,
) -> tuple[Int, Int]:  # fmt: skip
    """Sum of parts without this tree, and count, of the rows of two leaves that a rule sends left."""
    left_factor, right_factor = old_factors(pair)
    total = count = np.int64(0)
    for i in range(num_rows):
        slot = pair.slots[i]
        if ((slot == pair.left) | (slot == pair.right)) & (np.uint8(column[i] + side) <= cut):
            total += whole(part[i] * (left_factor if slot == pair.left else right_factor), scale)
            count += np.int64(weights[i]) if len(weights) > 0 else np.int64(1)
    return total, count


@kernel(allocates=False, entry=True)
def weigh(
    log_value: Ints, precision: Floats, num_rows: Int, bits: Int, values: Floats, weights: Ints
) -> Float:
    """Set every row's f, and whole weights in proportion to `precision` times f; returns their unit.

    It is the power of two with which they sum to just under 2^bits, and none exceeds 2^30. A row of given
    weight 0 has weight 0, any other at least 1. `precision` float64 [n], empty: all 1.
    """
    for i in range(num_rows):
        values[i] = exponential(STEP * float(log_value[i]))
    total = largest = 0.0
    for start in range(0, num_rows, ROWS_OF_A_SUM):
        of_block = 0.0
        for i in range(start, min(start + ROWS_OF_A_SUM, num_rows)):
            weight = values[i] * (precision[i] if len(precision) > 0 else 1.0)
            of_block += weight
            largest = max(largest, weight)
        total += of_block
    exponent = max(math.floor(math.log2(total)) + 1 - bits, math.floor(math.log2(largest)) + 1 - 30)
    unit = 2.0**exponent
    for i in range(num_rows):
        weight = precision[i] if len(precision) > 0 else 1.0
        rounded = np.int32(max(np.rint(values[i] * weight / unit), 1.0))
        weights[i] = rounded if weight > 0.0 else np.int32(0)
    return unit


@kernel(allocates=False, entry=True)
def begin_precision(
    part: Floats, values: Floats, weights: Floats, residual: Ints, variance: Float, num_rows: Int
) -> Float:
    """Set every row's part, w e^2 f / (2 variance), for a forest of precisions; returns their sum.

    `values` are the rows' f, `weights` w float64 [n], empty: all 1; e is the residual, and `variance` that of
    a row of weight 1 where f is 1.
    """
    for i in range(num_rows):
        error = float(residual[i])
        weight = weights[i] if len(weights) > 0 else 1.0
        part[i] = 0.5 * weight * error * error / variance * values[i]
    total = 0.0
    for start in range(0, num_rows, ROWS_OF_A_SUM):
        of_block = 0.0
        for i in range(start, min(start + ROWS_OF_A_SUM, num_rows)):
            of_block += part[i]
        total += of_block
    return total
