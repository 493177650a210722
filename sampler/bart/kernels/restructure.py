"""Radical restructure of Wu, Tjelmeland and West (2007) for one tree of a forest.

The mathematics: docs/maths.md#restructure.

Another tree with the very same leaves' rows is built from the top, by rules uniform among all that cut no
leaf's rows. The likelihood stays, and so do the leaves' slots, sums and values: only the table of splits and
the leaves' depths change.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.below_split import list_splits
from sampler.bart.kernels.state import ABOVE, DEPTH, GROWABLE, Forest, Work, step_signature
from sampler.bart.kernels.tree_prior import log_split, log_stay
from sampler.bart.kernels.tree_tables import plane_of
from sampler.kernels.arrays import (
    ABSENT,
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    MISSING,
    PARENT,
    RIGHT,
    SIDE,
    Data,
    Float,
    Floats2,
    Int,
    Ints,
    Ints2,
    Ints3,
)
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.leaf_blocks import Blocks, count_clean, draw_clean, sort_blocks
from sampler.kernels.random import uniform
from sampler.kernels.rules import PRESENT_OR_MISSING, num_rules

LOW, HIGH, GAPS = 0, 1, 2  # of a column's codes at a node: lowest and highest present, whether any is missing


@kernel(allocates=False)
def find_ranges(data: Data, forest: Forest, work: Work, tree: Int) -> None:
    """Find the code range of every column in every leaf of a tree, into `RebuiltTree.leaf_ranges`."""
    ranges = work.rebuilt.leaf_ranges
    num_leaves = np.int64(forest.num_leaves[tree])
    slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
    wide = num_leaves > BYTE_LEAVES
    for j in range(len(data.codes)):
        column = data.codes[j]
        for slot in range(num_leaves):
            ranges[slot, j, LOW], ranges[slot, j, HIGH], ranges[slot, j, GAPS] = 255, -1, 0
        for i in range(data.num_rows):
            at: Int = np.int64(slots[i])
            if wide:
                at += 256 * np.int64(high[i])
            code = np.int32(column[i])
            if code == MISSING:
                ranges[at, j, GAPS] = 1
            else:
                ranges[at, j, LOW] = min(ranges[at, j, LOW], code)
                ranges[at, j, HIGH] = max(ranges[at, j, HIGH], code)


@kernel(inline=True, allocates=False)
def merge_ranges(
    node: Ints2, order: Ints, splits: Int, leaf_ranges: Ints3, node_ranges: Ints3, columns: Int
) -> None:
    """Merge the leaves' ranges into those of the splits above, children first."""
    for k in range(splits - 1, -1, -1):
        at = order[k]
        for j in range(columns):
            low, high, gaps = np.int32(255), np.int32(-1), np.int32(0)
            for side in (LEFT, RIGHT):
                child = node[at, side]
                place = child if child >= 0 else ~child
                ranges = node_ranges if child >= 0 else leaf_ranges
                low = min(low, ranges[place, j, LOW])
                high = max(high, ranges[place, j, HIGH])
                gaps = max(gaps, ranges[place, j, GAPS])
            node_ranges[at, j, LOW], node_ranges[at, j, HIGH], node_ranges[at, j, GAPS] = low, high, gaps


@kernel(inline=True, allocates=False)
def log_rule(ranges: Ints2, shares: Floats2, column: Int, cut: Int) -> Float:
    """Log p_rule of a rule at a node of these ranges, its side included (a coin where nothing is missing)."""
    low, high, gaps = ranges[column, LOW], ranges[column, HIGH], ranges[column, GAPS]
    if cut == PRESENT_OR_MISSING:
        if gaps == 0 or high < low:
            return -np.inf
    elif cut < low or cut >= high:
        return -np.inf
    mass = 0.0
    for j in range(len(ranges)):
        if num_rules(ranges[j, LOW], ranges[j, HIGH], ranges[j, GAPS]) > 0:
            mass += 1.0 if len(shares) == 0 else shares[0, j]
    share = 1.0 if len(shares) == 0 else shares[0, column]
    return math.log(share / mass) - math.log(float(2 * (high - low) + gaps))


@kernel(allocates=False)
def log_prior(forest: Forest, work: Work, tree: Int, splits: Int) -> Float:
    """Log prior of a tree, with each split's depth and ranges in `Work.rebuilt`."""
    node, leaf = forest.node[tree], forest.leaf[tree]
    total = 0.0
    for at in range(splits):
        total += log_split(forest.prior, np.int64(work.rebuilt.depths[at]))
        total += log_rule(
            work.rebuilt.node_ranges[at],
            forest.prior.shares,
            np.int64(node[at, FEATURE]),
            np.int64(node[at, CUT]),
        )
    for slot in range(splits + 1):
        if leaf[slot, GROWABLE]:
            total += log_stay(forest.prior, np.int64(leaf[slot, DEPTH]))
    return total


@kernel(inline=True, allocates=False)
def blocks_of(work: Work) -> Blocks:
    """Collect the leaves' blocks and the room to look at them."""
    return Blocks(work.rebuilt.order, work.rebuilt.leaf_ranges, work.rebuilt.bad, work.proposal.rule)


