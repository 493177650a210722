"""Rows of a node of a single tree: spans of codes, rules from their prior, partitions, statistics.

The rows listed are `order` int32 from `start` to `end`; a rule is `rule` int64 [3], column, cut and side.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.cart.kernels.state import (
    ALPHA,
    BETA,
    CLASSES,
    COUNT,
    EXPLAINED,
    LIKELIHOOD,
    MEAN_SHIFT,
    NU,
    NU_LAMBDA,
    OWN,
    PRECISION,
    SQUARES,
    SUM,
    TOTAL_SQUARES,
    UNIT_SQUARES,
    UNIT_SUM,
    UNIT_WEIGHT,
    WEIGHT,
    TreeRows,
)
from sampler.kernels.arrays import MISSING, Bool, Float, Floats, Floats2, Int, Ints, Longs, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import below
from sampler.kernels.rules import PRESENT_OR_MISSING, draw_cut, num_rules

BLIND_DRAWS = 8  # columns drawn before all are looked at


@kernel(allocates=False)
def span_of(rows: TreeRows, order: Ints, start: Int, end: Int, column: Int, span: Longs) -> Int:
    """Count the rules of a column over the rows listed; its low, high and missing go to `span`."""
    if end - start == len(order):
        span[0], span[1], span[2] = rows.low[column], rows.high[column], rows.missing[column]
    else:
        codes = rows.codes[column]
        low, above, missing = np.uint8(MISSING), np.uint8(0), np.uint8(0)
        for i in range(start, end):
            code = codes[order[i]]
            low = min(low, code)
            above = max(above, np.uint8(code + 1))  # a missing code wraps to 0
            missing |= np.uint8(code == MISSING)
        span[0], span[1], span[2] = np.int64(low), np.int64(above) - 1, np.int64(missing)
    return num_rules(span[0], span[1], span[2])


@kernel(allocates=False)
def splittable(
    rows: TreeRows, order: Ints, start: Int, end: Int, column: Int, cut: Int, side: Int, left: Bool
) -> Bool:
    """Whether two of the rows listed that a rule sends left (or right) differ in some column.

    Of all rows listed when `column` is negative. Nearly always the first two rows differ.
    """
    first = -1
    for k in range(start, end):
        i = order[k]
        if column >= 0 and goes_left(np.int64(rows.codes[column, i]), cut, side) != left:
            continue
        if first < 0:
            first = i
            continue
        for j in range(len(rows.codes)):
            if rows.codes[j, i] != rows.codes[j, first]:
                return True
    return False


@kernel(inline=True, allocates=False)
def goes_left(code: Int, cut: Int, side: Int) -> Bool:
    """Tell whether a rule sends a code left."""
    return side != 0 if code == MISSING else code <= cut


@kernel(allocates=False)
def count_columns(rows: TreeRows, order: Ints, start: Int, end: Int, span: Longs) -> Int:
    """Count the columns that have a valid rule over the rows listed."""
    number = 0
    for column in range(len(rows.codes)):
        number += span_of(rows, order, start, end, column, span) > 0
    return number


@kernel(allocates=False)
def draw_rule(
    rows: TreeRows, order: Ints, start: Int, end: Int, random: Words, columns: Ints, rule: Longs, span: Longs
) -> None:
    """Draw a rule from its prior over rows that can be split: rule = (column, cut, side)."""
    column = np.int64(-1)
    for _ in range(BLIND_DRAWS):
        tried = below(random, len(rows.codes))
        if span_of(rows, order, start, end, tried, span) > 0:
            column = tried
            break
    if column < 0:  # many are constant here: the same law from a list of those that aren't
        number = 0
        for j in range(len(rows.codes)):
            if span_of(rows, order, start, end, j, span) > 0:
                columns[number] = j
                number += 1
        column = np.int64(columns[below(random, number)])
        span_of(rows, order, start, end, column, span)
    rule[0] = column
    draw_cut(random, span[0], span[1], span[2], rule)


@kernel(inline=True, allocates=False)
def is_valid(span: Longs, cut: Int, side: Int) -> Bool:
    """Whether a rule is among those of a column with that span of codes."""
    if cut == PRESENT_OR_MISSING:  # no code is larger, so no other cut is
        return span[2] != 0 and side == 0 and span[1] >= span[0]
    return span[0] <= cut < span[1]


@kernel(inline=True, allocates=False)
def log_rule(span: Longs) -> Float:
    """Log probability of one rule of a column with that span: its side is a coin where none is missing."""
    width = span[1] - span[0]
    return -math.log(2.0 * width + 1.0 if span[2] else 2.0 * width)


@kernel(allocates=False)
def partition(
    rows: TreeRows, order: Ints, start: Int, end: Int, shelf: Ints, column: Int, cut: Int, side: Int
) -> Int:
    """Put the rows listed that go left before the others, in order; return where the others begin."""
    codes = rows.codes[column]
    at, held = start, 0
    for k in range(start, end):
        i = order[k]
        left = goes_left(np.int64(codes[i]), cut, side)
        order[at] = i  # overwritten unless it goes left
        shelf[held] = i
        at += left
        held += not left
    for k in range(held):
        order[at + k] = shelf[k]
    return at


@kernel(inline=True, allocates=False)
def add_weighed(rows: TreeRows, row: Int, stat: Longs) -> None:
    """Add a row that has a weight to the sums of its leaf."""
    stat[SUM] += rows.weighed[row, 0]
    stat[SQUARES] += rows.weighed[row, 1]
    stat[WEIGHT] += rows.weighed[row, 2]


@kernel(inline=True, allocates=False)
def moments_of(rows: TreeRows, stat: Longs) -> tuple[Float, Float, Float]:
    """Sum the weights of a leaf's rows, their weighted outcomes and weighted squares, in grid steps."""
    if len(rows.weighed):
        constants = rows.constants
        return (
            stat[WEIGHT] * constants[UNIT_WEIGHT],
            stat[SUM] * constants[UNIT_SUM],
            stat[SQUARES] * constants[UNIT_SQUARES],
        )
    return float(stat[COUNT]), float(stat[SUM]), float(stat[SQUARES])


