"""CHANGE at a split above two leaves (docs/maths.md#change): a new rule from the prior, kept or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.leaf_models.operations import left_part, reroute_pair, split_gain, units, widen
from sampler.bart.kernels.pairs import mark_pair, unmark_pair
from sampler.bart.kernels.state import DEPTH, GROWABLE, Forest, LeafPair, Work, step_signature
from sampler.bart.kernels.tree_prior import log_stay
from sampler.bart.kernels.tree_tables import nth_bottom, num_bottom, plane_of
from sampler.kernels.arrays import (
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    RIGHT,
    SIDE,
    Bool,
    Byte,
    Bytes,
    Data,
    Int,
    Model,
)
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.rows import shifted, splittable
from sampler.kernels.rules import draw_rule

MEMBER = np.uint8(1)  # in Work.marks.member


@kernel(allocates=False)
def mark_member(slots: Bytes, left: Byte, right: Byte, member: Bytes) -> None:
    """Set `member` to 1 for the rows of two leaves, else 0."""
    for i in range(len(slots)):
        member[i] = np.uint8((slots[i] == left) | (slots[i] == right))


@kernel(inline=True, allocates=False)
def decide_change(data: Data, forest: Forest, model: Model, work: Work, tree: Int, at: Int) -> Bool:
    """Accept or reject `RuleProposal.rule` for a split above two leaves, whose rows are `RowMarks.member`.

    The number of rules at the split is the same before and after, so it cancels against the proposal.
    """
    node, leaf = forest.node[tree], forest.leaf[tree]
    a, b = np.int64(~node[at, LEFT]), np.int64(~node[at, RIGHT])
    wide = forest.num_leaves[tree] > BYTE_LEAVES
    slots = work.marks.mask if wide else forest.slots[tree]
    left, right = np.uint8(1 if wide else a), np.uint8(2 if wide else b)
    pair = LeafPair(slots, left, right, work.leaves.old[a], work.leaves.old[b])
    column = data.codes[work.proposal.rule[0]]
    cut, side = shifted(work.proposal.rule[1], work.proposal.rule[2])
    total, count = left_part(model, pair, column, cut, side, data.num_rows)
    size_unit, total_unit = units(model)
    left_total, left_size = total_unit * float(total), size_unit * float(count)
    right_total = work.leaves.total[a] + work.leaves.total[b] - left_total
    right_size = work.leaves.size[a] + work.leaves.size[b] - left_size
    ratio = split_gain(model, left_size, left_total, right_size, right_total)
    ratio -= split_gain(
        model, work.leaves.size[a], work.leaves.total[a], work.leaves.size[b], work.leaves.total[b]
    )
    left_splits = splittable(data.codes, work.marks.member, MEMBER, data.num_rows, column, cut, side, True)
    right_splits = splittable(data.codes, work.marks.member, MEMBER, data.num_rows, column, cut, side, False)
    gained = np.int64(left_splits) + np.int64(right_splits) - leaf[a, GROWABLE] - leaf[b, GROWABLE]
    ratio += gained * log_stay(forest.prior, np.int64(leaf[a, DEPTH]))
    if math.log(uniform(work.random)) >= ratio:
        return False
    node[at, FEATURE], node[at, CUT], node[at, SIDE] = (
        work.proposal.rule[0],
        work.proposal.rule[1],
        work.proposal.rule[2],
    )
    reroute_pair(model, work, pair, column, cut, side)
    if wide:
        unmark_pair(
            forest.slots[tree], forest.high[plane_of(forest, tree)], a, b, data.num_rows, work.marks.mask
        )
    widen(model, max(abs(np.int64(pair.left_old)), abs(np.int64(pair.right_old))))
    leaf[a, GROWABLE], leaf[b, GROWABLE] = left_splits, right_splits
    forest.count[tree, b] += forest.count[tree, a] - count
    forest.count[tree, a] = count
    work.leaves.total[a], work.leaves.total[b] = left_total, right_total
    work.leaves.size[a], work.leaves.size[b] = left_size, right_size
    work.leaves.old[a] = work.leaves.old[b] = 0
    return True


@kernel(inline=True, allocates=False)
def mark_split(data: Data, forest: Forest, work: Work, tree: Int, at: Int) -> None:
    """Mark the rows of a split above two leaves in `member`, and in `mask` where slots take two bytes."""
    node = forest.node[tree]
    a, b = np.int64(~node[at, LEFT]), np.int64(~node[at, RIGHT])
    if forest.num_leaves[tree] > BYTE_LEAVES:
        mark_pair(
            forest.slots[tree], forest.high[plane_of(forest, tree)], a, b, data.num_rows, work.marks.mask
        )
        mark_member(work.marks.mask, np.uint8(1), np.uint8(2), work.marks.member)
    else:
        mark_member(forest.slots[tree], np.uint8(a), np.uint8(b), work.marks.member)


@kernel(allocates=False)
def change_at(data: Data, forest: Forest, model: Model, work: Work, tree: Int, at: Int) -> Bool:
    """Propose a rule from the prior at a split above two leaves, and decide."""
    mark_split(data, forest, work, tree, at)
    whole = forest.num_leaves[tree] == 2
    draw_rule(
        work.team,
        data,
        work.marks.member,
        MEMBER,
        whole,
        work.random,
        forest.prior.shares,
        work.proposal.columns,
        work.proposal.rule,
        work.proposal.span,
    )
    return decide_change(data, forest, model, work, tree, at)


def change_bottom(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, tree: Int) -> Int:
    """Propose a rule from the prior at a split uniform on W(T), and decide."""
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    node, num_leaves = forest.node[tree], np.int64(forest.num_leaves[tree])
    bottoms = num_bottom(node, num_leaves)
    if bottoms == 0:
        return 0
    at = nth_bottom(node, num_leaves, below(work.random, bottoms))
    return np.int64(change_at(data, forest, model, work, tree, at))


CHANGE_BOTTOM_STEP = pointer_kernel(__name__, step_signature, change_bottom)
