"""CHANGE at any split and SWAP (`sampler_math` 2.3, 2.4): new rules inside a tree whose shape stays.

Every row below the top split is routed anew, and the prior of every split and leaf below it is recomputed
from the codes that reach them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.compile import kernel, pointer_kernel
from sampler.kernels.change import change_at
from sampler.kernels.leaves import log_evidence, log_split, log_stay
from sampler.kernels.random import below, uniform
from sampler.kernels.rules import PRESENT_OR_MISSING, draw_rule, num_rules
from sampler.kernels.shapes import (
    ABSENT,
    BYTE_LEAVES,
    CUT,
    DEPTH,
    FEATURE,
    GROWABLE,
    LEFT,
    LIKELIHOOD,
    PARENT,
    RIGHT,
    SIDE,
    UNIT,
    array,
    boolean,
    data_t,
    f8,
    floats_1,
    floats_2,
    forest_t,
    i4,
    i8,
    ints_1,
    step_t,
    void,
    work_t,
)
from sampler.kernels.state import plane_of, widen_bound
from sampler.kernels.trees import is_bottom

if TYPE_CHECKING:
    from sampler.kernels.shapes import Bool, Data, Float, Floats, Forest, Int, Ints, Work

LOW, HIGH, GAPS = 0, 1, 2  # of a column's codes at a node: lowest and highest present, whether any is missing
SUM, SIZE = 0, 1  # of a leaf, in Work.lanes
NOWHERE = -1


@kernel(i8(array(i4, 2), i8, ints_1, ints_1), inline=True, allocates=False)
def list_splits(node: Ints, top: Int, order: Ints, stack: Ints) -> Int:
    """The splits at and below one, parents first, into `order`; returns how many."""
    stack[0] = top
    waiting, found = 1, 0
    while waiting > 0:
        waiting -= 1
        at = stack[waiting]
        order[found] = at
        found += 1
        for side in (LEFT, RIGHT):
            if node[at, side] >= 0:
                stack[waiting] = node[at, side]
                waiting += 1
    return found


@kernel(void(array(i4, 2), ints_1, i8, ints_1, i8), inline=True, allocates=False)
def mark_leaves(node: Ints, order: Ints, splits: Int, below_top: Ints, num_leaves: Int) -> None:
    """below_top[slot] = 1 for the leaves under the listed splits, else 0."""
    below_top[:num_leaves] = 0
    for k in range(splits):
        for side in (LEFT, RIGHT):
            if node[order[k], side] < 0:
                below_top[~node[order[k], side]] = 1


@kernel(void(array(i4, 3), ints_1, i8, i8), inline=True, allocates=False)
def clear_ranges(ranges: Ints, below_top: Ints, num_leaves: Int, columns: Int) -> None:
    """Empty ranges for the leaves under the top."""
    for slot in range(num_leaves):
        if below_top[slot] != 0:
            for j in range(columns):
                ranges[slot, j, LOW], ranges[slot, j, HIGH], ranges[slot, j, GAPS] = 255, -1, 0


@kernel(void(data_t, ints_1, array(i4, 3)), inline=True, allocates=False)
def find_ranges(data: Data, place: Ints, ranges: Ints) -> None:
    """The code range of every column in every leaf that `place` puts rows in."""
    for j in range(len(data.codes)):
        column = data.codes[j]
        for i in range(data.num_rows):
            slot = place[i]
            if slot < 0:
                continue
            code = np.int32(column[i])
            if code == 255:
                ranges[slot, j, GAPS] = 1
            else:
                ranges[slot, j, LOW] = min(ranges[slot, j, LOW], code)
                ranges[slot, j, HIGH] = max(ranges[slot, j, HIGH], code)


@kernel(void(array(i4, 2), ints_1, i8, array(i4, 3), array(i4, 3), i8), inline=True, allocates=False)
def merge_ranges(
    node: Ints, order: Ints, splits: Int, leaf_ranges: Ints, node_ranges: Ints, columns: Int
) -> None:
    """A split's ranges are its children's together; children first."""
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


@kernel(boolean(array(i4, 2)), inline=True, allocates=False)
def any_valid(ranges: Ints) -> Bool:
    """Whether V(node) has a column, from the node's ranges [column, 3]."""
    for j in range(len(ranges)):  # noqa: SIM110  # compiled
        if num_rules(ranges[j, LOW], ranges[j, HIGH], ranges[j, GAPS]) > 0:
            return True
    return False


