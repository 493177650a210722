"""One tree update: propose, pass over the rows, accept or not, draw the leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sampler.bart.kernels.leaf_models.operations import (
    draw_leaf,
    move_and_sum,
    partial_sum,
    redraw_leaf,
    split_gain,
    units,
    widen,
)
from sampler.bart.kernels.state import (
    ABOVE,
    BROKEN,
    DEPTH,
    DROP,
    GRID_LIMIT,
    GROW,
    GROWABLE,
    KEEP,
    LAST,
    MOST_LEAVES,
    PENDING_LEAVES,
    PREVIOUS,
    PRUNE,
    RESTRUCTURE,
    RULE,
    TRIAL,
    VALUE,
    Forest,
    Places,
    Trial,
    Work,
    step_signature,
)
from sampler.bart.kernels.tree_prior import log_split, log_stay
from sampler.bart.kernels.tree_tables import (
    grow_leaf,
    is_bottom,
    nth_bottom,
    nth_growable,
    num_bottom,
    num_growable,
    plane_of,
    prune_node,
    slots_of,
)
from sampler.kernels.arrays import (
    ABSENT,
    BYTE_LEAVES,
    LEFT,
    RIGHT,
    Bool,
    Byte,
    Data,
    Float,
    Floats,
    Int,
    Model,
    Words,
)
from sampler.kernels.function_pointers import call_step, places_of
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.rows import (
    mark_leaf,
    relabel_grown_wide,
    relabel_pruned_wide,
    shifted,
    splittable,
)
from sampler.kernels.rules import draw_rule
from sampler.kernels.shared.rows import GrownLeaf, PrunedLeaf, relabel_grown_by, relabel_pruned_by


@kernel(inline=True, allocates=False)
def mark_wide(data: Data, forest: Forest, work: Work, tree: Int, slot: Int) -> Byte:
    """Return the number of a leaf in a byte per row: its slot, or 1 in `RowMarks.mask`, made here."""
    if forest.num_leaves[tree] <= BYTE_LEAVES:
        return np.uint8(slot)
    mark_leaf(forest.slots[tree], forest.high[plane_of(forest, tree)], slot, data.num_rows, work.marks.mask)
    return np.uint8(1)


@kernel(inline=True, allocates=False)
def propose_grow(data: Data, forest: Forest, work: Work, tree: Int) -> Int:
    """Propose a growable leaf, uniformly, and a rule from the prior; return its slot, -1 for none."""
    num_leaves = np.int64(forest.num_leaves[tree])
    growable = num_growable(forest.leaf[tree], num_leaves)
    if growable == 0:
        return -1
    slot = nth_growable(forest.leaf[tree], num_leaves, below(work.random, growable))
    leaf = mark_wide(data, forest, work, tree, slot)
    slots = forest.slots[tree] if num_leaves <= BYTE_LEAVES else work.marks.mask
    draw_rule(
        work.team,
        data,
        slots,
        leaf,
        num_leaves == 1,
        work.random,
        forest.prior.shares,
        work.proposal.columns,
        work.proposal.rule,
        work.proposal.span,
    )
    return slot


@kernel(inline=True, allocates=False)
def pass_rows(data: Data, forest: Forest, model: Model, work: Work, tree: Int, slot: Int) -> None:
    """Apply the previous tree's change; sum in this tree's leaves and, if `slot` >= 0, the trial's left.

    Then a pruned previous tree can be relabelled: its two leaves' rows had different changes.
    """
    state = work.pending.state
    previous = state[PREVIOUS]
    before = state[PENDING_LEAVES]
    if previous < 0:
        previous, before = tree, np.int64(forest.num_leaves[tree])
        work.pending.delta[: max(before, MOST_LEAVES)] = 0
    now = np.int64(forest.num_leaves[tree])
    column = data.codes[work.proposal.rule[0] if slot >= 0 else 0]
    cut, side = shifted(work.proposal.rule[1], work.proposal.rule[2])
    move_and_sum(
        model, work, data.num_rows, slots_of(forest, previous, before), slots_of(forest, tree, now),
        Trial(column, np.int64(slot), cut, side),
    )  # fmt: skip
    finish_prune(data, forest, work)


@kernel(inline=True, allocates=False)
def finish_prune(data: Data, forest: Forest, work: Work) -> None:
    """Relabel the rows of the previous tree if it was pruned."""
    state = work.pending.state
    tree = state[PREVIOUS]
    if tree < 0 or state[KEEP] < 0:
        return
    if state[PENDING_LEAVES] > BYTE_LEAVES:
        high = forest.high[plane_of(forest, tree)]
        relabel_pruned_wide(forest.slots[tree], high, state[KEEP], state[DROP], state[LAST], data.num_rows)
    else:
        keep, drop, last = np.uint8(state[KEEP]), np.uint8(state[DROP]), np.uint8(state[LAST])
        relabel_pruned_by(work.team, PrunedLeaf(forest.slots[tree], keep, drop, last))
    state[KEEP] = -1


@kernel(inline=True, allocates=False)
def load_leaves(forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Load old values, totals and sizes of the leaves after a pass."""
    size_unit, total_unit = units(model)
    for k in range(forest.num_leaves[tree]):
        old = forest.leaf[tree, k, VALUE]
        count = forest.count[tree, k]
        work.leaves.old[k] = old
        work.leaves.total[k] = total_unit * partial_sum(model, work.leaves.sums[TRIAL + k], count, old)
        work.leaves.size[k] = size_unit * float(count)


