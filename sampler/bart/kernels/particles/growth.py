"""Particle Gibbs for one tree: conditional sequential Monte Carlo over partial trees.

The mathematics: docs/maths.md#particle-gibbs.

A particle is a partial tree, grown breadth first: its nodes in the order in which they were made, the first
`HEAD` of them decided, the others waiting. Its rows are a permutation in which every node's rows are
contiguous, so a split partitions a segment and a copy is a copy of memory. Particle 0 replays the tree that
the chain has; its nodes and rows are laid out at once, and `MADE` says how far it has got. Decisions come
from the prior, whichever it is (`laws`), so a weight is the evidence gained, and 0 where a node can't have
the leaves that it must; all are resampled before every stage but the first. Meanwhile the tree is taken out
of the rows, whatever the leaf model: a node is known by its sum and count.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.leaf_models.operations import row_values, split_gain, units
from sampler.bart.kernels.particles.layout import (
    ALLOTTED,
    CHILD,
    HEAD,
    LEVEL,
    MADE,
    NONE,
    ORIGIN,
    ROWS,
    SIZE,
    START,
    TOTAL,
    Swarm,
    lay_out,
)
from sampler.bart.kernels.state import ABOVE, DEPTH, GROWABLE, TRIAL, VALUE, Forest, Work
from sampler.bart.kernels.tree_prior import TreePrior
from sampler.bart.kernels.tree_tables import plane_of
from sampler.kernels.arrays import (
    ABSENT,
    BYTE_LEAVES,
    CUT,
    FEATURE,
    LEFT,
    MISSING,
    PARENT,
    SIDE,
    Bool,
    Data,
    Float,
    Floats,
    Floats2,
    Int,
    Ints,
    Longs,
    Model,
    Words,
)
from sampler.kernels.function_pointers import call_step, places_of
from sampler.kernels.jit import kernel
from sampler.kernels.random import uniform
from sampler.kernels.rules import draw_cut, num_rules, redraw_column, try_column

BLIND_DRAWS = 8  # as in `rules`
NO_ROOM, NO_PARTICLE = -1, -2


@kernel(allocates=False)
def rows_differ(data: Data, rows: Ints) -> Bool:
    """Whether some of the rows differ in some column: nearly always the first two do."""
    for k in range(1, len(rows)):
        for j in range(len(data.codes)):
            if data.codes[j, rows[k]] != data.codes[j, rows[0]]:
                return True
    return False


@kernel(inline=True, allocates=False)
def place_of_rows(swarm: Swarm, particle: Int, at: Int) -> tuple[Int, Int]:
    """Return where the rows of a node begin and end in those of its particle."""
    start = np.int64(swarm.node[particle, at, START])
    return start, start + np.int64(swarm.node[particle, at, ROWS])


@kernel(allocates=False)
def look_at_rows(data: Data, rows: Ints, column: Int, span: Longs) -> Int:
    """Count the rules of a column over the rows listed; its low, high and missing go to `span`."""
    if len(rows) == data.num_rows:
        span[0], span[1], span[2] = data.low[column], data.high[column], data.missing[column]
        return num_rules(span[0], span[1], span[2])
    codes = data.codes[column]
    low, above, missing = np.uint8(MISSING), np.uint8(0), np.uint8(0)
    for row in rows:
        code = codes[row]
        low = min(low, code)
        above = max(above, np.uint8(code + 1))  # a missing code wraps to 0
        missing = np.uint8(missing | np.uint8(code == MISSING))
    span[0], span[1], span[2] = np.int64(low), np.int64(above) - 1, np.int64(missing)
    return num_rules(span[0], span[1], span[2])


@kernel(allocates=False)
def draw_rule_of_rows(
    data: Data, rows: Ints, random: Words, shares: Floats2, columns: Ints, span: Longs, rule: Longs
) -> None:
    """Draw a rule from its prior over the rows listed, which must differ (`rules.draw_rule` for a list)."""
    column: Int = np.int64(-1)
    for _ in range(BLIND_DRAWS):
        tried = try_column(random, shares, len(data.codes))
        if look_at_rows(data, rows, tried, span) > 0:
            column = tried
            break
    if column < 0:
        count = 0
        for j in range(len(data.codes)):
            if look_at_rows(data, rows, j, span) > 0:
                columns[count] = j
                count += 1
        column = redraw_column(random, shares, columns, count)
        look_at_rows(data, rows, column, span)
    rule[0] = column
    draw_cut(random, span[0], span[1], span[2], rule)


@kernel(allocates=False)
def split_rows(data: Data, model: Model, swarm: Swarm, particle: Int, at: Int) -> None:
    """Make the two children of a node by its rule: partition its rows, and sum on the left."""
    node, total, fill = swarm.node[particle], swarm.sum[particle], swarm.fill[particle]
    start, count = np.int64(node[at, START]), np.int64(node[at, ROWS])
    rows = swarm.rows[particle, start : start + count]
    codes, side = data.codes[node[at, FEATURE]], np.uint8(node[at, SIDE])
    cut = np.uint8(node[at, CUT] + side)
    weighted = len(model.weights) > 0
    left = right = np.int64(0)
    sum_left = size_left = np.int64(0)
    for k in range(count):
        row = rows[k]
        goes = np.int64(np.uint8(codes[row] + side) <= cut)
        rows[left] = row
        swarm.buffer[right] = row
        left += goes
        right += 1 - goes
        if weighted:
            size_left += goes * np.int64(model.weights[row])
        sum_left += goes * swarm.value[row]
    if not weighted:
        size_left = left
    for k in range(right):
        rows[left + k] = swarm.buffer[k]
    child = fill[MADE]
    node[at, CHILD] = child
    for k in range(2):
        node[child + k, CHILD] = NONE
        node[child + k, START] = start if k == 0 else start + left
        node[child + k, ROWS] = left if k == 0 else right
        node[child + k, LEVEL] = node[at, LEVEL] + 1
    total[child, TOTAL], total[child, SIZE] = sum_left, size_left
    total[child + 1, TOTAL], total[child + 1, SIZE] = total[at, TOTAL] - sum_left, total[at, SIZE] - size_left
    fill[MADE] = child + 2


@kernel(inline=True, allocates=False)
def gain_of(model: Model, swarm: Swarm, particle: Int, child: Int) -> Float:
    """Return l(left) + l(right) - l(both) of two children."""
    size_unit, total_unit = units(model)
    left, right = swarm.sum[particle, child], swarm.sum[particle, child + 1]
    return split_gain(
        model, size_unit * float(left[SIZE]), total_unit * float(left[TOTAL]),
        size_unit * float(right[SIZE]), total_unit * float(right[TOTAL]),
    )  # fmt: skip


@kernel(allocates=False)
def free_step(data: Data, prior: TreePrior, model: Model, random: Words, swarm: Swarm, particle: Int) -> Bool:
    """Decide the first waiting node of a free particle as the prior would; False if there is no room."""
    node, fill, given = swarm.node[particle], swarm.fill[particle], swarm.given
    at = fill[HEAD]
    if at >= fill[MADE]:
        return True
    fill[HEAD] = at + 1
    given[0] = given[1] = 0
    places = places_of((data, prior, swarm, random))
    if not call_step(prior.law, (places[0], places[1], places[2], places[3], particle, at)):
        return True
    if fill[MADE] + 2 > node.shape[0]:
        return False
    node[at, FEATURE], node[at, CUT], node[at, SIDE] = swarm.rule[0], swarm.rule[1], swarm.rule[2]
    split_rows(data, model, swarm, particle, at)
    child = np.int64(node[at, CHILD])
    swarm.weight[particle] += gain_of(model, swarm, particle, child)
    for k in range(2):
        node[child + k, ALLOTTED] = given[k]
        start, end = place_of_rows(swarm, particle, child + k)
        rows = swarm.rows[particle, start:end]
        if given[k] > 1 and (len(rows) < given[k] or not rows_differ(data, rows)):  # no tree of the prior
            swarm.weight[particle] = -np.inf
            fill[HEAD] = fill[MADE]
    return True


@kernel(allocates=False)
def retained_step(model: Model, swarm: Swarm) -> None:
    """Replay the next decision of the retained tree."""
    fill, node = swarm.fill[0], swarm.node[0]
    at = fill[HEAD]
    if at >= fill[MADE]:
        return
    fill[HEAD] = at + 1
    if node[at, CHILD] != NONE:
        fill[MADE] += 2
        swarm.weight[0] += gain_of(model, swarm, np.int64(0), np.int64(node[at, CHILD]))


@kernel(allocates=False)
def copy_particle(swarm: Swarm, source: Int, target: Int) -> None:
    """Make one particle a copy of another; nodes that wait are undecided, the retained one's too."""
    head, num_nodes = swarm.fill[source, HEAD], swarm.fill[source, MADE]
    for at in range(num_nodes):
        for k in range(ORIGIN):
            swarm.node[target, at, k] = swarm.node[source, at, k]
        swarm.sum[target, at, TOTAL] = swarm.sum[source, at, TOTAL]
        swarm.sum[target, at, SIZE] = swarm.sum[source, at, SIZE]
    for at in range(head, num_nodes):
        swarm.node[target, at, CHILD] = NONE
    old, new = swarm.rows[source], swarm.rows[target]
    for k in range(swarm.node[source, 0, ROWS]):
        new[k] = old[k]
    swarm.fill[target, HEAD], swarm.fill[target, MADE] = head, num_nodes


