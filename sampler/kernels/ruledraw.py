"""The exact draw of one split rule (`sampler_math` 14.3): no proposal, no rejection.

At a split whose children are leaves, the sums of partial residuals by code give the evidence of every rule
of a column at once, so the rule can be drawn from its full conditional among all rules of two columns: the
split's own and one other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sampler.compile import kernel
from sampler.kernels.random import next_word, uniform
from sampler.kernels.rules import PRESENT_OR_MISSING, num_rules
from sampler.kernels.shapes import (
    LIKELIHOOD,
    MISSING,
    SIGMA2,
    TAU2,
    UNIT,
    array,
    boolean,
    bytes_1,
    bytes_2,
    data_t,
    f8,
    floats_1,
    i4,
    i8,
    ints_1,
    longs_1,
    longs_2,
    pair,
    u1,
    void,
    words_1,
)

if TYPE_CHECKING:
    from sampler.kernels.shapes import Bool, Bytes, Data, Float, Floats, Int, Ints, Longs, Words

CODES = 256
COUNT_SHIFT = 40  # a bin holds a count above and a sum below this bit
HISTOGRAM_BLOCK = 2048  # rows: a sum of |partial residual| < 2^27 stays inside 40 bits
TERMS = 2 * CODES  # a term for each cut with the missing right, then left; the last is present | missing
LAST_TERM = TERMS - 1

# info of a column at a node: codes, whether some are missing, how many rules, which groups can be split
LOW, SECOND, BELOW, HIGH, GAPS, RULES, LOW_SPLITS, HIGH_SPLITS, MISSING_SPLITS = 0, 1, 2, 3, 4, 5, 6, 7, 8
INFO_SIZE = 9

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # the first 33 bits, so that its multiples by whole numbers are exact
LN2_LOW = 1.90821492927058770002e-10
LOWEST = -700.0
POWERS = 2.0 ** -np.arange(1024.0)


@kernel(f8(f8), inline=True, allocates=False)
def exp_negative(x: Float) -> Float:
    """e^x for x <= 0 (0 below -700), in plain arithmetic so that it vectorises: within 1e-15, relatively."""
    y = max(x, LOWEST)
    k = np.rint(y * LOG2_E)
    f = (y - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * f + 1.0 / 479001600.0
    p = p * f + 1.0 / 39916800.0
    p = p * f + 1.0 / 3628800.0
    p = p * f + 1.0 / 362880.0
    p = p * f + 1.0 / 40320.0
    p = p * f + 1.0 / 5040.0
    p = p * f + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f + 1.0
    p = p * f + 1.0
    return p * POWERS[np.uint32(-k)] if x > LOWEST else 0.0


@kernel(void(bytes_1, u1, u1, ints_1, i4, i4, longs_1), allocates=False)
def partial_residuals(
    slots: Bytes, left: Int, right: Int, residual: Ints, left_old: Int, right_old: Int, values: Longs
) -> None:
    """A count of one and the partial residual (residual + old value), packed; 0 for other leaves' rows."""
    one = np.int64(1) << COUNT_SHIFT
    for i in range(len(slots)):
        slot = slots[i]
        inside = (slot == left) | (slot == right)
        value = one + residual[i] + (left_old if slot == left else right_old)
        values[i] = value if inside else 0


@kernel(void(bytes_1, bytes_1, longs_1, longs_1, longs_1), allocates=False)
def scatter_pair(first: Bytes, second: Bytes, values: Longs, first_bins: Longs, second_bins: Longs) -> None:
    """Add packed values to the bins of two columns' codes."""
    for i in range(len(first)):
        value = values[i]
        first_bins[first[i]] += value
        second_bins[second[i]] += value


@kernel(void(longs_1, i8, longs_1, longs_1), inline=True, allocates=False)
def unpack_bins(bins: Longs, width: Int, sums: Longs, counts: Longs) -> None:
    """Add bins' sums (the low 40 bits, signed) and counts (the rest), and empty them."""
    low = 64 - COUNT_SHIFT
    for code in range(width):
        total = (bins[code] << low) >> low
        sums[code] += total
        counts[code] += (bins[code] - total) >> COUNT_SHIFT
        bins[code] = 0
    total = (bins[MISSING] << low) >> low
    sums[MISSING] += total
    counts[MISSING] += (bins[MISSING] - total) >> COUNT_SHIFT
    bins[MISSING] = 0


_pair_t = (bytes_1, u1, u1, ints_1, i4, i4)


@kernel(void(*_pair_t, bytes_1, bytes_1, i8, i8, longs_1, longs_2, longs_2, longs_2), allocates=False)
def histograms(
    slots: Bytes, left: Int, right: Int, residual: Ints, left_old: Int, right_old: Int,
    first: Bytes, second: Bytes, first_width: Int, second_width: Int,
    values: Longs, bins: Longs, sums: Longs, counts: Longs,
) -> None:  # fmt: skip
    """Sums and counts of two leaves' partial residuals by code of two columns; codes below their widths."""
    for code in range(first_width):
        sums[0, code] = counts[0, code] = 0
    for code in range(second_width):
        sums[1, code] = counts[1, code] = 0
    sums[0, MISSING] = sums[1, MISSING] = counts[0, MISSING] = counts[1, MISSING] = 0
    for start in range(0, len(slots), HISTOGRAM_BLOCK):
        stop = min(start + HISTOGRAM_BLOCK, len(slots))
        partial_residuals(slots[start:stop], left, right, residual[start:stop], left_old, right_old, values)
        scatter_pair(first[start:stop], second[start:stop], values, bins[0], bins[1])
        unpack_bins(bins[0], first_width, sums[0], counts[0])
        unpack_bins(bins[1], second_width, sums[1], counts[1])