@kernel(f8(array(i4, 2), floats_2, i8), inline=True, allocates=False)
def log_column(ranges: Ints, law: Floats, column: Int) -> Float:
    """Log probability of a column among those of V(node), which has it."""
    mass = 0.0
    for j in range(len(ranges)):
        if num_rules(ranges[j, LOW], ranges[j, HIGH], ranges[j, GAPS]) > 0:
            mass += 1.0 if len(law) == 0 else law[0, j]
    return (0.0 if len(law) == 0 else math.log(law[0, column])) - math.log(mass)


@kernel(f8(array(i4, 2), floats_2, i8, i8), inline=True, allocates=False)
def log_rule(ranges: Ints, law: Floats, column: Int, cut: Int) -> Float:
    """Log p_rule of a rule, its side included (a coin where nothing is missing); -inf if invalid."""
    low, high, gaps = ranges[column, LOW], ranges[column, HIGH], ranges[column, GAPS]
    if cut == PRESENT_OR_MISSING:
        if gaps == 0 or high < low:
            return -np.inf
    elif cut < low or cut >= high:
        return -np.inf
    ways = 2 * (high - low) + (1 if gaps != 0 else 0)
    return log_column(ranges, law, column) - math.log(float(ways))


@kernel(f8(forest_t, work_t, floats_1, floats_2, i8, i8, boolean), allocates=False)
def subtree_log_prior(
    forest: Forest, work: Work, prior: Floats, depths: Floats, tree: Int, splits: Int, whole: Bool
) -> Float:
    """Log prior of the listed splits (without the top one unless `whole`) and the leaves below them."""
    node, leaf = forest.node[tree], forest.leaf[tree]
    total = 0.0
    for k in range(splits):
        at = work.order[k]
        depth = 0
        above = node[at, PARENT]
        while above != ABSENT:
            depth += 1
            above = node[above, PARENT]
        if k > 0 or whole:
            total += log_split(prior, depths, depth) + log_rule(
                work.node_ranges[at], work.law, np.int64(node[at, FEATURE]), np.int64(node[at, CUT])
            )
        for side in (LEFT, RIGHT):
            slot = ~node[at, side]
            if slot >= 0 and any_valid(work.leaf_ranges[slot]):
                total += log_stay(prior, depths, np.int64(leaf[slot, DEPTH]))
    return total


@kernel(f8(forest_t, work_t, floats_1, i8), inline=True, allocates=False)
def subtree_log_evidence(forest: Forest, work: Work, prior: Floats, tree: Int) -> Float:
    """Sum of the leaves' evidence below the top, as they are now."""
    total = 0.0
    for slot in range(forest.num_leaves[tree]):
        if work.below_top[slot] != 0:
            total += log_evidence(prior, work.size[slot], work.total[slot])
    return total


@kernel(void(data_t, forest_t, work_t, i8), inline=True, allocates=False)
def place_rows(data: Data, forest: Forest, work: Work, tree: Int) -> None:
    """Place = the slot of every row below the top, NOWHERE for the others; member = whether it is below."""
    slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
    wide = forest.num_leaves[tree] > BYTE_LEAVES
    work.member[:] = 0
    for i in range(data.num_rows):
        slot = np.int32(slots[i])
        if wide:
            slot += np.int32(256) * np.int32(high[i])
        inside = work.below_top[slot] != 0
        work.place[i] = slot if inside else NOWHERE
        work.member[i] = np.uint8(inside)


