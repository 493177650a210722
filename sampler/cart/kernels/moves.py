"""Moves of a single tree whose leaf parameters are integrated out (docs/maths.md#moves).

A move that is impossible counts as a rejection, so that the probabilities of moves cancel where they should.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.cart.kernels.rows import (
    draw_rule,
    log_likelihood,
    log_split,
    settle_leaf,
    splittable,
    tally_left,
)
from sampler.cart.kernels.state import (
    CHILD,
    CUT,
    DEPTH,
    EXPLAINED,
    FEATURE,
    GROW,
    LEAF,
    OWN,
    PARENT,
    PRUNE,
    SIDE,
    SPLITTABLE,
    Room,
    Tree,
    TreeRows,
)
from sampler.cart.kernels.tree import copy_tree, is_prunable, join, look_below, split, totals
from sampler.kernels.arrays import Bool, Floats, Int, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import below, uniform


@kernel(allocates=False)
def count_nodes(tree: Tree) -> tuple[Int, Int, Int]:
    """Count the leaves that can be split, the splits above two leaves, and the splits."""
    growable, prunable, splits = 0, 0, 0
    for at in range(tree.size[0]):
        if tree.node[at, FEATURE] == LEAF:
            growable += tree.node[at, SPLITTABLE]
        else:
            splits += 1
            prunable += is_prunable(tree, at)
    return growable, prunable, splits


@kernel(allocates=False)
def grow(rows: TreeRows, tree: Tree, room: Room, random: Words, moves: Floats) -> Bool:
    """Propose to split a leaf by a rule from the prior, and decide."""
    node = tree.node
    growable, prunable, _ = count_nodes(tree)
    if growable == 0:
        return False
    left_to_pass = below(random, growable)
    at = np.int64(0)
    while node[at, FEATURE] != LEAF or not node[at, SPLITTABLE] or left_to_pass > 0:
        if node[at, FEATURE] == LEAF and node[at, SPLITTABLE]:
            left_to_pass -= 1
        at += 1
    start, end = tree.span[at, 0], tree.span[at, 1]
    draw_rule(rows, tree.order, start, end, random, room.columns, room.rule, room.code_span)
    column, cut, side = room.rule[0], room.rule[1], room.rule[2]
    tally_left(rows, tree.order, start, end, column, cut, side, room.left)
    for k in range(len(room.left)):
        room.right[k] = tree.stat[at, k] - room.left[k]
    settle_leaf(rows, room.left, room.child_terms, 0)
    settle_leaf(rows, room.right, room.child_terms, 1)
    own, explained = totals(tree)
    more_own = room.child_terms[0, OWN] + room.child_terms[1, OWN] - tree.term[at, OWN]
    more = room.child_terms[0, EXPLAINED] + room.child_terms[1, EXPLAINED] - tree.term[at, EXPLAINED]
    ratio = log_likelihood(rows, own + more_own, explained + more) - log_likelihood(rows, own, explained)
    depth = node[at, DEPTH]
    splits, stays = log_split(rows.constants, depth)
    ratio += splits - stays
    stays_below = log_split(rows.constants, depth + 1)[1]
    for left in (True, False):
        if splittable(rows, tree.order, start, end, column, cut, side, left):
            ratio += stays_below
    parent = node[at, PARENT]
    after = prunable + (0 if at > 0 and is_prunable(tree, parent) else 1)
    ratio += math.log(moves[PRUNE] * growable / (moves[GROW] * after))
    if math.log(uniform(random)) >= ratio:
        return False
    split(rows, tree, room, at)
    return True


@kernel(allocates=False)
def prune(rows: TreeRows, tree: Tree, room: Room, random: Words, moves: Floats) -> Bool:
    """Propose to join two leaves, and decide."""
    node = tree.node
    growable, prunable, _ = count_nodes(tree)
    if prunable == 0:
        return False
    left_to_pass = below(random, prunable)
    at = np.int64(0)
    while not is_prunable(tree, at) or left_to_pass > 0:
        left_to_pass -= is_prunable(tree, at)
        at += 1
    child = node[at, CHILD]
    for k in range(len(room.left)):
        room.left[k] = tree.stat[child, k] + tree.stat[child + 1, k]
    settle_leaf(rows, room.left, room.child_terms, 0)
    own, explained = totals(tree)
    less_own = tree.term[child, OWN] + tree.term[child + 1, OWN] - room.child_terms[0, OWN]
    less = tree.term[child, EXPLAINED] + tree.term[child + 1, EXPLAINED] - room.child_terms[0, EXPLAINED]
    ratio = log_likelihood(rows, own - less_own, explained - less) - log_likelihood(rows, own, explained)
    depth = node[at, DEPTH]
    splits, stays = log_split(rows.constants, depth)
    stays_below = log_split(rows.constants, depth + 1)[1]
    growable_below = node[child, SPLITTABLE] + node[child + 1, SPLITTABLE]
    ratio += stays - splits - stays_below * growable_below
    ratio += math.log(moves[GROW] * prunable / (moves[PRUNE] * (growable - growable_below + 1)))
    if math.log(uniform(random)) >= ratio:
        return False
    join(rows, tree, at)
    return True


@kernel(allocates=False)
def change(rows: TreeRows, tree: Tree, trial: Tree, room: Room, random: Words) -> Bool:
    """Propose a rule from the prior at any split, and decide."""
    splits = count_nodes(tree)[2]
    if splits == 0:
        return False
    left_to_pass = below(random, splits)
    at = np.int64(0)
    while tree.node[at, FEATURE] == LEAF or left_to_pass > 0:
        left_to_pass -= tree.node[at, FEATURE] != LEAF
        at += 1
    start, end = tree.span[at, 0], tree.span[at, 1]
    draw_rule(rows, tree.order, start, end, random, room.columns, room.rule, room.code_span)
    copy_tree(tree, trial, start, end)
    for k in range(3):
        trial.node[at, FEATURE + k] = room.rule[k]
    return take_or_leave(rows, tree, trial, room, random, at, False)


@kernel(allocates=False)
def swap(rows: TreeRows, tree: Tree, trial: Tree, room: Room, random: Words) -> Bool:
    """Propose to exchange the rules of a split and its child (both, if theirs are equal), and decide."""
    node = tree.node
    pairs = 0
    for k in range(1, tree.size[0]):
        pairs += node[k, FEATURE] != LEAF
    if pairs == 0:
        return False
    left_to_pass = below(random, pairs)
    at = np.int64(1)
    while node[at, FEATURE] == LEAF or left_to_pass > 0:
        left_to_pass -= node[at, FEATURE] != LEAF
        at += 1
    above = np.int64(node[at, PARENT])
    child = np.int64(node[above, CHILD])
    other = child + 1 if at == child else child
    same = (
        node[other, FEATURE] == node[at, FEATURE]
        and node[other, CUT] == node[at, CUT]
        and node[other, SIDE] == node[at, SIDE]
    )
    copy_tree(tree, trial, tree.span[above, 0], tree.span[above, 1])
    for k in range(FEATURE, SIDE + 1):
        trial.node[above, k] = node[at, k]
        trial.node[at, k] = node[above, k]
        if same:
            trial.node[other, k] = node[above, k]
    return take_or_leave(rows, tree, trial, room, random, above, True)


@kernel(allocates=False)
def take_or_leave(
    rows: TreeRows, tree: Tree, trial: Tree, room: Room, random: Words, top: Int, with_top: Bool
) -> Bool:
    """Accept or reject a tree of the same shape whose rules differ from `top` on."""
    valid, prior_then = look_below(rows, trial, room, top, with_top)
    if not valid:
        return False
    _, prior_now = look_below(rows, tree, room, top, with_top)
    own, explained = totals(trial)
    ratio = prior_then - prior_now + log_likelihood(rows, own, explained)
    own, explained = totals(tree)
    ratio -= log_likelihood(rows, own, explained)
    if math.log(uniform(random)) >= ratio:
        return False
    copy_tree(trial, tree, tree.span[top, 0], tree.span[top, 1])
    return True
