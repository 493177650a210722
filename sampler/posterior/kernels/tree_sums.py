"""Sums of trees at coded rows: trees sorted by shape, so that few branches are left, vectorised over rows.

Every sum is of int32 grid steps modulo 2^32: exact, and free of order. A rule is one number, 2 * feature +
side of missing, and a cut raised by that side: a row goes left iff ``uint8(code + side) <= cut``, since a
missing code, 255, wraps to 0 just where missing goes left. Indices are unsigned, as signed ones cost numba a
test each.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from sampler.kernels.arrays import Bytes, Bytes2, Int, Ints, Ints2, Longs, Longs2, Shorts
from sampler.kernels.jit import kernel

BLOCK = 1024  # rows at a time: their codes and their sums stay in the nearest cache
CHAIN = 32  # up to so many leaves, passes over all rows beat walking them one by one
MAX_FEATURES = 32_767  # so that a rule fits 16 bits
TWO, RIGHT, LEFT, BIG, SPLITS, LEAVES = 0, 1, 2, 3, 4, 5
NUM_SHAPES = 6

Block = Annotated[NDArray[np.uint8], types.Array(types.uint8, 2, "A")]  # codes of a block of rows: a slice


class SortedTrees(NamedTuple):
    """The trees of draws in order, by shape; `start` [draw + 1, shape] counts what comes before each draw.

    What a tree adds whichever way a row goes is in `base` [draw]. Then a tree of two leaves adds `near` to
    rows that go left. A tree of three leaves whose root's right child is split adds `near` where the root
    goes left, else `far` where the child does; one whose root's left child is split adds, where the root goes
    left, `near` or `far` as the child does. Larger trees list their splits in pre-order: a row that has
    reached leaf slot `here` moves to slot `there` unless it goes left; `left` and `right` are the splits to
    look at next, or ~slot.
    """

    base: Ints
    start: Longs2
    two_rule: Shorts
    two_cut: Bytes
    two_near: Ints
    right_rule: Shorts  # [2 * trees]: root, child
    right_cut: Bytes
    right_value: Ints  # [2 * trees]: near, far
    left_rule: Shorts
    left_cut: Bytes
    left_value: Ints
    big_split: Longs  # [trees + 1], first split of each
    big_leaf: Longs  # [trees + 1], first leaf of each
    rule: Shorts  # [splits]
    cut: Bytes
    here: Ints
    there: Ints
    left: Ints
    right: Ints
    leaf: Ints  # [leaves], less the first of the tree


@kernel(entry=True)
def count_shapes(tree_start: Longs, num_trees: Int, feature: Ints, count: Longs2) -> None:
    """Trees of each shape, and splits and leaves of the big ones, per draw into `count` [draw, 6]."""
    count[:] = 0
    for draw in range(len(count)):
        for tree in range(draw * num_trees, (draw + 1) * num_trees):
            first = tree_start[tree]
            num_nodes = tree_start[tree + 1] - first
            if num_nodes == 3:
                count[draw, TWO] += 1
            elif num_nodes == 5:
                count[draw, LEFT if feature[first + 1] >= 0 else RIGHT] += 1
            elif num_nodes > 5:
                count[draw, BIG] += 1
                count[draw, SPLITS] += num_nodes // 2
                count[draw, LEAVES] += num_nodes // 2 + 1


@kernel(entry=True)
def sort_trees(
    tree_start: Longs,
    num_trees: Int,
    feature: Ints,
    cut: Bytes,
    missing_left: Bytes,
    leaf: Ints,
    first_draw: Int,
    into: SortedTrees,
) -> None:
    """Fill the ensemble's draws from `first_draw` on with these trees, pre-order nodes in sorted shapes."""
    num_draws = (len(tree_start) - 1) // num_trees
    stack = np.empty(1, np.int32)
    for draw in range(num_draws):
        into.base[first_draw + draw] = 0
        two, right, left, big = (
            into.start[first_draw + draw, TWO],
            into.start[first_draw + draw, RIGHT],
            into.start[first_draw + draw, LEFT],
            into.start[first_draw + draw, BIG],
        )
        for tree in range(draw * num_trees, (draw + 1) * num_trees):
            a = tree_start[tree]
            num_nodes = tree_start[tree + 1] - a
            if num_nodes == 1:
                into.base[first_draw + draw] += leaf[a]
            elif num_nodes == 3:
                into.two_rule[two] = 2 * feature[a] + missing_left[a]
                into.two_cut[two] = cut[a] + missing_left[a]
                into.two_near[two] = leaf[a + 1] - leaf[a + 2]
                into.base[first_draw + draw] += leaf[a + 2]
                two += 1
            elif num_nodes == 5 and feature[a + 1] < 0:
                for k in range(2):
                    node = a + 2 * k
                    into.right_rule[2 * right + k] = 2 * feature[node] + missing_left[node]
                    into.right_cut[2 * right + k] = cut[node] + missing_left[node]
                into.right_value[2 * right] = leaf[a + 1] - leaf[a + 4]
                into.right_value[2 * right + 1] = leaf[a + 3] - leaf[a + 4]
                into.base[first_draw + draw] += leaf[a + 4]
                right += 1
            elif num_nodes == 5:
                for k in range(2):
                    node = a + k
                    into.left_rule[2 * left + k] = 2 * feature[node] + missing_left[node]
                    into.left_cut[2 * left + k] = cut[node] + missing_left[node]
                into.left_value[2 * left] = leaf[a + 2] - leaf[a + 4]
                into.left_value[2 * left + 1] = leaf[a + 3] - leaf[a + 4]
                into.base[first_draw + draw] += leaf[a + 4]
                left += 1
            else:
                split, slot = into.big_split[big], into.big_leaf[big]
                num_splits = num_nodes // 2
                if len(stack) < num_splits:
                    stack = np.empty(2 * num_splits, np.int32)
                depth, num_leaves = 0, 0
                first_leaf = np.int32(0)
                num_seen = 0
                for node in range(a, a + num_nodes):
                    if feature[node] >= 0:
                        at = split + num_seen
                        into.rule[at] = 2 * feature[node] + missing_left[node]
                        into.cut[at] = cut[node] + missing_left[node]
                        into.here[at] = num_leaves
                        into.left[at] = num_seen + 1 if feature[node + 1] >= 0 else ~num_leaves
                        stack[depth] = num_seen
                        depth += 1
                        num_seen += 1
                    else:
                        if num_leaves == 0:
                            first_leaf = leaf[node]
                        into.leaf[slot + num_leaves] = leaf[node] - first_leaf
                        num_leaves += 1
                        if depth > 0:  # the next node is the right child of the last split still open
                            depth -= 1
                            at = split + stack[depth]
                            into.there[at] = num_leaves
                            into.right[at] = num_seen if feature[node + 1] >= 0 else ~num_leaves
                into.base[first_draw + draw] += first_leaf
                into.big_split[big + 1] = split + num_splits
                into.big_leaf[big + 1] = slot + num_splits + 1
                big += 1