@kernel(allocates=False)
def draw_particle(weight: Floats, particles: Int, random: Words) -> Int:
    """Draw a particle by its log weight; NO_PARTICLE if all are -inf."""
    largest = -np.inf
    for c in range(particles):
        largest = max(largest, weight[c])
    if largest == -np.inf:
        return NO_PARTICLE
    total = 0.0
    for c in range(particles):
        total += math.exp(weight[c] - largest)
    left = uniform(random) * total
    last: Int = np.int64(0)
    for c in range(particles):
        left -= math.exp(weight[c] - largest)
        if left < 0.0:
            return c
        if weight[c] > -np.inf:
            last = c
    return last  # rounding left none


@kernel(allocates=False)
def resample(swarm: Swarm, work: Work, particles: Int, conditional: Bool) -> Bool:
    """Replace the free particles by multinomial offspring of all; weights are equal afterwards.

    Free particles are exchangeable, so one child of each parent that is free itself stays where it is. False
    if all weights are 0, as they may be where none is the tree itself.
    """
    offspring = swarm.offspring
    offspring[:particles] = 0
    first = 1 if conditional else 0
    for _ in range(first, particles):
        parent = draw_particle(swarm.weight, particles, work.random)
        if parent == NO_PARTICLE:
            return False
        offspring[parent] += 1
    source = 0 if conditional else -1
    spare = offspring[0] if conditional else np.int64(0)
    for target in range(first, particles):
        if offspring[target] > 0:
            continue
        while spare == 0:
            source += 1
            spare = max(offspring[source] - 1, 0)
        copy_particle(swarm, source, target)
        spare -= 1
    swarm.weight[:particles] = 0.0
    return True


