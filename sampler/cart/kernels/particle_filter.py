"""Top-down particle filtering of one tree (Lakshminarayanan, Roy and Teh 2013).

The mathematics: docs/maths.md#particle-filter.

Every particle grows its own tree, one node of its queue at a time. Children are numbered as they come, so the
queue is the numbers from `next` on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.cart.kernels.rows import (
    add_weighed,
    draw_rule,
    log_likelihood,
    log_split,
    settle_leaf,
    span_of,
    tally_left,
)
from sampler.cart.kernels.state import (
    CLASSES,
    COUNT,
    DEPTH,
    EXPLAINED,
    OWN,
    SPLITTABLE,
    SQUARES,
    SUM,
    Room,
    Tree,
    TreeRows,
)
from sampler.cart.kernels.tree import copy_tree, split, totals
from sampler.kernels.arrays import (
    MISSING,
    Bool,
    Float,
    Floats,
    Floats3,
    Int,
    Ints2,
    Ints3,
    Longs,
    Longs3,
    Words,
)
from sampler.kernels.jit import kernel
from sampler.kernels.random import below, uniform
from sampler.kernels.rules import PRESENT_OR_MISSING


class Cloud(NamedTuple):
    """The particles: arrays as of a `Tree`, one after the other, and the log weight of each."""

    size: Longs  # [C]
    next: Longs  # [C], first node that has not been decided on
    log_weight: Floats  # [C]
    node: Ints3  # [C, capacity, NODE_SIZE]
    span: Longs3
    stat: Longs3
    term: Floats3
    order: Ints2  # [C, n]


@kernel(inline=True, allocates=False)
def tree_of(cloud: Cloud, c: Int) -> Tree:
    """One particle's tree, in place."""
    return Tree(
        cloud.size[c : c + 1], cloud.node[c], cloud.span[c], cloud.stat[c], cloud.term[c], cloud.order[c]
    )


@kernel(inline=True, allocates=False)
def log_add(a: Float, b: Float) -> Float:
    """log(e^a + e^b), either of which may be minus infinity."""
    top = max(a, b)
    if top == -math.inf:
        return top
    return top + math.log(math.exp(a - top) + math.exp(b - top))


@kernel(allocates=False)
def gain(
    rows: TreeRows,
    tree: Tree,
    room: Room,
    at: Int,
    own: Float,
    explained: Float,
    base: Float,
) -> Float:
    """Gain in log likelihood by a split of a leaf whose left statistics are in `room.left`."""
    for k in range(len(room.left)):
        room.right[k] = tree.stat[at, k] - room.left[k]
    settle_leaf(rows, room.left, room.child_terms, 0)
    settle_leaf(rows, room.right, room.child_terms, 1)
    own += room.child_terms[0, OWN] + room.child_terms[1, OWN] - tree.term[at, OWN]
    explained += room.child_terms[0, EXPLAINED] + room.child_terms[1, EXPLAINED] - tree.term[at, EXPLAINED]
    return log_likelihood(rows, own, explained) - base


@kernel(allocates=False)
def fill_bins(rows: TreeRows, tree: Tree, room: Room, at: Int, column: Int) -> None:
    """Statistics of the node's rows by their code of a column, the missing in the last bin."""
    bins, codes = room.bins, rows.codes[column]
    for empty in range(room.code_span[0], room.code_span[1] + 1):
        bins[empty, :] = 0
    bins[MISSING, :] = 0
    for k in range(tree.span[at, 0], tree.span[at, 1]):
        i = tree.order[k]
        code = np.int64(codes[i])
        y = np.int64(rows.y[i])
        if rows.model == CLASSES:
            bins[code, y] += 1
        elif len(rows.weighed):
            bins[code, COUNT] += 1
            add_weighed(rows, i, bins[code])
        else:
            bins[code, COUNT] += 1
            bins[code, SUM] += y
            bins[code, SQUARES] += y * y


@kernel(allocates=False)
def weigh_column(
    rows: TreeRows,
    tree: Tree,
    room: Room,
    at: Int,
    column: Int,
    own: Float,
    explained: Float,
    base: Float,
) -> Int:
    """Find the gain of every rule of a column, into `room.terms`; return the number of rules.

    Without missing rows a term for each cut; else two for each, the missing right and left, and a last one
    for "present | missing".
    """
    fill_bins(rows, tree, room, at, column)
    low, high, missing = room.code_span[0], room.code_span[1], room.code_span[2]
    bins, number, width = room.bins, np.int64(0), len(room.left)
    for side in range(2 if missing else 1):
        step = 2 if missing else 1
        for k in range(width):
            room.left[k] = bins[MISSING, k] if side else 0
        for code in range(low, high):
            empty = True
            for k in range(width):
                empty = empty and bins[code, k] == 0
                room.left[k] += bins[code, k]
            place = (code - low) * step + side
            if empty and code > low:  # the very rows of the cut before
                room.terms[place] = room.terms[place - step]
            else:
                room.terms[place] = gain(rows, tree, room, at, own, explained, base)
            number += 1
    if missing and high >= low:
        for k in range(width):
            room.left[k] = tree.stat[at, k] - bins[MISSING, k]
        room.terms[number] = gain(rows, tree, room, at, own, explained, base)
        number += 1
    return number


