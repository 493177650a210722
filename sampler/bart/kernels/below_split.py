"""Splits and leaves below a split: their labels, and their rows sent down again by new rules.

Where a move proposes new rules, the rows below the top one's split are sent down again split by split, each a
pass over bytes, and the prior of every split there is recomputed from the codes that reach it. Leaves and
splits below the top have labels of their own: a split has its left-most leaf's, so that sending its rows down
relabels those that go right. The range of codes is found of the rule's own column only; that other columns
differ at a node, its first rows nearly always show.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.leaf_models.operations import move_and_sum, widen
from sampler.bart.kernels.state import (
    MOST_LEAVES,
    Forest,
    Slots,
    Trial,
    Work,
)
from sampler.bart.kernels.tree_prior import TreePrior
from sampler.bart.kernels.tree_tables import plane_of, slots_of
from sampler.kernels.arrays import (
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    PAD,
    RIGHT,
    SIDE,
    Bool,
    Byte,
    Bytes,
    Data,
    Float,
    Floats2,
    Int,
    Ints,
    Ints2,
    Longs,
    Model,
)
from sampler.kernels.jit import kernel
from sampler.kernels.rows import code_range, shifted
from sampler.kernels.rules import PRESENT_OR_MISSING, num_rules

NOWHERE = -1  # the label of leaves that are not below the top
FIRST_ROWS = 32  # of a node, compared in all columns before the columns are looked at one by one


@kernel(inline=True, allocates=False)
def list_splits(node: Ints2, top: Int, order: Ints, stack: Ints) -> Int:
    """List the splits at and below `top`, parents first, into `order`; return their number."""
    stack[0] = top
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        at = stack[waiting]
        order[count] = at
        count += 1
        for side in (LEFT, RIGHT):
            if node[at, side] >= 0:
                stack[waiting] = node[at, side]
                waiting += 1
    return count


@kernel(inline=True, allocates=False)
def number_labels(
    node: Ints2, order: Ints, splits: Int, of_split: Ints, of_leaf: Ints, num_leaves: Int
) -> Int:
    """Label the listed splits and the leaves below them; return the number of these leaves."""
    of_leaf[:num_leaves] = NOWHERE
    of_split[order[0]] = 0
    labels = 1
    for k in range(splits):
        at = order[k]
        label = of_split[at]
        for side in (LEFT, RIGHT):
            child = node[at, side]
            if child >= 0:
                of_split[child] = label
            else:
                of_leaf[~child] = label
            if side == LEFT:
                label = np.int32(labels)
                labels += 1
    return labels


@kernel(allocates=False)
def gather_rows(data: Data, forest: Forest, work: Work, tree: Int, everywhere: Bool, outside: Byte) -> None:
    """Set `RowMarks.member` to 0 for rows below the top, `outside` for others, PAD for padding."""
    member, label = work.marks.member, work.below.label
    slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
    if everywhere:
        member[:] = 0
    elif forest.num_leaves[tree] > BYTE_LEAVES:
        for i in range(data.num_rows):
            slot = np.int64(slots[i]) + 256 * np.int64(high[i])
            member[i] = np.uint8(0) if label[slot] != NOWHERE else outside
    else:
        for i in range(data.num_rows):
            member[i] = np.uint8(0) if label[slots[i]] != NOWHERE else outside
    member[data.num_rows :] = PAD


@kernel(allocates=False)
def gather_again(member: Bytes, outside: Byte) -> None:
    """Reset the labels of rows below the top to 0; `outside` is the least of the other labels."""
    for i in range(len(member)):
        member[i] = np.uint8(0) if member[i] < outside else member[i]


@kernel(allocates=False)
def send_down(
    member: Bytes, column: Bytes, label: Byte, cut: Byte, side: Byte, new: Byte, weights: Ints, num_rows: Int
) -> Int:
    """Relabel the rows of a label that a rule sends right; return their number, or their weight."""
    moved: Int = np.int64(0)
    if len(weights) > 0:
        for i in range(num_rows):
            right = (member[i] == label) & (np.uint8(column[i] + side) > cut)
            member[i] = new if right else member[i]
            moved += np.int64(weights[i]) if right else np.int64(0)
        return moved
    for start in range(0, len(member), 64):
        part = np.uint8(0)
        for i in range(start, start + 64):
            right = (member[i] == label) & (np.uint8(column[i] + side) > cut)
            member[i] = new if right else member[i]
            part = np.uint8(part + np.uint8(right))
        moved += np.int64(part)
    return moved


@kernel(allocates=False)
def list_constant(data: Data, member: Bytes, label: Byte, columns: Ints) -> Int:
    """List the columns with one code over a label's rows, ascending, in `columns`; return their number."""
    first: Int = np.int64(-1)
    seen = 0
    count = len(data.codes)
    for column in range(count):
        columns[column] = column
    for i in range(data.num_rows):
        if member[i] != label:
            continue
        if first < 0:
            first = i
            continue
        still = 0
        for k in range(count):
            if data.codes[columns[k], i] == data.codes[columns[k], first]:
                columns[still] = columns[k]
                still += 1
        count = still
        seen += 1
        if count == 0 or seen == FIRST_ROWS:
            break
    if seen < FIRST_ROWS:
        return count
    still = 0
    for k in range(count):
        low, high, gaps = code_range(member, data.codes[columns[k]], label)
        if num_rules(low, high, gaps) == 0:
            columns[still] = columns[k]
            still += 1
    return still