@kernel(void(data_t, forest_t, work_t, i8, i8), allocates=False)
def route_again(data: Data, forest: Forest, work: Work, tree: Int, top: Int) -> None:
    """Where the changed rules send the rows below the top; sums and sizes of partial residuals there."""
    node, codes, lanes = forest.node[tree], data.codes, work.lanes
    weighted = len(data.weights) > 0
    lanes[SUM, : forest.num_leaves[tree]] = 0
    lanes[SIZE, : forest.num_leaves[tree]] = 0
    for i in range(data.num_rows):
        if work.place[i] < 0:
            continue
        old = np.int64(work.old[work.place[i]])
        at = np.int64(top)
        while at >= 0:
            side = np.uint8(node[at, SIDE])
            code = np.uint8(codes[node[at, FEATURE], i] + side)
            at = np.int64(node[at, LEFT] if code <= np.uint8(node[at, CUT] + side) else node[at, RIGHT])
        weight = np.int64(data.weights[i]) if weighted else np.int64(1)
        lanes[SUM, ~at] += weight * (work.residual[i] + old)
        lanes[SIZE, ~at] += weight
        work.place[i] = np.int32(~at)


@kernel(void(data_t, forest_t, work_t, floats_1, i8), allocates=False)
def accept_places(data: Data, forest: Forest, work: Work, prior: Floats, tree: Int) -> None:
    """Move the rows to where they were routed, their old values back in the residual, and load the leaves."""
    slots, high, leaf = forest.slots[tree], forest.high[plane_of(forest, tree)], forest.leaf[tree]
    wide = forest.num_leaves[tree] > BYTE_LEAVES
    for i in range(data.num_rows):
        place = work.place[i]
        if place < 0:
            continue
        slot = np.int64(slots[i])
        if wide:
            slot += 256 * np.int64(high[i])
            high[i] = np.uint8(place >> 8)
        work.residual[i] += work.old[slot]
        slots[i] = np.uint8(place & 255)
    unit = prior[LIKELIHOOD] * prior[UNIT]
    largest: Int = 0
    for k in range(forest.num_leaves[tree]):
        if work.below_top[k] != 0:
            largest = max(largest, abs(np.int64(work.old[k])))
            work.old[k] = 0
            forest.count[tree, k] = work.lanes[SIZE, k]
            work.total[k] = unit * float(work.lanes[SUM, k])
            work.size[k] = unit * float(work.lanes[SIZE, k])
            leaf[k, GROWABLE] = any_valid(work.leaf_ranges[k])
    widen_bound(work, largest)


@kernel(boolean(data_t, forest_t, work_t, floats_1, floats_2, i8, i8, i8, boolean, f8, f8), allocates=False)
def decide_reshape(
    data: Data, forest: Forest, work: Work, prior: Floats, depths: Floats, tree: Int, top: Int, splits: Int,
    whole: Bool, log_prior: Float, log_likelihood: Float,
) -> Bool:  # fmt: skip
    """With the new rules in the table: accept (rows and leaves follow) or not (the caller puts them back)."""
    columns, num_leaves = len(data.codes), np.int64(forest.num_leaves[tree])
    route_again(data, forest, work, tree, top)
    clear_ranges(work.leaf_ranges, work.below_top, num_leaves, columns)
    find_ranges(data, work.place, work.leaf_ranges)
    merge_ranges(forest.node[tree], work.order, splits, work.leaf_ranges, work.node_ranges, columns)
    ratio = subtree_log_prior(forest, work, prior, depths, tree, splits, whole) - log_prior - log_likelihood
    threshold = math.log(uniform(work.random))
    if ratio == -np.inf:
        return False
    unit = prior[LIKELIHOOD] * prior[UNIT]
    for slot in range(num_leaves):
        if work.below_top[slot] != 0:
            size, total = unit * float(work.lanes[SIZE, slot]), unit * float(work.lanes[SUM, slot])
            ratio += log_evidence(prior, size, total)
    if threshold >= ratio:
        return False
    accept_places(data, forest, work, prior, tree)
    return True


@kernel(i8(data_t, forest_t, work_t, i8, i8), allocates=False)
def look_below(data: Data, forest: Forest, work: Work, tree: Int, top: Int) -> Int:
    """List the splits below one, place its rows, and find the ranges there; returns the number of splits."""
    node, num_leaves = forest.node[tree], np.int64(forest.num_leaves[tree])
    splits = list_splits(node, top, work.order, work.stack)
    mark_leaves(node, work.order, splits, work.below_top, num_leaves)
    place_rows(data, forest, work, tree)
    clear_ranges(work.leaf_ranges, work.below_top, num_leaves, len(data.codes))
    find_ranges(data, work.place, work.leaf_ranges)
    merge_ranges(node, work.order, splits, work.leaf_ranges, work.node_ranges, len(data.codes))
    return splits