@kernel(inline=True, allocates=False)
def must_differ(data: Data, model: Model, count: Int) -> Bool:
    """Whether a part has so many rows that two differ; False with weights, of which `count` is the sum."""
    return len(model.weights) == 0 and count > data.most_equal


@kernel(inline=True, allocates=False)
def left_of_grown(model: Model, work: Work, slot: Int) -> tuple[Float, Float]:
    """Return size and total of the rows that the proposed split of a leaf sends to the left."""
    size_unit, total_unit = units(model)
    count = work.leaves.sums[1]
    total = total_unit * partial_sum(model, work.leaves.sums[0], count, work.leaves.old[slot])
    return size_unit * float(count), total


@kernel(inline=True, allocates=False)
def grow_ratio(forest: Forest, model: Model, work: Work, tree: Int, slot: Int) -> Float:
    """Compute the log ratio of the proposed split of leaf `slot`, but for its children's valid splits."""
    node, leaf = forest.node[tree], forest.leaf[tree]
    num_leaves = np.int64(forest.num_leaves[tree])
    depth = leaf[slot, DEPTH]
    left_size, left_total = left_of_grown(model, work, slot)
    right_total, right_size = work.leaves.total[slot] - left_total, work.leaves.size[slot] - left_size
    parent = leaf[slot, ABOVE]
    bottoms = num_bottom(node, num_leaves) + 1
    if parent != ABSENT and is_bottom(node, parent):
        bottoms -= 1
    moves = forest.prior.moves
    choices = moves[PRUNE] * num_growable(leaf, num_leaves) / (moves[GROW] * bottoms)
    ratio = split_gain(model, left_size, left_total, right_size, right_total) + math.log(choices)
    return ratio + (log_split(forest.prior, depth) - log_stay(forest.prior, depth))


