"""Step of a tree update that draws a rule: choose the split, draw, and carry the rows over."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.leaf_models.operations import give_back, reroute_pair, sum_by_code, units, widen
from sampler.bart.kernels.pairs import mark_pair, unmark_pair
from sampler.bart.kernels.rule_draw import (
    BELOW,
    GAPS,
    HIGH_SPLITS,
    LOW_SPLITS,
    MISSING_SPLITS,
    RULES,
    SECOND,
    look_at_groups,
    pick_rule,
    sum_rules,
    weigh_rules,
)
from sampler.bart.kernels.state import (
    DEPTH,
    DROP,
    GROWABLE,
    KEEP,
    LAST,
    Forest,
    LeafPair,
    Work,
    step_signature,
)
from sampler.bart.kernels.tree_prior import log_stay
from sampler.bart.kernels.tree_tables import nth_bottom, num_bottom, plane_of
from sampler.kernels.arrays import (
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    MISSING,
    RIGHT,
    SIDE,
    Bool,
    Data,
    Int,
    Longs,
    Model,
)
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.rows import relabel_pruned_wide, shifted
from sampler.kernels.rules import PRESENT_OR_MISSING, try_column
from sampler.kernels.shared.rows import PrunedLeaf, relabel_pruned_by


@kernel(inline=True, allocates=False)
def settle_prune(data: Data, forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Relabel a tree that has just been pruned: its merged rows, of two old values, get them back first."""
    state, old = work.pending.state, work.leaves.old
    keep, drop, last = state[KEEP], state[DROP], state[LAST]
    slots = forest.slots[tree]
    if last + 1 > BYTE_LEAVES:
        high = forest.high[plane_of(forest, tree)]
        mark_pair(slots, high, keep, drop, data.num_rows, work.marks.mask)
        give_back(model, work, LeafPair(work.marks.mask, np.uint8(1), np.uint8(2), old[keep], old[drop]))
        relabel_pruned_wide(slots, high, keep, drop, last, data.num_rows)
    else:
        give_back(model, work, LeafPair(slots, np.uint8(keep), np.uint8(drop), old[keep], old[drop]))
        relabel_pruned_by(work.team, PrunedLeaf(slots, np.uint8(keep), np.uint8(drop), np.uint8(last)))
    widen(model, max(abs(np.int64(old[keep])), abs(np.int64(old[drop]))))
    old[drop] = old[last]
    old[keep] = 0
    state[KEEP] = -1


@kernel(inline=True, allocates=False)
def children_growable(info: Longs, cut: Int, side: Int) -> tuple[Bool, Bool]:
    """Whether the children of a rule of a column can be split, by the column's groups."""
    gaps = info[GAPS] != 0
    if cut == PRESENT_OR_MISSING:
        return info[SECOND] < 0 or info[RULES] > 1 or info[LOW_SPLITS] != 0, info[MISSING_SPLITS] != 0
    left = cut >= info[SECOND] or (gaps and side == 1) or info[LOW_SPLITS] != 0
    right = cut < info[BELOW] or (gaps and side == 0) or info[HIGH_SPLITS] != 0
    return left, right


@kernel(inline=True, allocates=False)
def load_children(
    forest: Forest,
    model: Model,
    work: Work,
    tree: Int,
    which: Int,
    width: Int,
    leaves: tuple[Int, Int],
    rule: tuple[Int, Int],
) -> None:
    """Set counts, totals and sizes of the leaves of a drawn rule; their rows hold no old value any more."""
    a, b = leaves
    cut, side = rule
    code_sum, code_count = work.codes.sums[which], work.codes.counts[which]
    left = left_count = right = right_count = np.int64(0)
    middle = min(cut + 1, width)
    for code in range(middle):
        left += code_sum[code]
        left_count += code_count[code]
    for code in range(middle, width):
        right += code_sum[code]
        right_count += code_count[code]
    if side != 0:
        left += code_sum[MISSING]
        left_count += code_count[MISSING]
    else:
        right += code_sum[MISSING]
        right_count += code_count[MISSING]
    size_unit, total_unit = units(model)
    work.leaves.total[a], work.leaves.total[b] = total_unit * float(left), total_unit * float(right)
    work.leaves.size[a], work.leaves.size[b] = size_unit * float(left_count), size_unit * float(right_count)
    forest.count[tree, a], forest.count[tree, b] = left_count, right_count
    work.leaves.old[a] = work.leaves.old[b] = 0


