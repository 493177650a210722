"""Exact draw of one split rule (docs/maths.md#exact-rule-draw): no proposal, no rejection.

At a split whose children are leaves, the sums of partial residuals by code give the evidence of every rule
of a column at once, so the rule can be drawn from its full conditional among all rules of two columns: the
split's own and one other.
"""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.histograms import group_splittable
from sampler.bart.kernels.leaf_models.operations import pair_term, pair_terms, units
from sampler.kernels.arrays import MISSING, Byte, Bytes, Data, Float, Floats, Int, Longs, Model, Words
from sampler.kernels.exponential import FARTHEST, exponential_within
from sampler.kernels.jit import kernel
from sampler.kernels.random import next_word, uniform
from sampler.kernels.rules import PRESENT_OR_MISSING, num_rules

CODES = 256
TERMS = 2 * CODES  # a term for each cut with the missing right, then left; the last is present | missing
LAST_TERM = TERMS - 1

# info of a column at a node: codes, whether some are missing, how many rules, which groups can be split
LOW, SECOND, BELOW, HIGH, GAPS, RULES, LOW_SPLITS, HIGH_SPLITS, MISSING_SPLITS = 0, 1, 2, 3, 4, 5, 6, 7, 8
INFO_SIZE = 9


@kernel(inline=True, allocates=False)
def exp_negative(x: Float) -> Float:
    """Compute e^x for x <= 0 (0 below -700), within 1e-15, relatively."""
    value = exponential_within(max(x, -FARTHEST))
    return value if x > -FARTHEST else 0.0


@kernel(inline=True, allocates=False)
def occupied(counts: Longs, width: Int) -> tuple[Int, Int, Int, Int]:
    """Find four occupied codes: the lowest, the next one up, the next one below the highest, the highest.

    All are the same when only one code is occupied, and -1 when none is.
    """
    lowest = np.int64(0)
    while lowest < width and counts[lowest] == 0:
        lowest += 1
    if lowest == width:
        return np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1)
    highest = np.int64(width - 1)
    while counts[highest] == 0:
        highest -= 1
    second, below = lowest, highest
    if highest > lowest:
        second, below = lowest + 1, highest - 1
        while counts[second] == 0:
            second += 1
        while counts[below] == 0:
            below -= 1
    return lowest, second, below, highest


@kernel(allocates=False)
def look_at_groups(
    data: Data, slots: Bytes, left: Byte, right: Byte, column: Int, counts: Longs, info: Longs
) -> None:
    """Find what the valid-split factors of a column's rules need, into `info` (its columns are named above).

    A child with two occupied codes of the column can be split. Only the rows of the lowest code, of the
    highest and the missing ones can be a child alone, so only these groups are looked at.
    """
    low, second, below, high = occupied(counts, data.high[column] + 1)
    missing = np.int64(counts[MISSING] > 0)
    info[LOW], info[SECOND], info[BELOW], info[HIGH], info[GAPS] = low, second, below, high, missing
    info[RULES] = num_rules(low, high, missing) if low >= 0 else 0
    info[LOW_SPLITS] = info[HIGH_SPLITS] = info[MISSING_SPLITS] = 0
    if info[RULES] == 0:
        return
    codes, values, rows, examples = data.codes, data.codes[column], data.num_rows, data.examples[column]
    if counts[low] > 1:
        info[LOW_SPLITS] = counts[low] > data.most_equal or group_splittable(
            codes, slots, left, right, values, np.uint8(low), rows, examples[low]
        )
    if high > low and counts[high] > 1:
        info[HIGH_SPLITS] = counts[high] > data.most_equal or group_splittable(
            codes, slots, left, right, values, np.uint8(high), rows, examples[high]
        )
    if counts[MISSING] > 1:
        info[MISSING_SPLITS] = counts[MISSING] > data.most_equal or group_splittable(
            codes, slots, left, right, values, np.uint8(MISSING), rows, examples[MISSING]
        )


@kernel(inline=True, allocates=False)
def highest_of(values: Floats) -> Float:
    """Find the largest value, four at a time: one comparison need not wait for the last."""
    a = b = c = d = -np.inf
    whole = len(values) // 4
    for k in range(whole):
        a, b = max(a, values[4 * k]), max(b, values[4 * k + 1])
        c, d = max(c, values[4 * k + 2]), max(d, values[4 * k + 3])
    for k in range(4 * whole, len(values)):
        a = max(a, values[k])
    return max(a, b, c, d)


@kernel(inline=True, allocates=False)
def left_parts(
    sums: Longs,
    counts: Longs,
    left_sum: Int,
    left_count: Int,
    size_unit: Float,
    total_unit: Float,
    totals: Floats,
    sizes: Floats,
) -> tuple[Int, Int]:
    """Compute total and size of the left part at every cut of a range of codes, from a sum and a count on.

    Returns the sum and count of the last.
    """
    for cut in range(len(totals)):
        left_sum += sums[cut]
        left_count += counts[cut]
        totals[cut] = total_unit * float(left_sum)
        sizes[cut] = size_unit * float(left_count)
    return left_sum, left_count