@kernel()
def _add_two_leaves(e: SortedTrees, draw: Int, codes: Block, total: Ints) -> None:
    """Two trees at a time, so that the totals are loaded and stored half as often."""
    zero, one = np.int32(0), np.uint64(1)
    last = np.uint64(e.start[draw + 1, TWO])
    for tree in range(e.start[draw, TWO], last, 2):
        t = np.uint64(tree)
        u = min(t + one, last - one)
        code, side, cut, near = (
            codes[e.two_rule[t] >> 1],
            np.uint8(e.two_rule[t] & 1),
            e.two_cut[t],
            e.two_near[t],
        )
        code2, side2, cut2 = codes[e.two_rule[u] >> 1], np.uint8(e.two_rule[u] & 1), e.two_cut[u]
        near2 = e.two_near[u] if u > t else zero
        for i in range(codes.shape[1]):
            first = near if np.uint8(code[i] + side) <= cut else zero
            second = near2 if np.uint8(code2[i] + side2) <= cut2 else zero
            total[i] += first + second


@kernel()
def _add_three_leaves(e: SortedTrees, draw: Int, codes: Block, total: Ints) -> None:
    zero, one = np.int32(0), np.uint64(1)
    for tree in range(e.start[draw, RIGHT], e.start[draw + 1, RIGHT]):
        a = np.uint64(tree) << one
        b = a + one
        code, side, cut = codes[e.right_rule[a] >> 1], np.uint8(e.right_rule[a] & 1), e.right_cut[a]
        code2, side2, cut2 = codes[e.right_rule[b] >> 1], np.uint8(e.right_rule[b] & 1), e.right_cut[b]
        near, far = e.right_value[a], e.right_value[b]
        for i in range(codes.shape[1]):
            inner = far if np.uint8(code2[i] + side2) <= cut2 else zero
            total[i] += near if np.uint8(code[i] + side) <= cut else inner
    for tree in range(e.start[draw, LEFT], e.start[draw + 1, LEFT]):
        a = np.uint64(tree) << one
        b = a + one
        code, side, cut = codes[e.left_rule[a] >> 1], np.uint8(e.left_rule[a] & 1), e.left_cut[a]
        code2, side2, cut2 = codes[e.left_rule[b] >> 1], np.uint8(e.left_rule[b] & 1), e.left_cut[b]
        near, far = e.left_value[a], e.left_value[b]
        for i in range(codes.shape[1]):
            inner = near if np.uint8(code2[i] + side2) <= cut2 else far
            total[i] += inner if np.uint8(code[i] + side) <= cut else zero