def draw_split_rule(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, tree: Int) -> Int:
    """Draw the rule of one split above two leaves from its full conditional; return 1 if it changed.

    The split is uniform among them (the draw leaves them as they are), the other column any, by its share:
    then no share stands in the weights.
    """
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    node, leaf, random = forest.node[tree], forest.leaf[tree], work.random
    num_leaves = np.int64(forest.num_leaves[tree])
    bottoms = num_bottom(node, num_leaves)
    if bottoms == 0:
        return 0
    if work.pending.state[KEEP] >= 0:
        settle_prune(data, forest, model, work, tree)
    at = nth_bottom(node, num_leaves, below(random, bottoms))
    a, b = np.int64(~node[at, LEFT]), np.int64(~node[at, RIGHT])
    own, other = np.int64(node[at, FEATURE]), try_column(random, forest.prior.shares, len(data.codes))
    wide = num_leaves > BYTE_LEAVES
    slots = work.marks.mask if wide else forest.slots[tree]
    left, right = np.uint8(1 if wide else a), np.uint8(2 if wide else b)
    if wide:
        mark_pair(
            forest.slots[tree], forest.high[plane_of(forest, tree)], a, b, data.num_rows, work.marks.mask
        )
    pair = LeafPair(slots, left, right, work.leaves.old[a], work.leaves.old[b])
    rows_apart = sum_by_code(model, data, work, pair, own, other)
    code_rows = work.codes.rows if rows_apart else work.codes.counts
    stay = math.exp(log_stay(forest.prior, np.int64(leaf[a, DEPTH])))
    largest = -np.inf
    columns = 1 if own == other else 2
    which: Int
    for which in range(columns):
        column = own if which == 0 else other
        info = work.codes.info[which]
        look_at_groups(data, slots, left, right, column, code_rows[which], info)
        if info[RULES] > 0:
            term = weigh_rules(
                model,
                work.codes.sums[which],
                work.codes.counts[which],
                stay,
                info,
                work.codes.terms[which],
                work.codes.factors[which],
            )
            largest = max(largest, term)
    own_sum = sum_rules(work.codes.info[0], work.codes.terms[0], work.codes.factors[0], largest)
    own_weight = own_sum / float(work.codes.info[0, RULES])
    other_sum = other_weight = 0.0
    if columns == 2 and work.codes.info[1, RULES] > 0:
        other_sum = sum_rules(work.codes.info[1], work.codes.terms[1], work.codes.factors[1], largest)
        other_weight = other_sum / float(work.codes.info[1, RULES])
    which = np.int64(uniform(random) * (own_weight + other_weight) >= own_weight)
    column = other if which == 1 else own
    info = work.codes.info[which]
    cut, side = pick_rule(info, work.codes.factors[which], other_sum if which == 1 else own_sum, random)
    if column == own and cut == node[at, CUT] and side == node[at, SIDE]:
        return 0
    node[at, FEATURE], node[at, CUT], node[at, SIDE] = column, cut, side
    key, shift = shifted(cut, side)
    reroute_pair(model, work, pair, data.codes[column], key, shift)
    if wide:
        unmark_pair(
            forest.slots[tree], forest.high[plane_of(forest, tree)], a, b, data.num_rows, work.marks.mask
        )
    widen(model, max(abs(np.int64(pair.left_old)), abs(np.int64(pair.right_old))))
    leaf[a, GROWABLE], leaf[b, GROWABLE] = children_growable(info, cut, side)
    load_children(forest, model, work, tree, which, data.high[column] + 1, (a, b), (cut, side))
    return 1


DRAW_SPLIT_RULE_STEP = pointer_kernel(__name__, step_signature, draw_split_rule)