@kernel(inline=True, allocates=False)
def any_waits(swarm: Swarm, particles: Int) -> Bool:
    """Whether some particle has an undecided node."""
    for c in range(particles):  # noqa: SIM110  # compiled
        if swarm.fill[c, HEAD] < swarm.fill[c, MADE]:
            return True
    return False


@kernel(allocates=False)
def sum_nodes(forest: Forest, work: Work, swarm: Swarm, tree: Int) -> None:
    """Sum in the nodes of particle 0, laid out, from the sums in the tree's leaves."""
    node, total = swarm.node[0], swarm.sum[0]
    for at in range(2 * np.int64(forest.num_leaves[tree]) - 2, -1, -1):
        child, slot = np.int64(node[at, CHILD]), ~np.int64(node[at, ORIGIN])
        if child == NONE:
            total[at, TOTAL], total[at, SIZE] = work.leaves.sums[TRIAL + slot], forest.count[tree, slot]
        else:
            for k in range(2):
                total[at, k] = total[child, k] + total[child + 1, k]


@kernel(allocates=False)
def run_particles(
    data: Data, forest: Forest, model: Model, work: Work, swarm: Swarm, tree: Int,
    particles: Int, conditional: Bool,
) -> Int:  # fmt: skip
    """Grow the particles and draw the one that the tree becomes; 0 is the tree itself when `conditional`.

    NO_ROOM: there is too little of it for nodes. NO_PARTICLE: none is a tree of the prior.
    """
    if not lay_out(data, forest, swarm, tree):
        return NO_ROOM
    row_values(model, data.num_rows, swarm.value)
    sum_nodes(forest, work, swarm, tree)
    for c in range(particles):
        swarm.weight[c] = 0.0
    for c in range(1, particles):
        copy_particle(swarm, 0, c)
    if not conditional:
        swarm.node[0, 0, CHILD] = NONE
    first = 1 if conditional else 0
    stage = 0
    while any_waits(swarm, particles):
        if stage > 0 and not resample(swarm, work, particles, conditional):
            return NO_PARTICLE
        if conditional:
            retained_step(model, swarm)
        for c in range(first, particles):
            if not free_step(data, forest.prior, model, work.random, swarm, c):
                return NO_ROOM
        stage += 1
    return draw_particle(swarm.weight, particles, work.random)