@kernel(allocates=False)
def choose_rule(room: Room, random: Words, column: Int, number: Int, total: Float) -> None:
    """Draw a rule of a column in proportion to e^term, whose log sum is `total`, into `room.rule`."""
    u = uniform(random)
    place, seen = np.int64(0), math.exp(room.terms[0] - total)
    while seen < u and place < number - 1:
        place += 1
        seen += math.exp(room.terms[place] - total)
    low, high, missing = room.code_span[0], room.code_span[1], room.code_span[2]
    room.rule[0] = column
    if missing and place == 2 * (high - low):
        room.rule[1], room.rule[2] = PRESENT_OR_MISSING, 0
    elif missing:
        room.rule[1], room.rule[2] = low + (place >> 1), place & 1
    else:
        room.rule[1], room.rule[2] = low + place, below(random, 2)


@kernel(allocates=False)
def decide_best(rows: TreeRows, tree: Tree, room: Room, random: Words, at: Int) -> tuple[Float, Bool]:
    """Stop or split by the one-step optimal proposal; return the log weight earned and whether to split."""
    own, explained = totals(tree)
    base = log_likelihood(rows, own, explained)
    total, columns = -math.inf, np.int64(0)
    for column in range(len(rows.codes)):
        start, end = tree.span[at, 0], tree.span[at, 1]
        if span_of(rows, tree.order, start, end, column, room.code_span) == 0:
            continue
        columns += 1
        number = weigh_column(rows, tree, room, at, column, own, explained, base)
        top = -math.inf
        for k in range(number):
            top = max(top, room.terms[k])
        mass = 0.0
        for k in range(number):
            mass += math.exp(room.terms[k] - top)
        here = top + math.log(mass)
        share = here - math.log(float(number))
        after = log_add(total, share)
        if math.log(uniform(random)) < share - after:  # keeps each column with its share of all
            choose_rule(room, random, column, number, here)
        total = after
    splits, stays = log_split(rows.constants, tree.node[at, DEPTH])
    splits += total - math.log(float(columns))
    both = log_add(splits, stays)
    return both, math.log(uniform(random)) < splits - both


@kernel(allocates=False)
def visit(rows: TreeRows, tree: Tree, room: Room, random: Words, at: Int, best: Bool) -> Float:
    """Decide on a node of a particle; return the log weight earned."""
    node = tree.node
    if not node[at, SPLITTABLE]:
        return 0.0
    earned = 0.0
    start, end = tree.span[at, 0], tree.span[at, 1]
    if best:
        earned, splits = decide_best(rows, tree, room, random, at)
        if not splits:
            return earned
    else:
        if math.log(uniform(random)) >= log_split(rows.constants, node[at, DEPTH])[0]:
            return 0.0
        draw_rule(rows, tree.order, start, end, random, room.columns, room.rule, room.code_span)
    tally_left(rows, tree.order, start, end, room.rule[0], room.rule[1], room.rule[2], room.left)
    if not best:
        own, explained = totals(tree)
        base = log_likelihood(rows, own, explained)
        earned = gain(rows, tree, room, at, own, explained, base)
    for k in range(len(room.left)):
        room.right[k] = tree.stat[at, k] - room.left[k]
    split(rows, tree, room, at)
    return earned


@kernel(allocates=False, entry=True)
def advance(
    rows: TreeRows,
    cloud: Cloud,
    room: Room,
    random: Words,
    first: Int,
    most: Int,
    best: Bool,
) -> tuple[Int, Int]:
    """Let the particles from `first` on, a limited number, decide on a node each.

    Returns the particle that is next, and how many were done already.
    """
    idle = np.int64(0)
    last = min(first + most, len(cloud.size))
    for c in range(first, last):
        at = cloud.next[c]
        if at >= cloud.size[c]:
            idle += 1
            continue
        cloud.next[c] = at + 1
        cloud.log_weight[c] += visit(rows, tree_of(cloud, c), room, random, at, best)
    return last, idle


@kernel(allocates=False)
def log_sum(values: Floats) -> Float:
    """Log of the sum of e^values."""
    top = -math.inf
    for k in range(len(values)):
        top = max(top, values[k])
    total = 0.0
    for k in range(len(values)):
        total += math.exp(values[k] - top)
    return top + math.log(total)


@kernel(allocates=False, entry=True)
def resample(cloud: Cloud, into: Cloud, random: Words, threshold: Float) -> tuple[Bool, Float]:
    """Draw particles by their weights into `into` when the effective number is at most a share of all.

    Whether they were drawn (then all weights there are 1), and the log mean weight.
    """
    many = len(cloud.size)
    total = log_sum(cloud.log_weight)
    squares = 0.0
    for c in range(many):
        squares += math.exp(2.0 * (cloud.log_weight[c] - total))
    if 1.0 / squares > threshold * many:
        return False, 0.0
    for c in range(many):
        u = uniform(random)
        parent, seen = np.int64(0), math.exp(cloud.log_weight[0] - total)
        while seen < u and parent < many - 1:
            parent += 1
            seen += math.exp(cloud.log_weight[parent] - total)
        copy_tree(tree_of(cloud, parent), tree_of(into, c), 0, cloud.order.shape[1])
        into.next[c] = cloud.next[parent]
        into.log_weight[c] = 0.0
    return True, total - math.log(float(many))
