"""Split rules that cut no leaf's block of rows, from which a restructure builds trees.

Such a rule (Wu, Tjelmeland and West 2007, as in docs/maths.md#restructure) is valid at a node and sends every
block of the node whole to one side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sampler.kernels.arrays import Int, Ints, Ints3, Longs, Longs2, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import below
from sampler.kernels.rules import PRESENT_OR_MISSING

NONE = -1


class Blocks(NamedTuple):
    """The leaves of a tree as blocks of rows, and room to work."""

    order: Ints  # blocks by number: those of a node stand together
    ranges: Ints3  # [block, p, 3]: lowest and highest present code (-1 for none), whether any is missing
    bad: Longs2  # [2, at least 256]
    rule: Longs  # [3], the rule found: feature, cut, side


@kernel(allocates=False)
def clean_rules(room: Blocks, first: Int, last: Int, column: Int, chosen: Int) -> Int:
    """Rules of a column that cut none of the blocks listed from `first` to `last`: how many there are.

    With `chosen` not negative, the one of that number goes to `room.rule`.
    """
    low, high, missing, mixed = np.int64(255), np.int64(-1), np.int64(0), False
    bad, order, ranges = room.bad, room.order, room.ranges
    for k in range(first, last):
        b = order[k]
        if ranges[b, column, 1] >= 0:
            low, high = min(low, ranges[b, column, 0]), max(high, ranges[b, column, 1])
            mixed = mixed or ranges[b, column, 2] != 0
        missing |= ranges[b, column, 2]
    if high < low or (high == low and not missing):
        return 0
    for c in range(low, high + 1):
        bad[0, c], bad[1, c] = 0, 0
    for k in range(first, last):
        b = order[k]
        start, end = np.int64(ranges[b, column, 0]), np.int64(ranges[b, column, 1])
        if end < 0:
            continue
        # of a block with missing rows all must go the missing's way: with side 1 left, with side 0 right
        left_from = low if ranges[b, column, 2] else start
        right_to = high if ranges[b, column, 2] else end
        bad[1, left_from] += 1
        bad[1, end] -= 1
        bad[0, start] += 1
        bad[0, right_to] -= 1
    number = np.int64(0)
    cut_right, cut_left = np.int64(0), np.int64(0)  # blocks that a cut splits, by the side of the missing
    for c in range(low, high):
        cut_right += bad[0, c]
        cut_left += bad[1, c]
        for side in range(2):
            if (cut_left if side else cut_right) == 0:
                if number == chosen:
                    room.rule[0], room.rule[1], room.rule[2] = column, c, side
                number += 1
    if missing and not mixed:
        if number == chosen:
            room.rule[0], room.rule[1], room.rule[2] = column, PRESENT_OR_MISSING, 0
        number += 1
    return number


@kernel(allocates=False)
def count_clean(room: Blocks, first: Int, last: Int) -> Int:
    """Rules of all columns that cut no block."""
    number = np.int64(0)
    for column in range(room.ranges.shape[1]):
        number += clean_rules(room, first, last, column, NONE)
    return number


@kernel(allocates=False)
def draw_clean(room: Blocks, random: Words, first: Int, last: Int) -> Int:
    """Draw one of those rules uniformly into `room.rule`; return their number."""
    number = count_clean(room, first, last)
    if number == 0:
        return 0
    chosen = below(random, number)
    for column in range(room.ranges.shape[1]):
        here = clean_rules(room, first, last, column, NONE)
        if chosen < here:
            clean_rules(room, first, last, column, chosen)
            return number
        chosen -= here
    return number


@kernel(allocates=False)
def sort_blocks(room: Blocks, first: Int, last: Int) -> Int:
    """Put the blocks that `room.rule` sends left before the others; where the others begin."""
    column, cut, side = room.rule[0], room.rule[1], room.rule[2]
    at = first
    for k in range(first, last):
        b = room.order[k]
        high = room.ranges[b, column, 1]
        if (high <= cut) if high >= 0 else side != 0:
            room.order[k] = room.order[at]
            room.order[at] = b
            at += 1
    return at