@kernel(void(*_pair_t, bytes_1, bytes_1, ints_1, i8, longs_2, longs_2, longs_2), allocates=False)
def weighted_histograms(
    slots: Bytes, left: Int, right: Int, residual: Ints, left_old: Int, right_old: Int,
    first: Bytes, second: Bytes, weights: Ints, num_rows: Int, sums: Longs, counts: Longs, rows: Longs,
) -> None:  # fmt: skip
    """The same with weights, which also need the number of rows of each code."""
    sums[:] = 0
    counts[:] = 0
    rows[:] = 0
    for i in range(num_rows):
        slot = slots[i]
        if slot not in (left, right):
            continue
        weight = np.int64(weights[i])
        value = weight * (residual[i] + (left_old if slot == left else right_old))
        for which in range(2):
            code = first[i] if which == 0 else second[i]
            sums[which, code] += value
            counts[which, code] += weight
            rows[which, code] += 1


@kernel(boolean(bytes_2, i8, i8), inline=True, allocates=False)
def differ(codes: Bytes, i: Int, k: Int) -> Bool:
    """Whether two rows differ in some column."""
    for j in range(len(codes)):  # noqa: SIM110  # compiled
        if codes[j, i] != codes[j, k]:
            return True
    return False


@kernel(void(bytes_1, i8, array(i4, 2)), allocates=False)
def find_examples(column: Bytes, num_rows: Int, examples: Ints) -> None:
    """The first few rows of each code of a column, -1 where there are no more."""
    examples[:] = -1
    for i in range(num_rows):
        code = column[i]
        for k in range(examples.shape[1]):
            if examples[code, k] < 0:
                examples[code, k] = i
                break


