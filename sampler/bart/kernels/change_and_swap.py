"""CHANGE at any split and SWAP: new rules inside a tree whose shape stays.

The mathematics: docs/maths.md#change, docs/maths.md#swap.

The rows below the top split are sent down again split by split, each a pass over bytes, and the prior of
every split and leaf there is recomputed from the codes that reach them. Leaves and splits below the top have
labels of their own: a split has its left-most leaf's, so that sending its rows down relabels those that go
right. The range of codes is found of the rule's own column only; that other columns differ at a node, its
first rows nearly always show.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.change_bottom import change_at
from sampler.bart.kernels.leaf_models.operations import log_evidence, move_and_sum, units, widen
from sampler.bart.kernels.state import (
    DEPTH,
    GROWABLE,
    MOST_LEAVES,
    TRIAL,
    Forest,
    Slots,
    Trial,
    Work,
    step_signature,
)
from sampler.bart.kernels.tree_prior import TreePrior, log_stay
from sampler.bart.kernels.tree_tables import is_bottom, plane_of, slots_of
from sampler.kernels.arrays import (
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    NO_LEAF,
    PAD,
    PARENT,
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
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.rows import code_range, shifted, splittable
from sampler.kernels.rules import PRESENT_OR_MISSING, draw_rule, num_rules

NOWHERE = -1  # the label of leaves that are not below the top
MOST_BELOW = NO_LEAF - 1  # leaves below the top: their labels and one for all other rows fit a byte
FIRST_ROWS = 32  # of a node, compared in all columns before the columns are looked at one by one
EVERY_CODE = 255  # a cut that sends all left


@kernel(inline=True, allocates=False)
def list_splits(node: Ints2, top: Int, order: Ints, stack: Ints) -> Int:
    """List the splits at and below `top`, parents first, into `order`; return their number."""
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


@kernel(inline=True, allocates=False)
def number_labels(
    node: Ints2, order: Ints, splits: Int, of_split: Ints, of_leaf: Ints, num_leaves: Int
) -> Int:
    """Label the listed splits and the leaves below them; return the number of these leaves."""
    of_leaf[:num_leaves] = NOWHERE
    of_split[order[0]] = 0
    made = 1
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
                label = np.int32(made)
                made += 1
    return made


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
    found = len(data.codes)
    for column in range(found):
        columns[column] = column
    for i in range(data.num_rows):
        if member[i] != label:
            continue
        if first < 0:
            first = i
            continue
        still = 0
        for k in range(found):
            if data.codes[columns[k], i] == data.codes[columns[k], first]:
                columns[still] = columns[k]
                still += 1
        found = still
        seen += 1
        if found == 0 or seen == FIRST_ROWS:
            break
    if seen < FIRST_ROWS:
        return found
    still = 0
    for k in range(found):
        low, high, gaps = code_range(member, data.codes[columns[k]], label)
        if num_rules(low, high, gaps) == 0:
            columns[still] = columns[k]
            still += 1
    return still


@kernel(inline=True, allocates=False)
def log_column(constant: Ints, found: Int, shares: Floats2, num_columns: Int, column: Int) -> Float:
    """Log probability of a column that differs at a node, by its share among those that do."""
    if len(shares) == 0:
        return -math.log(float(num_columns - found))
    mass = 0.0
    k = 0
    for j in range(num_columns):
        if k < found and constant[k] == j:
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
    found = list_constant(data, work.marks.member, label, work.proposal.columns)
    ways = 2 * (high - low) + gaps  # a coin where nothing is missing
    return log_column(work.proposal.columns, found, prior.shares, len(data.codes), column) - math.log(
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
    now = Slots(work.marks.member, before.high, False, labels + 1)
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


@kernel(allocates=False)
def decide_reshape(
    data: Data, forest: Forest, model: Model, work: Work,
    tree: Int, labels: Int, ratio: Float,
) -> Bool:  # fmt: skip
    """Accept or reject new rules whose rows were sent down; `ratio` is the log ratio of priors.

    A leaf's valid-split factor is at most 1, so whether its rows differ is looked at only when the move would
    be accepted without them.
    """
    leaf, num_leaves = forest.leaf[tree], np.int64(forest.num_leaves[tree])
    threshold = math.log(uniform(work.random))
    if ratio == -np.inf:
        return False
    sum_by_label(data, forest, model, work, tree, labels)
    size_unit, total_unit = units(model)
    for slot in range(num_leaves):
        label = work.below.label[slot]
        if label == NOWHERE:
            continue
        ratio -= log_evidence(model, work.leaves.size[slot], work.leaves.total[slot])
        ratio += log_evidence(
            model,
            size_unit * float(work.below.moved[label]),
            total_unit * float(work.leaves.sums[TRIAL + label]),
        )
        if leaf[slot, GROWABLE]:
            ratio -= log_stay(forest.prior, np.int64(leaf[slot, DEPTH]))
    if threshold >= ratio:
        return False
    growable = work.below.growable
    for slot in range(num_leaves):
        label = work.below.label[slot]
        if label != NOWHERE:
            growable[label] = splittable(
                data.codes, work.marks.member, np.uint8(label), data.num_rows, data.codes[0],
                np.uint8(EVERY_CODE), np.uint8(0), True,
            )  # fmt: skip
            if growable[label]:
                ratio += log_stay(forest.prior, np.int64(leaf[slot, DEPTH]))
    if threshold >= ratio:
        return False
    slot_of = work.below.slot_of
    slot_of[:] = NOWHERE
    for slot in range(num_leaves):
        label = work.below.label[slot]
        if label != NOWHERE:
            slot_of[label] = slot
            forest.count[tree, slot] = work.below.moved[label]
            work.leaves.total[slot] = total_unit * float(work.leaves.sums[TRIAL + label])
            work.leaves.size[slot] = size_unit * float(work.below.moved[label])
            leaf[slot, GROWABLE] = growable[label]
    take_labels(data, forest, work, tree, slot_of)
    return True


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


@kernel(inline=True, allocates=False)
def try_rule(data: Data, forest: Forest, model: Model, work: Work, tree: Int, top: Int, labels: Int) -> Bool:
    """Propose the rule in `RuleProposal.rule` for a split whose rows are gathered, and decide."""
    node, rule = forest.node[tree], work.proposal.rule
    before = walk_down(data, forest, model, work, tree, labels - 1, False, False)
    feature, cut, side = node[top, FEATURE], node[top, CUT], node[top, SIDE]
    node[top, FEATURE], node[top, CUT], node[top, SIDE] = rule[0], rule[1], rule[2]
    ratio = walk_again(data, forest, model, work, tree, labels, False) - before
    if decide_reshape(data, forest, model, work, tree, labels, ratio):
        return True
    node[top, FEATURE], node[top, CUT], node[top, SIDE] = feature, cut, side
    return False


def change_any(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, tree: Int) -> Int:
    """Propose a rule from the prior at a split uniform among all (docs/maths.md#change), and decide.

    A split above more than MOST_BELOW leaves stays as it is: their number is the same before and after, so
    that leaves the posterior as it is too.
    """
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    num_leaves, rule = np.int64(forest.num_leaves[tree]), work.proposal.rule
    if num_leaves == 1:
        return 0
    top = below(work.random, num_leaves - 1)
    if is_bottom(forest.node[tree], top):
        return np.int64(change_at(data, forest, model, work, tree, top))
    labels = look_below(forest, work, tree, top)
    if labels > MOST_BELOW:
        return 0
    gather_rows(data, forest, work, tree, top == 0, np.uint8(labels))
    draw_rule(
        data,
        work.marks.member,
        np.uint8(0),
        top == 0,
        work.random,
        forest.prior.shares,
        work.proposal.columns,
        rule,
        work.proposal.span,
    )
    return try_rule(data, forest, model, work, tree, top, labels)


@kernel(allocates=False)
def exchange_rules(node: Ints2, top: Int, child: Int, twin: Int) -> None:
    """Exchange the rules of a split and its child, or both children if `twin` >= 0; its own inverse."""
    for k in (FEATURE, CUT, SIDE):
        rule = node[top, k]
        node[top, k] = node[child, k]
        node[child, k] = rule
        if twin >= 0:
            node[twin, k] = rule


@kernel(allocates=False)
def swap_at(data: Data, forest: Forest, model: Model, work: Work, tree: Int, child: Int) -> Bool:
    """Propose to exchange a split's rule (and its twin's, if equal) and its parent's, and decide."""
    node = forest.node[tree]
    top = np.int64(node[child, PARENT])
    twin = np.int64(node[top, RIGHT] if node[top, LEFT] == child else node[top, LEFT])
    if twin >= 0:
        for k in (FEATURE, CUT, SIDE):
            if twin >= 0 and node[twin, k] != node[child, k]:
                twin = np.int64(-1)
    labels = look_below(forest, work, tree, top)
    if labels > MOST_BELOW:
        return False
    gather_rows(data, forest, work, tree, top == 0, np.uint8(labels))
    before = walk_down(data, forest, model, work, tree, labels - 1, True, False)
    exchange_rules(node, top, child, twin)
    ratio = walk_again(data, forest, model, work, tree, labels, True) - before
    if decide_reshape(data, forest, model, work, tree, labels, ratio):
        return True
    exchange_rules(node, top, child, twin)
    return False


def swap_rules(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, tree: Int) -> Int:
    """Propose a swap at a pair of parent and child split, uniform among all (docs/maths.md#swap).

    As with CHANGE, pairs above more than MOST_BELOW leaves stay.
    """
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    splits = np.int64(forest.num_leaves[tree]) - 1
    if splits < 2:
        return 0
    child = 1 + below(work.random, splits - 1)  # every split but the root (number 0) makes one pair
    return np.int64(swap_at(data, forest, model, work, tree, child))


CHANGE_ANY_STEP = pointer_kernel(__name__, step_signature, change_any)
SWAP_RULES_STEP = pointer_kernel(__name__, step_signature, swap_rules)
