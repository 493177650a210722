"""Radical restructure of Wu, Tjelmeland and West (2007): another tree with the same rows in its leaves.

As reconstructed in docs/maths.md#restructure: a tree is built from the top by rules, uniform among all that
are valid at the node and cut none of the blocks of rows that the leaves hold.
"""

from __future__ import annotations

import math

from sampler.cart.kernels.rows import span_of
from sampler.cart.kernels.state import (
    CHILD,
    CUT,
    DEPTH,
    FEATURE,
    LEAF,
    PARENT,
    SIDE,
    SPLITTABLE,
    Room,
    Tree,
    TreeRows,
)
from sampler.cart.kernels.tree import copy_node, copy_tree, look_below
from sampler.kernels.arrays import Bool, Float, Words
from sampler.kernels.jit import kernel
from sampler.kernels.leaf_blocks import Blocks, count_clean, draw_clean, sort_blocks
from sampler.kernels.random import uniform


@kernel(inline=True, allocates=False)
def blocks_of(room: Room) -> Blocks:
    """Collect the leaves' blocks and the room to look at them."""
    return Blocks(room.blocks, room.block, room.bad, room.rule)


@kernel(allocates=False)
def log_ways(tree: Tree, room: Room) -> Float:
    """Log the number of ways to choose this tree's rules; `room.blocks` comes out in any order.

    The blocks of a subtree are contiguous, since its nodes are visited before those of the next one.
    """
    node = tree.node
    total = 0.0
    for at in range(tree.size[0]):
        if node[at, FEATURE] == LEAF:
            continue
        number = 0
        for leaf in range(tree.size[0]):
            inside = tree.span[leaf, 0] >= tree.span[at, 0] and tree.span[leaf, 1] <= tree.span[at, 1]
            if node[leaf, FEATURE] == LEAF and inside:
                room.blocks[number] = leaf
                number += 1
        total += math.log(float(count_clean(blocks_of(room), 0, number)))
    return total


@kernel(allocates=False)
def build(tree: Tree, trial: Tree, room: Room, random: Words) -> Bool:
    """Build a tree with the leaves of `tree` in `trial`, rules only; False where a node had no clean rule."""
    node, span = trial.node, trial.span
    number = 0
    for leaf in range(tree.size[0]):
        if tree.node[leaf, FEATURE] == LEAF:
            room.blocks[number] = leaf
            number += 1
    trial.size[0] = 1
    copy_node(tree, 0, trial, 0)
    span[0, 0], span[0, 1] = 0, number  # for now, of blocks
    at = 0
    while at < trial.size[0]:
        first, last = span[at, 0], span[at, 1]
        if last - first == 1:
            node[at, FEATURE], node[at, CUT], node[at, SIDE], node[at, CHILD] = LEAF, 0, 0, 0
            at += 1
            continue
        if draw_clean(blocks_of(room), random, first, last) == 0:
            return False
        child = trial.size[0]
        trial.size[0] += 2
        middle = sort_blocks(blocks_of(room), first, last)
        node[at, FEATURE], node[at, CUT], node[at, SIDE] = room.rule[0], room.rule[1], room.rule[2]
        node[at, CHILD] = child
        for k in range(2):
            node[child + k, PARENT], node[child + k, DEPTH] = at, node[at, DEPTH] + 1
            node[child + k, SPLITTABLE] = 0
        span[child, 0], span[child, 1], span[child + 1, 0], span[child + 1, 1] = first, middle, middle, last
        at += 1
    return True


@kernel(allocates=False)
def restructure(rows: TreeRows, tree: Tree, trial: Tree, room: Room, random: Words) -> Bool:
    """Propose another tree with the same rows in its leaves, and decide; the likelihood stays."""
    if tree.size[0] == 1:
        return False
    for leaf in range(tree.size[0]):
        if tree.node[leaf, FEATURE] == LEAF:
            for column in range(len(rows.codes)):
                span_of(rows, tree.order, tree.span[leaf, 0], tree.span[leaf, 1], column, room.code_span)
                for k in range(3):
                    room.block[leaf, column, k] = room.code_span[k]
    ways = log_ways(tree, room)
    if not build(tree, trial, room, random):
        return False
    trial.span[0, 0], trial.span[0, 1] = 0, len(tree.order)
    for k in range(len(tree.order)):
        trial.order[k] = tree.order[k]
    valid, prior_then = look_below(rows, trial, room, 0, True)
    if not valid:
        return False
    for leaf in range(trial.size[0]):  # blocks go by the new tree's leaves now
        if trial.node[leaf, FEATURE] == LEAF:
            for column in range(len(rows.codes)):
                span_of(rows, trial.order, trial.span[leaf, 0], trial.span[leaf, 1], column, room.code_span)
                for k in range(3):
                    room.block[leaf, column, k] = room.code_span[k]
    _, prior_now = look_below(rows, tree, room, 0, True)
    ratio = prior_then - prior_now + log_ways(trial, room) - ways
    if math.log(uniform(random)) >= ratio:
        return False
    copy_tree(trial, tree, 0, len(tree.order))
    return True