@kernel(inline=True, allocates=False)
def multiply(values: Floats, factor: Float) -> None:
    """Multiply every value by a factor."""
    for k in range(len(values)):
        values[k] *= factor


@kernel(allocates=False)
def weigh_rules(
    model: Model, sums: Longs, counts: Longs, stay: Float, info: Longs, terms: Floats, factors: Floats
) -> Float:
    """Weigh every rule by e^(l(left) + l(right)) s(left) s(right) = factors e^terms; return the largest term.

    `stay` is s of a child that can be split. A cut stands at its number with the missing on the right (or
    none), at CODES + its number with them on the left; the rule present | missing is LAST_TERM.
    """
    low, second, below, high = info[LOW], info[SECOND], info[BELOW], info[HIGH]
    gaps = info[GAPS] != 0
    low_stay = stay if info[LOW_SPLITS] != 0 else 1.0
    high_stay = stay if info[HIGH_SPLITS] != 0 else 1.0
    size_unit, total_unit = units(model)
    right_terms, right_factors = terms[low:high], factors[low:high]
    present, present_count = left_parts(
        sums[low:high], counts[low:high], 0, 0, size_unit, total_unit, right_terms, right_factors
    )
    present, present_count = present + sums[high], present_count + counts[high]
    missing, missing_count = sums[MISSING], counts[MISSING]
    total, size = total_unit * float(present + missing), size_unit * float(present_count + missing_count)
    pair_terms(model, total, size, right_terms, right_factors)
    multiply(factors[low:second], low_stay)
    multiply(factors[second:high], stay)
    multiply(factors[low:high] if gaps else factors[low:below], stay)
    if not gaps:
        multiply(factors[below:high], high_stay)
        return highest_of(right_terms)
    left_terms, left_factors = terms[CODES + low : CODES + high], factors[CODES + low : CODES + high]
    left_parts(
        sums[low:high],
        counts[low:high],
        missing,
        missing_count,
        size_unit,
        total_unit,
        left_terms,
        left_factors,
    )
    pair_terms(model, total, size, left_terms, left_factors)
    multiply(left_factors, stay)
    multiply(factors[CODES + low : CODES + below], stay)
    multiply(factors[CODES + below : CODES + high], high_stay)
    terms[LAST_TERM], factors[LAST_TERM] = pair_term(
        model, total_unit * float(present), size_unit * float(present_count), total_unit * float(missing),
        size_unit * float(missing_count),
    )  # fmt: skip
    factors[LAST_TERM] *= (stay if high > low else low_stay) * (stay if info[MISSING_SPLITS] != 0 else 1.0)
    return max(highest_of(right_terms), highest_of(left_terms), terms[LAST_TERM])


@kernel(inline=True, allocates=False)
def sum_range(terms: Floats, factors: Floats, largest: Float) -> Float:
    """Compute `factors` e^(terms - largest) and return their sum: four at a time, in a fixed order."""
    for k in range(len(terms)):
        factors[k] *= exp_negative(terms[k] - largest)
    a = b = c = d = 0.0
    whole = len(terms) // 4
    for k in range(whole):
        a += factors[4 * k]
        b += factors[4 * k + 1]
        c += factors[4 * k + 2]
        d += factors[4 * k + 3]
    for k in range(4 * whole, len(terms)):
        a += factors[k]
    return (a + b) + (c + d)


@kernel(allocates=False)
def sum_rules(info: Longs, terms: Floats, factors: Floats, largest: Float) -> Float:
    """Make every factor the rule's weight relative to e^largest, and return their sum."""
    low, high = info[LOW], info[HIGH]
    total = sum_range(terms[low:high], factors[low:high], largest)
    if info[GAPS] != 0:
        total += sum_range(terms[CODES + low : CODES + high], factors[CODES + low : CODES + high], largest)
        factors[LAST_TERM] *= exp_negative(terms[LAST_TERM] - largest)
        total += factors[LAST_TERM]
    return total


@kernel(inline=True, allocates=False)
def flip(random: Words) -> Int:
    """Flip a fair coin."""
    return np.int64(next_word(random) >> np.uint64(63))


@kernel(allocates=False)
def pick_rule(info: Longs, factors: Floats, total: Float, random: Words) -> tuple[Int, Int]:
    """Draw a rule (cut, side) by its weight; with nothing missing the side is a coin."""
    low, high = info[LOW], info[HIGH]
    left = uniform(random) * total
    if info[GAPS] != 0:
        left -= factors[LAST_TERM]
        if left < 0.0:
            return PRESENT_OR_MISSING, 0
    sides = 2 if info[GAPS] != 0 else 1
    cut: Int = np.int64(-1)
    side: Int = np.int64(0)
    for at in range(sides):
        for k in range(low, high):
            if factors[at * CODES + k] > 0.0:  # rounding may leave a little over: then the last possible rule
                cut, side = k, at
                left -= factors[at * CODES + k]
                if left < 0.0:
                    break
        if left < 0.0:
            break
    if cut < 0:
        return PRESENT_OR_MISSING, 0
    return cut, side if sides == 2 else flip(random)
