"""Rules drawn from their prior at a node: a column among those that differ there, then a cut and a side.

Columns have equal probabilities, or `shares` float64 [2, p], their shares and running sums ([0, 0]: equal).
A column's codes at a node are `span` int64 [3]: lowest and highest present code, and whether any is missing.
"""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Bool, Byte, Bytes, Data, Floats2, Int, Ints, Longs, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.shared.rows import code_range_by
from sampler.kernels.shared.team import Team

BLIND_DRAWS = 8  # columns drawn before V(node) is listed: most nodes can be split on most columns
PRESENT_OR_MISSING = 254


@kernel(inline=True, allocates=False)
def num_rules(low: Int, high: Int, missing: Int) -> Int:
    """Count a column's rules with present codes low..high: cuts, by side if some are missing, and one more.

    n_adj of docs/maths.md#cuts-and-codes, docs/maths.md#missing-values: without missing values the side is a
    coin and not counted.
    """
    if high < low:
        return 0  # all missing
    return 2 * (high - low) + 1 if missing else high - low


@kernel(inline=True, allocates=False)
def look_at_column(
    team: Team, data: Data, slots: Bytes, leaf: Byte, everywhere: Bool, column: Int, span: Longs
) -> Int:
    """Count the rules of a column at a node; its low, high and missing go to `span`."""
    if everywhere:
        span[0], span[1], span[2] = data.low[column], data.high[column], data.missing[column]
    else:
        span[0], span[1], span[2] = code_range_by(team, slots, data.codes[column], leaf)
    return num_rules(span[0], span[1], span[2])


@kernel(allocates=False)
def try_column(random: Words, shares: Floats2, num_columns: Int) -> Int:
    """Draw any column by its share, or uniformly where there are no shares."""
    if len(shares) == 0:
        return below(random, num_columns)
    mass = uniform(random) * shares[1, num_columns - 1]
    low, high = np.int64(0), np.int64(num_columns - 1)
    while low < high:
        middle = (low + high) // 2
        if shares[1, middle] > mass:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(allocates=False)
def redraw_column(random: Words, shares: Floats2, columns: Ints, count: Int) -> Int:
    """Draw one of the first `count` columns listed, by its share or uniformly."""
    if len(shares) == 0:
        return np.int64(columns[below(random, count)])
    total = 0.0
    for k in range(count):
        total += shares[0, columns[k]]
    left = uniform(random) * total
    for k in range(count):
        left -= shares[0, columns[k]]
        if left < 0.0:
            return np.int64(columns[k])
    return np.int64(columns[count - 1])


@kernel(inline=True, allocates=False)
def draw_column(
    team: Team,
    data: Data,
    slots: Bytes,
    leaf: Byte,
    everywhere: Bool,
    random: Words,
    shares: Floats2,
    columns: Ints,
    span: Longs,
) -> Int:
    """Draw a column of V(node), which is not empty, by its share; its low, high and missing go to `span`.

    Any column is drawn and a constant one redrawn; after a few failures V(node) is listed instead, which
    leaves the law as it is and bounds the work when thousands of columns are constant.
    """
    num_columns = len(data.codes)
    for _ in range(BLIND_DRAWS):
        column = try_column(random, shares, num_columns)
        if look_at_column(team, data, slots, leaf, everywhere, column, span) > 0:
            return column
    count = 0
    for column in range(num_columns):
        if look_at_column(team, data, slots, leaf, everywhere, column, span) > 0:
            columns[count] = column
            count += 1
    column = redraw_column(random, shares, columns, count)
    look_at_column(team, data, slots, leaf, everywhere, column, span)
    return column


@kernel(inline=True, allocates=False)
def draw_cut(random: Words, low: Int, high: Int, missing: Int, rule: Longs) -> None:
    """Draw a rule uniform on those of a column: rule[1] the cut, rule[2] whether the missing go left."""
    width = high - low
    if missing:
        which = below(random, 2 * width + 1)
        if which == 2 * width:
            rule[1], rule[2] = PRESENT_OR_MISSING, 0
        else:
            rule[1], rule[2] = low + (which >> 1), which & 1
    else:
        which = below(random, 2 * width)
        rule[1], rule[2] = low + (which >> 1), which & 1


@kernel(
    inline=True,
    allocates=False,
)
def draw_rule(
    team: Team,
    data: Data,
    slots: Bytes,
    leaf: Byte,
    everywhere: Bool,
    random: Words,
    shares: Floats2,
    columns: Ints,
    rule: Longs,
    span: Longs,
) -> None:
    """Draw a rule from its prior at a node that can be split: rule = (feature, cut, side)."""
    rule[0] = draw_column(team, data, slots, leaf, everywhere, random, shares, columns, span)
    draw_cut(random, span[0], span[1], span[2], rule)