@kernel(boolean(data_t, forest_t, work_t, floats_1, floats_2, i8), allocates=False)
def change_any(data: Data, forest: Forest, work: Work, prior: Floats, depths: Floats, tree: Int) -> Bool:
    """A new rule from the prior at a split uniform among all; the others stay and may become invalid."""
    node, rule = forest.node[tree], work.rule
    num_leaves = np.int64(forest.num_leaves[tree])
    if num_leaves == 1:
        return False
    top = below(work.random, num_leaves - 1)
    if is_bottom(node, top):
        return change_at(data, forest, work, prior, depths, tree, top)
    splits = look_below(data, forest, work, tree, top)
    log_prior = subtree_log_prior(forest, work, prior, depths, tree, splits, False)
    log_likelihood = subtree_log_evidence(forest, work, prior, tree)
    draw_rule(data, work.member, np.uint8(1), top == 0, work.random, work.law, work.columns, rule, work.span)
    feature, cut, side = node[top, FEATURE], node[top, CUT], node[top, SIDE]
    node[top, FEATURE], node[top, CUT], node[top, SIDE] = rule[0], rule[1], rule[2]
    if decide_reshape(data, forest, work, prior, depths, tree, top, splits, False, log_prior, log_likelihood):
        return True
    node[top, FEATURE], node[top, CUT], node[top, SIDE] = feature, cut, side
    return False


@kernel(void(array(i4, 2), i8, i8, i8), allocates=False)
def exchange_rules(node: Ints, top: Int, child: Int, twin: Int) -> None:
    """Exchange the rules of a split and its child, or both children if `twin` >= 0; its own inverse."""
    for k in (FEATURE, CUT, SIDE):
        rule = node[top, k]
        node[top, k] = node[child, k]
        node[child, k] = rule
        if twin >= 0:
            node[twin, k] = rule


@kernel(boolean(data_t, forest_t, work_t, floats_1, floats_2, i8), allocates=False)
def swap_rules(data: Data, forest: Forest, work: Work, prior: Floats, depths: Floats, tree: Int) -> Bool:
    """Exchange the rules of a split and one of its children that is a split, uniform among such pairs.

    If the other child is a split of the same rule, both get the parent's.
    """
    node = forest.node[tree]
    splits = np.int64(forest.num_leaves[tree]) - 1
    if splits < 2:
        return False
    child = 1 + below(work.random, splits - 1)  # every split but the root (number 0) makes one pair
    top = np.int64(node[child, PARENT])
    twin = np.int64(node[top, RIGHT] if node[top, LEFT] == child else node[top, LEFT])
    if twin >= 0:
        for k in (FEATURE, CUT, SIDE):
            if twin >= 0 and node[twin, k] != node[child, k]:
                twin = np.int64(-1)
    listed = look_below(data, forest, work, tree, top)
    log_prior = subtree_log_prior(forest, work, prior, depths, tree, listed, True)
    log_likelihood = subtree_log_evidence(forest, work, prior, tree)
    exchange_rules(node, top, child, twin)
    if decide_reshape(data, forest, work, prior, depths, tree, top, listed, True, log_prior, log_likelihood):
        return True
    exchange_rules(node, top, child, twin)
    return False


def _change_any_step(data: Any, forest: Any, work: Any, prior: Any, depths: Any, tree: Int) -> Int:
    """`change_any` by address."""
    return np.int64(change_any(data[0], forest[0], work[0], prior[0], depths[0], tree))


CHANGE_ANY_STEP = pointer_kernel(__name__, step_t, _change_any_step)


def _swap_rules_step(data: Any, forest: Any, work: Any, prior: Any, depths: Any, tree: Int) -> Int:
    """`swap_rules` by address."""
    return np.int64(swap_rules(data[0], forest[0], work[0], prior[0], depths[0], tree))


SWAP_RULES_STEP = pointer_kernel(__name__, step_t, _swap_rules_step)