@kernel(inline=True, allocates=False)
def decide_grow(
    data: Data, forest: Forest, model: Model, work: Work, tree: Int, slot: Int, ratio: Float, threshold: Float
) -> Bool:
    """Accept or reject the proposed split of leaf `slot` (docs/maths.md#grow) and, if accepted, make it.

    It is accepted where `threshold`, the logarithm of a uniform number, is below the ratio.

    The children's valid-split factors are at most 1, so whether rows of the children differ is looked at only
    when the move would be accepted without them.
    """
    if threshold >= ratio:
        return False
    node, leaf = forest.node[tree], forest.leaf[tree]
    num_leaves = np.int64(forest.num_leaves[tree])
    depth, left_count = leaf[slot, DEPTH], work.leaves.sums[1]
    left_size, left_total = left_of_grown(model, work, slot)
    right_total, right_size = work.leaves.total[slot] - left_total, work.leaves.size[slot] - left_size
    number = mark_wide(data, forest, work, tree, slot)
    slots = forest.slots[tree] if num_leaves <= BYTE_LEAVES else work.marks.mask
    column = data.codes[work.proposal.rule[0]]
    cut, side = shifted(work.proposal.rule[1], work.proposal.rule[2])
    left = must_differ(data, model, left_count) or splittable(
        data.codes, slots, number, data.num_rows, column, cut, side, True
    )
    right = must_differ(data, model, forest.count[tree, slot] - left_count) or splittable(
        data.codes, slots, number, data.num_rows, column, cut, side, False
    )
    if threshold >= ratio + (np.int64(left) + np.int64(right)) * log_stay(forest.prior, depth + 1):
        return False
    grow_leaf(node, leaf, num_leaves, slot, work.proposal.rule, left, right)
    forest.num_leaves[tree] += 1
    forest.count[tree, num_leaves] = forest.count[tree, slot] - left_count
    forest.count[tree, slot] = left_count
    work.leaves.old[num_leaves] = work.leaves.old[slot]
    work.leaves.total[slot], work.leaves.total[num_leaves] = left_total, right_total
    work.leaves.size[slot], work.leaves.size[num_leaves] = left_size, right_size
    if num_leaves + 1 > BYTE_LEAVES:
        high = forest.high[plane_of(forest, tree)]
        relabel_grown_wide(forest.slots[tree], high, column, slot, cut, side, num_leaves, data.num_rows)
    else:
        grown = GrownLeaf(forest.slots[tree], column, np.uint8(slot), cut, side, np.uint8(num_leaves))
        relabel_grown_by(work.team, grown)
    return True


@kernel(inline=True, allocates=False)
def prune_ratio(forest: Forest, model: Model, work: Work, tree: Int, at: Int) -> Float:
    """Compute the log ratio of making a leaf of split `at` (docs/maths.md#prune)."""
    node, leaf = forest.node[tree], forest.leaf[tree]
    num_leaves = np.int64(forest.num_leaves[tree])
    a, b = np.int64(~node[at, LEFT]), np.int64(~node[at, RIGHT])
    depth = leaf[a, DEPTH] - 1
    children = np.int64(leaf[a, GROWABLE]) + np.int64(leaf[b, GROWABLE])
    growable = num_growable(leaf, num_leaves) - children + 1
    moves = forest.prior.moves
    choices = moves[GROW] * num_bottom(node, num_leaves) / (moves[PRUNE] * growable)
    ratio = math.log(choices) - split_gain(
        model, work.leaves.size[a], work.leaves.total[a], work.leaves.size[b], work.leaves.total[b]
    )
    ratio -= log_split(forest.prior, depth) - log_stay(forest.prior, depth)
    return ratio - children * log_stay(forest.prior, depth + 1)


@kernel(inline=True, allocates=False)
def prune_at(forest: Forest, work: Work, tree: Int, at: Int) -> None:
    """Make a leaf of split `at`.

    The rows keep their slots until the change of leaf values has been applied: state says how to relabel.
    """
    node, leaf = forest.node[tree], forest.leaf[tree]
    num_leaves = np.int64(forest.num_leaves[tree])
    a, b = np.int64(~node[at, LEFT]), np.int64(~node[at, RIGHT])
    keep, drop, last = min(a, b), max(a, b), num_leaves - 1
    prune_node(node, leaf, num_leaves, at)
    forest.num_leaves[tree] -= 1
    work.leaves.total[keep], work.leaves.size[keep] = (
        work.leaves.total[a] + work.leaves.total[b],
        work.leaves.size[a] + work.leaves.size[b],
    )
    forest.count[tree, keep] = forest.count[tree, a] + forest.count[tree, b]
    work.leaves.total[drop], work.leaves.size[drop] = work.leaves.total[last], work.leaves.size[last]
    forest.count[tree, drop] = forest.count[tree, last]
    work.pending.state[KEEP], work.pending.state[DROP], work.pending.state[LAST] = keep, drop, last