@kernel()
def _add_more_leaves(e: SortedTrees, draw: Int, codes: Block, total: Ints, slots: Bytes) -> None:
    """Every row's leaf slot by one masked pass of bytes per split, then the values by a chain of selects."""
    zero, one = np.int32(0), np.uint64(1)
    rows = codes.shape[1]
    for tree in range(e.start[draw, BIG], e.start[draw + 1, BIG]):
        t = np.uint64(tree)
        first_leaf = np.uint64(e.big_leaf[t])
        num_leaves = e.big_leaf[t + one] - e.big_leaf[t]
        if num_leaves > CHAIN:
            for i in range(rows):
                at = np.int32(0)
                while at >= 0:
                    k = np.uint64(e.big_split[t] + at)
                    code_i = codes[e.rule[k] >> 1, i] + np.uint8(e.rule[k] & 1)
                    at = e.left[k] if np.uint8(code_i) <= e.cut[k] else e.right[k]
                total[i] += e.leaf[first_leaf + np.uint64(~at)]
            continue
        for i in range(rows):
            slots[i] = 0
        for split in range(e.big_split[t], e.big_split[t + one]):
            k = np.uint64(split)
            code, side, cut = codes[e.rule[k] >> 1], np.uint8(e.rule[k] & 1), e.cut[k]
            here, there = np.uint8(e.here[k]), np.uint8(e.there[k])
            for i in range(rows):
                stays = (slots[i] != here) | (np.uint8(code[i] + side) <= cut)
                slots[i] = slots[i] if stays else there
        for slot in range(1, num_leaves, 2):  # slot 0 adds nothing
            first, second = np.uint8(slot), np.uint8(min(slot + 1, num_leaves - 1))
            near = e.leaf[first_leaf + np.uint64(slot)]
            far = e.leaf[first_leaf + np.uint64(second)] if second > first else zero
            for i in range(rows):
                one_value = near if slots[i] == first else zero
                other_value = far if slots[i] == second else zero
                total[i] += one_value + other_value


@kernel(entry=True)
def sum_trees(ensemble: SortedTrees, draws: Longs, codes: Bytes2, sums: Ints2) -> None:
    """Per draw the sum of the leaves each row reaches: `sums` [draw, row] from `codes` [feature, row]."""
    num_rows = codes.shape[1]
    total = np.empty(BLOCK, np.int32)
    slots = np.empty(BLOCK, np.uint8)
    for begin in range(0, num_rows, BLOCK):
        rows = min(BLOCK, num_rows - begin)
        block = codes[:, begin : begin + rows]
        for out in range(len(draws)):
            draw = draws[out]
            for i in range(rows):
                total[i] = ensemble.base[draw]
            _add_two_leaves(ensemble, draw, block, total)
            _add_three_leaves(ensemble, draw, block, total)
            _add_more_leaves(ensemble, draw, block, total, slots)
            for i in range(rows):
                sums[out, begin + i] = total[i]


@kernel(entry=True)
def sum_trees_at_row(ensemble: SortedTrees, draws: Longs, code: Bytes, sums: Ints) -> None:
    """`sum_trees` for a single row without a branch that the processor could guess wrong: `sums` [draw].

    `code` [2 * feature + side] is the row's code plus side, modulo 256.
    """
    e, one = ensemble, np.uint64(1)
    for out in range(len(draws)):
        draw = draws[out]
        total = e.base[draw]
        for tree in range(e.start[draw, TWO], e.start[draw + 1, TWO]):
            t = np.uint64(tree)
            total += e.two_near[t] & -np.int32(code[e.two_rule[t]] <= e.two_cut[t])
        for tree in range(e.start[draw, RIGHT], e.start[draw + 1, RIGHT]):
            a = np.uint64(tree) << one
            b = a + one
            outer = -np.int32(code[e.right_rule[a]] <= e.right_cut[a])
            inner = -np.int32(code[e.right_rule[b]] <= e.right_cut[b])
            total += (e.right_value[a] & outer) + (e.right_value[b] & inner & ~outer)
        for tree in range(e.start[draw, LEFT], e.start[draw + 1, LEFT]):
            a = np.uint64(tree) << one
            b = a + one
            outer = -np.int32(code[e.left_rule[a]] <= e.left_cut[a])
            inner = -np.int32(code[e.left_rule[b]] <= e.left_cut[b])
            total += outer & ((e.left_value[a] & inner) + (e.left_value[b] & ~inner))
        for tree in range(e.start[draw, BIG], e.start[draw + 1, BIG]):
            t = np.uint64(tree)
            at = np.int32(0)
            while at >= 0:
                k = np.uint64(e.big_split[t] + at)
                goes_left = -np.int32(code[e.rule[k]] <= e.cut[k])
                at = e.right[k] ^ ((e.right[k] ^ e.left[k]) & goes_left)
            total += e.leaf[np.uint64(e.big_leaf[t] + ~at)]
        sums[out] = total