@kernel(inline=True, allocates=False)
def log_column(constant: Ints, num_constant: Int, shares: Floats2, num_columns: Int, column: Int) -> Float:
    """Log probability of a column that differs at a node, by its share among those that do."""
    if len(shares) == 0:
        return -math.log(float(num_columns - num_constant))
    mass = 0.0
    k = 0
    for j in range(num_columns):
        if k < num_constant and constant[k] == j:
            k += 1
        else:
            mass += shares[0, j]
    return math.log(shares[0, column]) - math.log(mass)


@kernel(inline=True, allocates=False)
def log_rule(data: Data, prior: TreePrior, work: Work, node: Ints2, at: Int) -> Float:
    """Log p_rule of a split whose rows have its label, its side included; -inf if the rule is invalid."""
    column, cut = np.int64(node[at, FEATURE]), node[at, CUT]
    label = np.uint8(work.below.split_label[at])
    low, high, gaps = code_range(work.marks.member, data.codes[column], label)
    if cut == PRESENT_OR_MISSING:
        if gaps == 0 or high < low:
            return -np.inf
    elif cut < low or cut >= high:
        return -np.inf
    num_constant = list_constant(data, work.marks.member, label, work.proposal.columns)
    ways = 2 * (high - low) + gaps  # a coin where nothing is missing
    return log_column(work.proposal.columns, num_constant, prior.shares, len(data.codes), column) - math.log(
        float(ways)
    )


@kernel(allocates=False)
def walk_down(
    data: Data, forest: Forest, model: Model, work: Work, tree: Int, splits: Int, whole: Bool, last: Bool
) -> Float:
    """Send the rows below the top to their leaves by the present rules, counting them by label in `moved`.

    Returns the log prior of the listed splits' rules, without the top one's unless `whole`; -inf, and the
    rows not sent down, at the first invalid rule. Not `last`: only the prior is wanted.
    """
    node, label = forest.node[tree], work.below.split_label
    total = 0.0
    for k in range(splits):
        at = work.below.order[k]
        if k > 0 or whole:
            total += log_rule(data, forest.prior, work, node, at)
            if total == -np.inf:
                return total
        left, right = node[at, LEFT], node[at, RIGHT]
        if not last and left < 0 and right < 0:
            continue
        own, new = label[at], label[right] if right >= 0 else work.below.label[~right]
        cut, side = shifted(node[at, CUT], node[at, SIDE])
        right_weight = send_down(
            work.marks.member, data.codes[node[at, FEATURE]], np.uint8(own), cut, side, np.uint8(new),
            model.weights, data.num_rows,
        )  # fmt: skip
        work.below.moved[new] = right_weight
        work.below.moved[own] -= right_weight
    return total


@kernel(allocates=False)
def sum_by_label(data: Data, forest: Forest, model: Model, work: Work, tree: Int, labels: Int) -> None:
    """Give the rows below the top their old values back, and sum them by label into `LeafSums.sums`."""
    num_leaves = np.int64(forest.num_leaves[tree])
    work.pending.delta[: max(num_leaves, MOST_LEAVES)] = 0
    largest: Int = np.int64(0)
    for slot in range(num_leaves):
        if work.below.label[slot] != NOWHERE:
            work.pending.delta[slot] = work.leaves.old[slot]
            largest = max(largest, abs(np.int64(work.leaves.old[slot])))
            work.leaves.old[slot] = 0
    widen(model, largest)
    before = slots_of(forest, tree, num_leaves)
    now = Slots(work.marks.member, before.high, False, labels + 1, work.codes.counts[0])
    trial = Trial(data.codes[0], np.int64(-1), np.uint8(0), np.uint8(0))
    move_and_sum(model, work, data.num_rows, before, now, trial)


@kernel(allocates=False)
def take_labels(data: Data, forest: Forest, work: Work, tree: Int, slot_of: Longs) -> None:
    """Give the rows below the top the slots of their labels."""
    slots, high, member = forest.slots[tree], forest.high[plane_of(forest, tree)], work.marks.member
    wide = forest.num_leaves[tree] > BYTE_LEAVES
    for i in range(data.num_rows):
        slot = slot_of[member[i]]
        if slot >= 0:
            slots[i] = np.uint8(slot & 255)
            if wide:
                high[i] = np.uint8(slot >> 8)


@kernel(inline=True, allocates=False)
def look_below(forest: Forest, work: Work, tree: Int, top: Int) -> Int:
    """List and label the splits and leaves at and below `top`; return the number of leaves."""
    node, num_leaves = forest.node[tree], np.int64(forest.num_leaves[tree])
    splits = list_splits(node, top, work.below.order, work.stack)
    return number_labels(node, work.below.order, splits, work.below.split_label, work.below.label, num_leaves)


@kernel(inline=True, allocates=False)
def walk_again(
    data: Data, forest: Forest, model: Model, work: Work, tree: Int, labels: Int, whole: Bool
) -> Float:
    """Send all rows below the top down again by new rules (`walk_down`)."""
    gather_again(work.marks.member, np.uint8(labels))
    work.below.moved[0] = 0
    for slot in range(forest.num_leaves[tree]):
        if work.below.label[slot] != NOWHERE:
            work.below.moved[0] += forest.count[tree, slot]
    return walk_down(data, forest, model, work, tree, labels - 1, whole, True)