@kernel(allocates=False)
def tally(rows: TreeRows, order: Ints, start: Int, end: Int, stat: Longs) -> None:
    """Statistics of the rows listed."""
    stat[:] = 0
    if rows.model == CLASSES:
        for k in range(start, end):
            stat[rows.y[order[k]]] += 1
        return
    if len(rows.weighed):
        stat[COUNT] = end - start
        for k in range(start, end):
            add_weighed(rows, order[k], stat)
        return
    total, squares = np.int64(0), np.int64(0)
    for k in range(start, end):
        y = np.int64(rows.y[order[k]])
        total += y
        squares += y * y
    stat[COUNT], stat[SUM], stat[SQUARES] = end - start, total, squares


@kernel(allocates=False)
def tally_left(
    rows: TreeRows, order: Ints, start: Int, end: Int, column: Int, cut: Int, side: Int, stat: Longs
) -> None:
    """Statistics of those rows listed that a rule sends left."""
    codes = rows.codes[column]
    stat[:] = 0
    if rows.model == CLASSES:
        for k in range(start, end):
            i = order[k]
            stat[rows.y[i]] += goes_left(np.int64(codes[i]), cut, side)
        return
    if len(rows.weighed):
        for k in range(start, end):
            i = order[k]
            if goes_left(np.int64(codes[i]), cut, side):
                stat[COUNT] += 1
                add_weighed(rows, i, stat)
        return
    count, total, squares = np.int64(0), np.int64(0), np.int64(0)
    lifted, shift = np.uint8(cut + side), np.uint8(side)  # one comparison: a missing code, 255, wraps to 0
    for k in range(start, end):
        i = order[k]
        y = np.int64(rows.y[i]) if np.uint8(codes[i] + shift) <= lifted else np.int64(0)
        count += np.uint8(codes[i] + shift) <= lifted
        total += y
        squares += y * y
    stat[COUNT], stat[SUM], stat[SQUARES] = count, total, squares


@kernel(allocates=False)
def settle_leaf(rows: TreeRows, stat: Longs, term: Floats2, leaf: Int) -> None:
    """Find what a leaf with these statistics adds to the log likelihood of its tree.

    The mathematics: docs/maths.md#single-trees.
    """
    constants = rows.constants
    term[leaf, EXPLAINED] = 0.0
    if constants[LIKELIHOOD] == 0.0:
        term[leaf, OWN] = 0.0
        return
    if rows.model == CLASSES:
        count = np.int64(0)
        own = rows.table[1, 0] - len(stat) * rows.table[0, 0]
        for k in range(len(stat)):
            own += rows.table[0, stat[k]]
            count += stat[k]
        term[leaf, OWN] = own - rows.table[1, count]
        return
    size, (weight, total, squares) = float(stat[COUNT]), moments_of(rows, stat)
    a = constants[PRECISION]
    explained = total * total / (weight + a)
    shrunk = 0.5 * math.log(a / (weight + a))
    if rows.model == MEAN_SHIFT:
        term[leaf, OWN], term[leaf, EXPLAINED] = shrunk, explained
        return
    nu, scale = constants[NU], constants[NU_LAMBDA]
    own = shrunk + rows.table[0, stat[COUNT]] - rows.table[0, 0] - 0.5 * size * math.log(math.pi)
    left_over = scale + max(squares - explained, 0.0)
    term[leaf, OWN] = own + 0.5 * nu * math.log(scale) - 0.5 * (size + nu) * math.log(left_over)


@kernel(allocates=False, entry=True)
def log_likelihood(rows: TreeRows, own: Float, explained: Float) -> Float:
    """Log likelihood of a tree from its leaves' summed terms, without the mean-shift model's constant."""
    constants = rows.constants
    if rows.model != MEAN_SHIFT or constants[LIKELIHOOD] == 0.0:
        return own
    left_over = constants[NU_LAMBDA] + max(constants[TOTAL_SQUARES] - explained, 0.0)
    return own - 0.5 * (len(rows.y) + constants[NU]) * math.log(left_over)


@kernel(allocates=False)
def log_split(constants: Floats, depth: Int) -> tuple[Float, Float]:
    """Log probabilities that a node of that depth which can be split is, and is not."""
    p = constants[ALPHA] * (1.0 + depth) ** -constants[BETA]
    return math.log(p), math.log1p(-p)