@kernel(allocates=False)
def become(
    data: Data, forest: Forest, model: Model, work: Work, swarm: Swarm, tree: Int, particle: Int
) -> None:
    """Make a particle the chain's tree: tables, slots and sums.

    Splits and leaves are numbered breadth first, so the root is split 0. There must be room for them.
    """
    node, total = swarm.node[particle], swarm.sum[particle]
    table, leaf, place = forest.node[tree], forest.leaf[tree], swarm.cursor
    num_nodes = swarm.fill[particle, MADE]
    num_leaves = (num_nodes + 1) // 2
    slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
    size_unit, total_unit = units(model)
    splits = leaves = np.int64(0)
    for at in range(num_nodes):
        if node[at, CHILD] == NONE:
            place[at] = ~leaves
            leaves += 1
        else:
            place[at] = splits
            splits += 1
    table[0, PARENT] = leaf[0, ABOVE] = ABSENT
    for at in range(num_nodes):
        child, own = np.int64(node[at, CHILD]), place[at]
        if child != NONE:
            for k in range(3):  # feature, cut, side
                table[own, k] = node[at, k]
            for k in range(2):
                below_it = place[child + k]
                table[own, LEFT + k] = below_it
                if below_it >= 0:
                    table[below_it, PARENT] = own
                else:
                    leaf[~below_it, ABOVE] = own
            continue
        slot = ~own
        rows = swarm.rows[particle, node[at, START] : node[at, START] + node[at, ROWS]]
        for row in rows:
            slots[row] = np.uint8(slot & 255)
        if num_leaves > BYTE_LEAVES:
            for row in rows:
                high[row] = np.uint8(slot >> 8)
        leaf[slot, VALUE], leaf[slot, DEPTH] = 0, node[at, LEVEL]
        leaf[slot, GROWABLE] = rows_differ(data, rows)
        forest.count[tree, slot] = total[at, SIZE]
        work.leaves.old[slot] = 0
        work.leaves.total[slot] = total_unit * float(total[at, TOTAL])
        work.leaves.size[slot] = size_unit * float(total[at, SIZE])
    forest.num_leaves[tree] = num_leaves