@kernel(boolean(bytes_2, bytes_1, u1, u1, bytes_1, u1, i8, ints_1), allocates=False)
def group_splittable(
    codes: Bytes, slots: Bytes, left: Int, right: Int, column: Bytes, code: Int, num_rows: Int, examples: Ints
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
        found = np.uint8(0)
        for i in range(start, stop):
            inside = (column[i] == code) & ((slots[i] == left) | (slots[i] == right))
            found = np.uint8(found | np.uint8(inside))
        if found == 0:
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


@kernel(pair(i8, i8, i8, i8)(longs_1, i8), inline=True, allocates=False)
def occupied(counts: Longs, width: Int) -> tuple[Int, Int, Int, Int]:
    """Of the occupied present codes: lowest, next one up, next one below the highest, highest.

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


@kernel(void(data_t, bytes_1, u1, u1, i8, longs_1, longs_1), allocates=False)
def look_at_groups(
    data: Data, slots: Bytes, left: Int, right: Int, column: Int, counts: Longs, info: Longs
) -> None:
    """What the valid-split factors of a column's rules need, into `info` (its columns are named above).

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
        info[LOW_SPLITS] = group_splittable(
            codes, slots, left, right, values, np.uint8(low), rows, examples[low]
        )
    if high > low and counts[high] > 1:
        info[HIGH_SPLITS] = group_splittable(
            codes, slots, left, right, values, np.uint8(high), rows, examples[high]
        )
    if counts[MISSING] > 1:
        info[MISSING_SPLITS] = group_splittable(
            codes, slots, left, right, values, np.uint8(MISSING), rows, examples[MISSING]
        )


@kernel(f8(floats_1), inline=True, allocates=False)
def highest_of(values: Floats) -> Float:
    """The largest value, by four at a time: one comparison need not wait for the last."""
    a = b = c = d = -np.inf
    whole = len(values) // 4
    for k in range(whole):
        a, b = max(a, values[4 * k]), max(b, values[4 * k + 1])
        c, d = max(c, values[4 * k + 2]), max(d, values[4 * k + 3])
    for k in range(4 * whole, len(values)):
        a = max(a, values[k])
    return max(a, b, c, d)


@kernel(void(longs_1, longs_1, i8, i8, f8, floats_1, floats_1), inline=True, allocates=False)
def left_parts(
    sums: Longs, counts: Longs, left_sum: Int, left_count: Int, unit: Float, totals: Floats, sizes: Floats
) -> None:
    """Total and size of the left part of every cut of a range of codes, starting with those given."""
    for cut in range(len(totals)):
        left_sum += sums[cut]
        left_count += counts[cut]
        totals[cut] = unit * float(left_sum)
        sizes[cut] = unit * float(left_count)


@kernel(void(floats_1, f8, f8, floats_1, floats_1), inline=True, allocates=False)
def pair_terms(prior: Floats, total: Float, size: Float, terms: Floats, factors: Floats) -> None:
    """From the left parts' totals and sizes: e^(l(left) + l(right)) as factors e^terms, in their place."""
    sigma2, tau2 = prior[SIGMA2], prior[TAU2]
    half = 0.5 * tau2 / sigma2
    for k in range(len(terms)):
        left, right = terms[k], total - terms[k]
        left_spread = sigma2 + factors[k] * tau2
        right_spread = sigma2 + (size - factors[k]) * tau2
        terms[k] = half * (left * left / left_spread + right * right / right_spread)
        factors[k] = sigma2 / math.sqrt(left_spread * right_spread)


@kernel(void(floats_1, f8), inline=True, allocates=False)
def multiply(values: Floats, factor: Float) -> None:
    """Every value times a factor."""
    for k in range(len(values)):
        values[k] *= factor


@kernel(f8(floats_1, longs_1, longs_1, f8, longs_1, floats_1, floats_1), allocates=False)
def weigh_rules(
    prior: Floats, sums: Longs, counts: Longs, stay: Float, info: Longs, terms: Floats, factors: Floats
) -> Float:
    """Every rule's e^(l(left) + l(right)) s(left) s(right) as factors e^terms; returns the largest term.

    `stay` is s of a child that can be split. A cut stands at its number with the missing on the right (or
    none), at CODES + its number with them on the left; the rule present | missing is LAST_TERM.
    """
    low, second, below, high = info[LOW], info[SECOND], info[BELOW], info[HIGH]
    gaps = info[GAPS] != 0
    low_stay = stay if info[LOW_SPLITS] != 0 else 1.0
    high_stay = stay if info[HIGH_SPLITS] != 0 else 1.0
    unit = prior[LIKELIHOOD] * prior[UNIT]
    present = present_count = np.int64(0)
    for code in range(low, high + 1):
        present += sums[code]
        present_count += counts[code]
    missing, missing_count = sums[MISSING], counts[MISSING]
    total, size = unit * float(present + missing), unit * float(present_count + missing_count)
    right_terms, right_factors = terms[low:high], factors[low:high]
    left_parts(sums[low:high], counts[low:high], 0, 0, unit, right_terms, right_factors)
    pair_terms(prior, total, size, right_terms, right_factors)
    multiply(factors[low:second], low_stay)
    multiply(factors[second:high], stay)
    multiply(factors[low:high] if gaps else factors[low:below], stay)
    if not gaps:
        multiply(factors[below:high], high_stay)
        return highest_of(right_terms)
    left_terms, left_factors = terms[CODES + low : CODES + high], factors[CODES + low : CODES + high]
    left_parts(sums[low:high], counts[low:high], missing, missing_count, unit, left_terms, left_factors)
    pair_terms(prior, total, size, left_terms, left_factors)
    multiply(left_factors, stay)
    multiply(factors[CODES + low : CODES + below], stay)
    multiply(factors[CODES + below : CODES + high], high_stay)
    here, away = unit * float(present), unit * float(missing)
    present_spread = prior[SIGMA2] + unit * float(present_count) * prior[TAU2]
    missing_spread = prior[SIGMA2] + unit * float(missing_count) * prior[TAU2]
    fit = here * here / present_spread + away * away / missing_spread
    terms[LAST_TERM] = 0.5 * prior[TAU2] / prior[SIGMA2] * fit
    factors[LAST_TERM] = prior[SIGMA2] / math.sqrt(present_spread * missing_spread)
    factors[LAST_TERM] *= (stay if high > low else low_stay) * (stay if info[MISSING_SPLITS] != 0 else 1.0)
    return max(highest_of(right_terms), highest_of(left_terms), terms[LAST_TERM])


@kernel(f8(floats_1, floats_1, f8), inline=True, allocates=False)
def sum_range(terms: Floats, factors: Floats, largest: Float) -> Float:
    """Factors e^(terms - largest), left in `factors`, and their sum: four at a time, in a fixed order."""
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


@kernel(f8(longs_1, floats_1, floats_1, f8), allocates=False)
def sum_rules(info: Longs, terms: Floats, factors: Floats, largest: Float) -> Float:
    """Make every factor the rule's weight relative to e^largest, and return their sum."""
    low, high = info[LOW], info[HIGH]
    total = sum_range(terms[low:high], factors[low:high], largest)
    if info[GAPS] != 0:
        total += sum_range(terms[CODES + low : CODES + high], factors[CODES + low : CODES + high], largest)
        factors[LAST_TERM] *= exp_negative(terms[LAST_TERM] - largest)
        total += factors[LAST_TERM]
    return total


@kernel(i8(words_1), inline=True, allocates=False)
def flip(random: Words) -> Int:
    """A fair coin."""
    return np.int64(next_word(random) >> np.uint64(63))


@kernel(pair(i8, i8)(longs_1, floats_1, f8, words_1), allocates=False)
def pick_rule(info: Longs, factors: Floats, total: Float, random: Words) -> tuple[Int, Int]:
    """A rule (cut, side) by its weight; with nothing missing the side is a coin."""
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