@kernel(inline=True, allocates=False)
def list_leaves(node: Ints2, top: Int, blocks: Ints, stack: Ints) -> Int:
    """List the leaves below a split in `blocks`; return their number."""
    stack[0] = top
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        at = stack[waiting]
        for side in (LEFT, RIGHT):
            child = node[at, side]
            if child >= 0:
                stack[waiting] = child
                waiting += 1
            else:
                blocks[count] = ~child
                count += 1
    return count


@kernel(allocates=False)
def log_ways(forest: Forest, work: Work, tree: Int, splits: Int) -> Float:
    """Log the number of ways to choose a tree's rules among those that cut none of its leaves."""
    total = 0.0
    for k in range(splits):
        number = list_leaves(forest.node[tree], np.int64(work.below.order[k]), work.rebuilt.order, work.stack)
        total += math.log(float(count_clean(blocks_of(work), 0, number)))
    return total


@kernel(allocates=False)
def build(forest: Forest, work: Work, tree: Int) -> Float:
    """Build another tree with the same leaves in place; return the log number of ways, -inf if it failed.

    Splits are made in the order of their numbers; the leaves' own rows of the table are left to
    `settle_leaves`.
    """
    node, order, spans = forest.node[tree], work.rebuilt.order, work.rebuilt.spans
    num_leaves = np.int64(forest.num_leaves[tree])
    for slot in range(num_leaves):
        order[slot] = slot
    spans[0, 0], spans[0, 1], node[0, PARENT] = 0, num_leaves, ABSENT
    num_splits, ways = 1, 0.0
    for at in range(num_leaves - 1):
        first, last = np.int64(spans[at, 0]), np.int64(spans[at, 1])
        number = draw_clean(blocks_of(work), work.random, first, last)
        if number == 0:
            return -np.inf
        ways += math.log(float(number))
        node[at, FEATURE], node[at, CUT], node[at, SIDE] = (
            work.proposal.rule[0],
            work.proposal.rule[1],
            work.proposal.rule[2],
        )
        middle = sort_blocks(blocks_of(work), first, last)
        for side in (LEFT, RIGHT):
            start = first if side == LEFT else middle
            stop = middle if side == LEFT else last
            if stop - start == 1:
                node[at, side] = ~order[start]
            else:
                node[at, side] = num_splits
                spans[num_splits, 0], spans[num_splits, 1], node[num_splits, PARENT] = start, stop, at
                num_splits += 1
    return ways


@kernel(allocates=False)
def settle_leaves(node: Ints2, leaf: Ints2, order: Ints, splits: Int, depths: Ints) -> None:
    """Find each leaf's parent and depth from the listed splits, parents first."""
    for k in range(splits):
        at = order[k]
        depths[at] = depths[node[at, PARENT]] + 1 if node[at, PARENT] != ABSENT else 0
        for side in (LEFT, RIGHT):
            if node[at, side] < 0:
                leaf[~node[at, side], ABOVE], leaf[~node[at, side], DEPTH] = at, depths[at] + 1


@kernel(inline=True, allocates=False)
def copy_splits(source: Ints2, target: Ints2, splits: Int) -> None:
    """Copy the first rows of a table of splits."""
    for at in range(splits):
        for k in range(source.shape[1]):
            target[at, k] = source[at, k]


@kernel(allocates=False)
def settle(data: Data, forest: Forest, work: Work, tree: Int) -> Float:
    """Find the depths and ranges that follow from a tree's table of splits; return its log prior."""
    node, splits = forest.node[tree], np.int64(forest.num_leaves[tree]) - 1
    list_splits(node, 0, work.below.order, work.stack)
    settle_leaves(node, forest.leaf[tree], work.below.order, splits, work.rebuilt.depths)
    merge_ranges(
        node, work.below.order, splits, work.rebuilt.leaf_ranges, work.rebuilt.node_ranges, len(data.codes)
    )
    return log_prior(forest, work, tree, splits)


def restructure(at_data: Any, at_forest: Any, _at_model: Any, at_work: Any, tree: Int) -> Int:
    """Propose another tree with the same leaves' rows; its prior and the numbers of ways decide."""
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    work: Work = at_work[0]
    splits = np.int64(forest.num_leaves[tree]) - 1
    if splits == 0:
        return 0
    find_ranges(data, forest, work, tree)
    ratio = -settle(data, forest, work, tree)
    ratio -= log_ways(forest, work, tree, splits)
    copy_splits(forest.node[tree], work.rebuilt.shelf, splits)
    ways = build(forest, work, tree)
    if ways > -np.inf:
        ratio += ways + settle(data, forest, work, tree)
        if math.log(uniform(work.random)) < ratio:
            return 1
    copy_splits(work.rebuilt.shelf, forest.node[tree], splits)
    settle(data, forest, work, tree)
    return 0


RESTRUCTURE_STEP = pointer_kernel(__name__, step_signature, restructure)
