"""Many iterations of a single tree's chain in one call, and the draws it keeps."""

from __future__ import annotations

import math

import numpy as np

from sampler.cart.kernels.moves import change, grow, prune, swap
from sampler.cart.kernels.restructure import restructure
from sampler.cart.kernels.rows import moments_of
from sampler.cart.kernels.state import (
    CHANGE,
    CHILD,
    CLASSES,
    CONCENTRATION,
    COUNT,
    CUT,
    DONE,
    FEATURE,
    GROW,
    LEAF,
    LIKELIHOOD,
    MEAN_SHIFT,
    NEEDS_NODES,
    NEEDS_ROOM,
    NU,
    NU_LAMBDA,
    NUM_MOVES,
    OFFSET,
    PRECISION,
    PRUNE,
    SIDE,
    STEP,
    SWAP,
    TOTAL_SQUARES,
    KeptTrees,
    Room,
    Tree,
    TreeRows,
)
from sampler.cart.kernels.tree import totals
from sampler.kernels.arrays import Bool, Float, Floats, Floats2, Int, Longs, Longs2, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, normal, uniform


@kernel(allocates=False)
def draw_leaf(
    rows: TreeRows, tree: Tree, at: Int, variance: Float, random: Words, value: Floats2, place: Int
) -> Float:
    """Draw a leaf's parameters into `value[place]`; return its variance times its rows, in steps^2."""
    constants = rows.constants
    seen = constants[LIKELIHOOD] != 0.0
    if rows.model == CLASSES:
        total = 0.0
        for k in range(value.shape[1]):
            value[place, k] = gamma(random, constants[CONCENTRATION] + (tree.stat[at, k] if seen else 0))
            total += value[place, k]
        for k in range(value.shape[1]):
            value[place, k] = value[place, k] / total if total > 0.0 else 1.0 / value.shape[1]
        return 0.0
    size = float(tree.stat[at, COUNT])
    count, (weight, total, squares) = size, moments_of(rows, tree.stat[at])
    if not seen:
        count, weight, total, squares = 0.0, 0.0, 0.0, 0.0
    sharpness = weight + constants[PRECISION]
    if rows.model != MEAN_SHIFT:
        left_over = constants[NU_LAMBDA] + max(squares - total * total / sharpness, 0.0)
        variance = 0.5 * left_over / gamma(random, 0.5 * (count + constants[NU]))
        value[place, 1] = constants[STEP] * math.sqrt(variance)
    mean = total / sharpness + math.sqrt(variance / sharpness) * normal(random)
    value[place, 0] = constants[OFFSET] + constants[STEP] * mean
    return size * variance


@kernel(allocates=False, entry=True)
def keep(rows: TreeRows, tree: Tree, room: Room, random: Words, kept: KeptTrees) -> Bool:
    """Draw the noise and the leaves, and write the tree in pre-order; False when there is no room."""
    constants, size, fill = rows.constants, tree.size[0], kept.fill
    draw, at_node, at_leaf = fill[0], fill[1], fill[2]
    if draw >= len(kept.sigma) or at_node + size > len(kept.feature) or at_leaf + size > len(kept.value):
        return False
    variance = 1.0
    if rows.model == MEAN_SHIFT:
        count, squares = 0.0, 0.0
        if constants[LIKELIHOOD] != 0.0:
            count = float(len(rows.y))
            squares = max(constants[TOTAL_SQUARES] - totals(tree)[1], 0.0)
        variance = 0.5 * (constants[NU_LAMBDA] + squares) / gamma(random, 0.5 * (count + constants[NU]))
    noise = 0.0
    stack = room.stack
    stack[0] = 0
    waiting = 1
    kept.tree_start[draw] = at_node
    while waiting > 0:
        waiting -= 1
        at = np.int64(stack[waiting])
        kept.feature[at_node] = tree.node[at, FEATURE]
        kept.cut[at_node], kept.missing_left[at_node] = tree.node[at, CUT], tree.node[at, SIDE]
        at_node += 1
        if tree.node[at, FEATURE] == LEAF:
            noise += draw_leaf(rows, tree, at, variance, random, kept.value, at_leaf)
            at_leaf += 1
        else:
            child = tree.node[at, CHILD]
            stack[waiting], stack[waiting + 1] = child + 1, child
            waiting += 2
    kept.sigma[draw] = 1.0 if rows.model == CLASSES else constants[STEP] * math.sqrt(noise / len(rows.y))
    kept.tree_start[draw + 1] = at_node
    fill[0], fill[1], fill[2] = draw + 1, at_node, at_leaf
    return True


@kernel(allocates=False, entry=True)
def cart_sweep(
    rows: TreeRows,
    tree: Tree,
    trial: Tree,
    room: Room,
    random: Words,
    moves: Floats,
    counters: Longs2,
    kept: KeptTrees,
    plan: Longs,
) -> tuple[Int, Int]:
    """Iterate from `plan[0]` up to `plan[1]`; a draw is kept every `plan[3]` after the first `plan[2]`.

    Returns the iteration reached and why it came back. `plan[4]` is 1 when a draw is due that found no room.
    """
    iteration, stop, burnin, thin = plan[0], plan[1], plan[2], plan[3]
    while True:
        if plan[4]:
            if not keep(rows, tree, room, random, kept):
                return iteration, NEEDS_ROOM
            plan[4] = 0
        if iteration >= stop:
            return iteration, DONE
        if tree.size[0] + 2 > len(tree.node):
            return iteration, NEEDS_NODES
        u = uniform(random)
        move = 0
        while move < NUM_MOVES - 1 and u >= moves[move]:
            u -= moves[move]
            move += 1
        while moves[move] == 0.0:  # rounding left the last one, which has no share
            move -= 1
        if move == GROW:
            accepted = grow(rows, tree, room, random, moves)
        elif move == PRUNE:
            accepted = prune(rows, tree, room, random, moves)
        elif move == CHANGE:
            accepted = change(rows, tree, trial, room, random)
        elif move == SWAP:
            accepted = swap(rows, tree, trial, room, random)
        else:
            accepted = restructure(rows, tree, trial, room, random)
        counters[move, 0] += 1
        counters[move, 1] += accepted
        iteration += 1
        if iteration > burnin and (iteration - burnin) % thin == 0:
            plan[4] = 1
