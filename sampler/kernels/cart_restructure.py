"""The radical restructure of Wu, Tjelmeland and West (2007): another tree with the very same leaves' rows.

As reconstructed in `sampler_math` 5.1: a tree is built from the top by rules, uniform among all that are
valid at the node and cut none of the blocks of rows that the leaves hold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sampler.compile import kernel
from sampler.kernels.cart_rows import span_of
from sampler.kernels.cart_state import (
    CHILD,
    CUT,
    DEPTH,
    FEATURE,
    LEAF,
    PARENT,
    SIDE,
    SPLITTABLE,
    room_t,
    rows_t,
    tree_t,
)
from sampler.kernels.cart_tree import copy_node, copy_tree, look_below
from sampler.kernels.random import below, uniform
from sampler.kernels.rules import PRESENT_OR_MISSING
from sampler.kernels.shapes import boolean, f8, i8, words_1

if TYPE_CHECKING:
    from sampler.kernels.cart_state import Room, Rows, Tree
    from sampler.kernels.shapes import Bool, Float, Int, Words

NONE = -1


@kernel(i8(room_t, i8, i8, i8, i8), allocates=False)
def clean_rules(room: Room, first: Int, last: Int, column: Int, wanted: Int) -> Int:
    """Rules of a column that cut none of the blocks listed from `first` to `last`: how many there are.

    With `wanted` not negative, the one of that number goes to `room.rule`.
    """
    low, high, missing, mixed = np.int64(255), np.int64(-1), np.int64(0), False
    bad = room.bad
    for k in range(first, last):
        b = room.blocks[k]
        if room.block[b, column, 1] >= 0:
            low, high = min(low, room.block[b, column, 0]), max(high, room.block[b, column, 1])
            mixed = mixed or room.block[b, column, 2] != 0
        missing |= room.block[b, column, 2]
    if high < low or (high == low and not missing):
        return 0
    for c in range(low, high + 1):
        bad[0, c], bad[1, c] = 0, 0
    for k in range(first, last):
        b = room.blocks[k]
        start, end = room.block[b, column, 0], room.block[b, column, 1]
        if end < 0:
            continue
        # of a block with missing rows all must go the missing's way: with side 1 left, with side 0 right
        left_from = low if room.block[b, column, 2] else start
        right_to = high if room.block[b, column, 2] else end
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
                if number == wanted:
                    room.rule[0], room.rule[1], room.rule[2] = column, c, side
                number += 1
    if missing and not mixed:
        if number == wanted:
            room.rule[0], room.rule[1], room.rule[2] = column, PRESENT_OR_MISSING, 0
        number += 1
    return number


@kernel(i8(rows_t, room_t, i8, i8), allocates=False)
def count_clean(rows: Rows, room: Room, first: Int, last: Int) -> Int:
    """Rules of all columns that cut no block."""
    number = np.int64(0)
    for column in range(len(rows.codes)):
        number += clean_rules(room, first, last, column, NONE)
    return number


@kernel(boolean(rows_t, room_t, words_1, i8, i8), allocates=False)
def draw_clean(rows: Rows, room: Room, random: Words, first: Int, last: Int) -> Bool:
    """One of those rules, uniformly, into `room.rule`; False where there is none."""
    number = count_clean(rows, room, first, last)
    if number == 0:
        return False
    wanted = below(random, number)
    for column in range(len(rows.codes)):
        here = clean_rules(room, first, last, column, NONE)
        if wanted < here:
            clean_rules(room, first, last, column, wanted)
            return True
        wanted -= here
    return False


@kernel(i8(room_t, i8, i8), allocates=False)
def sort_blocks(room: Room, first: Int, last: Int) -> Int:
    """Put the blocks that `room.rule` sends left before the others; where the others begin."""
    column, cut, side = room.rule[0], room.rule[1], room.rule[2]
    at = first
    for k in range(first, last):
        b = room.blocks[k]
        high = room.block[b, column, 1]
        if (high <= cut) if high >= 0 else side != 0:
            room.blocks[k] = room.blocks[at]
            room.blocks[at] = b
            at += 1
    return at


@kernel(f8(rows_t, tree_t, room_t), allocates=False)
def log_ways(rows: Rows, tree: Tree, room: Room) -> Float:
    """The log number of ways to choose this tree's rules; `room.blocks` comes out in any order.

    The blocks of a subtree are contiguous, since its nodes are visited before those of the next one.
    """
    node = tree.node
    total = 0.0
    for at in range(tree.size[0]):
        if node[at, FEATURE] == LEAF:
            continue
        number = 0
        for leaf in range(tree.size[0]):
            inside = tree.span[leaf, 0] >= tree.span[at, 0] and tree.span[leaf, 1] <= tree.span[at, 1]
            if node[leaf, FEATURE] == LEAF and inside:
                room.blocks[number] = leaf
                number += 1
        total += math.log(float(count_clean(rows, room, 0, number)))
    return total


@kernel(boolean(rows_t, tree_t, tree_t, room_t, words_1), allocates=False)
def build(rows: Rows, tree: Tree, trial: Tree, room: Room, random: Words) -> Bool:
    """A tree with the leaves of `tree` into `trial`, rules only; False where a node had no clean rule."""
    node, span = trial.node, trial.span
    number = 0
    for leaf in range(tree.size[0]):
        if tree.node[leaf, FEATURE] == LEAF:
            room.blocks[number] = leaf
            number += 1
    trial.size[0] = 1
    copy_node(tree, 0, trial, 0)
    span[0, 0], span[0, 1] = 0, number  # for now, of blocks
    at = 0
    while at < trial.size[0]:
        first, last = span[at, 0], span[at, 1]
        if last - first == 1:
            node[at, FEATURE], node[at, CUT], node[at, SIDE], node[at, CHILD] = LEAF, 0, 0, 0
            at += 1
            continue
        if not draw_clean(rows, room, random, first, last):
            return False
        child = trial.size[0]
        trial.size[0] += 2
        middle = sort_blocks(room, first, last)
        node[at, FEATURE], node[at, CUT], node[at, SIDE] = room.rule[0], room.rule[1], room.rule[2]
        node[at, CHILD] = child
        for k in range(2):
            node[child + k, PARENT], node[child + k, DEPTH] = at, node[at, DEPTH] + 1
            node[child + k, SPLITTABLE] = 0
        span[child, 0], span[child, 1], span[child + 1, 0], span[child + 1, 1] = first, middle, middle, last
        at += 1
    return True


@kernel(boolean(rows_t, tree_t, tree_t, room_t, words_1), allocates=False)
def restructure(rows: Rows, tree: Tree, trial: Tree, room: Room, random: Words) -> Bool:
    """Another tree with the same leaves' rows; the likelihood stays."""
    if tree.size[0] == 1:
        return False
    for leaf in range(tree.size[0]):
        if tree.node[leaf, FEATURE] == LEAF:
            for column in range(len(rows.codes)):
                span_of(rows, tree.order, tree.span[leaf, 0], tree.span[leaf, 1], column, room.found)
                for k in range(3):
                    room.block[leaf, column, k] = room.found[k]
    ways = log_ways(rows, tree, room)
    if not build(rows, tree, trial, room, random):
        return False
    trial.span[0, 0], trial.span[0, 1] = 0, len(tree.order)
    for k in range(len(tree.order)):
        trial.order[k] = tree.order[k]
    valid, prior_then = look_below(rows, trial, room, 0, True)
    if not valid:
        return False
    for leaf in range(trial.size[0]):  # blocks go by the new tree's leaves now
        if trial.node[leaf, FEATURE] == LEAF:
            for column in range(len(rows.codes)):
                span_of(rows, trial.order, trial.span[leaf, 0], trial.span[leaf, 1], column, room.found)
                for k in range(3):
                    room.block[leaf, column, k] = room.found[k]
    _, prior_now = look_below(rows, tree, room, 0, True)
    ratio = prior_then - prior_now + log_ways(rows, trial, room) - ways
    if math.log(uniform(random)) >= ratio:
        return False
    copy_tree(trial, tree, 0, len(tree.order))
    return True