@kernel(inline=True, allocates=False)
def leave_change(forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Leave the residual's change to the next pass, by the slots that rows have."""
    leaf, state, delta = forest.leaf[tree], work.pending.state, work.pending.delta
    num_leaves = np.int64(forest.num_leaves[tree])
    labels = num_leaves
    if state[KEEP] >= 0:  # pruned: the rows still have the slots they had
        labels += 1
        keep, drop, last = state[KEEP], state[DROP], state[LAST]
        moved = leaf[drop, VALUE] if drop != last else leaf[keep, VALUE]
        delta[last] = work.leaves.old[last] - moved
        delta[drop] = work.leaves.old[drop] - leaf[keep, VALUE]
    largest = np.int64(0)
    for k in range(labels):
        if state[KEEP] < 0 or (k != state[DROP] and k != state[LAST]):
            delta[k] = work.leaves.old[k] - leaf[k, VALUE]
        largest = max(largest, abs(np.int64(delta[k])))
    delta[labels:MOST_LEAVES] = 0
    state[PREVIOUS], state[PENDING_LEAVES] = tree, labels
    widen(model, largest)


@kernel(inline=True, allocates=False)
def draw_leaves(forest: Forest, model: Model, work: Work, tree: Int, changed: Bool) -> None:
    """Draw every leaf value; the residual's change, by the rows' slots, is left to the next pass.

    Those of a tree that has not changed are over-relaxed.
    """
    leaf, state = forest.leaf[tree], work.pending.state
    num_leaves = np.int64(forest.num_leaves[tree])
    for k in range(num_leaves):
        size, total = work.leaves.size[k], work.leaves.total[k]
        if changed:
            value = np.rint(draw_leaf(model, size, total, work.random))
        else:
            value = np.rint(redraw_leaf(model, size, total, leaf[k, VALUE], work.random))
        if abs(value) > GRID_LIMIT:
            state[BROKEN] = 1
            value = 0.0
        leaf[k, VALUE] = np.int32(value)
    leave_change(forest, model, work, tree)


@kernel(inline=True, allocates=False)
def call_move(forest: Forest, places: Places, tree: Int, move: Int) -> Bool:
    """Make a move through its address; whether it was accepted."""
    arguments = (places[0], places[1], places[2], places[3], np.int64(tree))
    return call_step(forest.prior.steps[move], arguments) != 0


@kernel(inline=True, allocates=False)
def draw_move(random: Words, moves: Floats) -> Int:
    """Draw a move from GROW to RESTRUCTURE by its probability."""
    u = uniform(random)
    for move in range(RESTRUCTURE):
        if u < moves[move]:
            return move
        u -= moves[move]
    return RESTRUCTURE


@kernel(inline=True, allocates=False)
def update_tree(data: Data, forest: Forest, model: Model, work: Work, places: Places, tree: Int) -> None:
    """Update one tree, its leaf values integrated out, then draw these.

    `places`: of data, forest, model and work, for the moves that are called by address.
    """
    moves, counters = forest.prior.moves, forest.counters
    move = draw_move(work.random, moves)
    counters[move, 0] += 1
    slot = at = -1
    if move == GROW:
        slot = propose_grow(data, forest, work, tree)
    elif move == PRUNE:
        num_leaves = np.int64(forest.num_leaves[tree])
        bottoms = num_bottom(forest.node[tree], num_leaves)
        if bottoms > 0:
            at = nth_bottom(forest.node[tree], num_leaves, below(work.random, bottoms))
    pass_rows(data, forest, model, work, tree, slot)
    load_leaves(forest, model, work, tree)
    changed = False
    if slot >= 0:
        ratio = grow_ratio(forest, model, work, tree, slot)
        changed = decide_grow(data, forest, model, work, tree, slot, ratio, math.log(uniform(work.random)))
    elif at >= 0:
        changed = math.log(uniform(work.random)) < prune_ratio(forest, model, work, tree, at)
        if changed:
            prune_at(forest, work, tree, at)
    elif move > PRUNE:
        changed = call_move(forest, places, tree, move)
    counters[move, 1] += changed
    if moves[RULE] > 0.0 and (moves[RULE] >= 1.0 or uniform(work.random) < moves[RULE]):
        counters[RULE, 0] += 1
        drawn = call_move(forest, places, tree, RULE)
        counters[RULE, 1] += drawn
        changed = changed or drawn
    draw_leaves(forest, model, work, tree, changed)


def update_trees(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, _tree: Int) -> Int:
    """Update every tree of a forest once, but for the last one's change of the rows (`settle_forest`).

    There must be room. Called by its address, as a move is: the sweeps of one forest and of several share it.
    """
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    places = places_of((data, forest, model, work))
    for tree in range(len(forest.num_leaves)):
        update_tree(data, forest, model, work, places, tree)
    return 0


UPDATE_TREES = pointer_kernel(__name__, step_signature, update_trees)
