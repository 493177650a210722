"""CHANGE at any split and SWAP: new rules inside a tree whose shape stays.

The mathematics: docs/maths.md#change, docs/maths.md#swap.

The rows below the top split are sent down again (`below_split`), and the leaves weighed anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.below_split import (
    NOWHERE,
    gather_rows,
    look_below,
    sum_by_label,
    take_labels,
    walk_again,
    walk_down,
)
from sampler.bart.kernels.change_bottom import change_at
from sampler.bart.kernels.leaf_models.operations import log_evidence, units
from sampler.bart.kernels.state import (
    DEPTH,
    GROWABLE,
    TRIAL,
    Forest,
    Work,
    step_signature,
)
from sampler.bart.kernels.tree_prior import log_stay
from sampler.bart.kernels.tree_tables import is_bottom
from sampler.kernels.arrays import (
    CUT,
    FEATURE,
    LEFT,
    NO_LEAF,
    PARENT,
    RIGHT,
    SIDE,
    Bool,
    Data,
    Float,
    Int,
    Ints2,
    Model,
)
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.rows import splittable
from sampler.kernels.rules import draw_rule

MOST_BELOW = NO_LEAF - 1  # leaves below the top: their labels and one for all other rows fit a byte
EVERY_CODE = 255  # a cut that sends all left


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
        work.team,
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
