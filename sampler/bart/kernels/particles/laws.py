"""Priors of trees, each a kernel that decides a node as the prior would (docs/maths.md#other-tree-priors).

Such a kernel returns whether the node splits, 0 or 1, and writes the rule (`Swarm.rule`) and, where the prior
says so, the leaves that children must have (`Swarm.given`). Nothing asks it for a density.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from sampler.bart.kernels.particles.growth import (
    draw_rule_of_rows,
    place_of_rows,
    rows_differ,
)
from sampler.bart.kernels.particles.layout import ALLOTTED, LEVEL, Swarm
from sampler.bart.kernels.tree_prior import TreePrior, log_split
from sampler.kernels.arrays import Data, Floats2, Int, Ints, Longs, Words, numba_type
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import uniform

_pointer: Any = types.CPointer
i8: Any = types.int64
# of the prior in a node of a particle: data, prior, particles and random numbers as pointers
DECISION = i8(*(_pointer(numba_type(kind)) for kind in (Data, TreePrior, Swarm, Words)), i8, i8)


@kernel(allocates=False)
def unevenness(data: Data, rows: Ints, rule: Longs) -> Int:
    """Return by how many rows the sides of a rule differ."""
    codes, side = data.codes[rule[0]], np.uint8(rule[2])
    cut = np.uint8(np.uint8(rule[1]) + side)
    left = np.int64(0)
    for row in rows:
        left += np.int64(np.uint8(codes[row] + side) <= cut)
    return abs(2 * left - len(rows))


@kernel(allocates=False)
def decide_by_depth(data: Data, prior: TreePrior, swarm: Swarm, random: Words, particle: Int, at: Int) -> Int:
    """Split by depth, as far as rows differ (Chipman, George and McCulloch 1998).

    The rule is the one of so many drawn as the table says that halves the rows best, the first of equal ones.
    """
    if math.log(uniform(random)) >= log_split(prior, np.int64(swarm.node[particle, at, LEVEL])):
        return 0
    start, end = place_of_rows(swarm, particle, at)
    rows, rule = swarm.rows[particle, start:end], swarm.rule
    if not rows_differ(data, rows):
        return 0
    least = np.int64(len(rows))
    best = np.int64(0), np.int64(0), np.int64(0)
    for _ in range(np.int64(prior.table[0, 0])):
        draw_rule_of_rows(data, rows, random, prior.shares, swarm.columns, swarm.span, rule)
        uneven = unevenness(data, rows, rule) if prior.table[0, 0] > 1 else np.int64(0)
        if uneven < least:
            least, best = uneven, (rule[0], rule[1], rule[2])
    rule[0], rule[1], rule[2] = best
    return 1


@kernel(allocates=False)
def draw_leaves_of_left(table: Floats2, leaves: Int, random: Words) -> Int:
    """Draw how many of the leaves of a node, two or more, are below its left child."""
    left, u = np.int64(1), uniform(random)
    while left < leaves - 1:
        u -= math.exp(table[1, left] + table[1, leaves - left] - table[2, leaves])
        if u < 0.0:
            break
        left += 1
    return left


@kernel(allocates=False)
def decide_by_leaves(
    data: Data, prior: TreePrior, swarm: Swarm, random: Words, particle: Int, at: Int
) -> Int:
    """Split where a node must have several leaves, and share these out (`sampler.bart.tree_laws`).

    Of rows that can't be split no tree has several. Below the root, `growth.free_step` sees to it that a node
    which must split can.
    """
    start, end = place_of_rows(swarm, particle, at)
    node, rows = swarm.node[particle], swarm.rows[particle, start:end]
    leaves = np.int64(node[at, ALLOTTED]) if at > 0 else np.int64(1)
    if at == 0 and rows_differ(data, rows):
        u = uniform(random)
        while leaves < prior.table.shape[1] - 1 and u >= prior.table[0, leaves]:
            leaves += 1
    if leaves == 1:
        return 0
    swarm.given[0] = draw_leaves_of_left(prior.table, leaves, random)
    swarm.given[1] = leaves - swarm.given[0]
    draw_rule_of_rows(data, rows, random, prior.shares, swarm.columns, swarm.span, swarm.rule)
    return 1


def by_depth(at_data: Any, at_prior: Any, at_swarm: Any, at_random: Any, particle: Int, at: Int) -> Int:
    """Decide a node by its depth."""
    return decide_by_depth(at_data[0], at_prior[0], at_swarm[0], at_random[0], particle, at)


def by_leaves(at_data: Any, at_prior: Any, at_swarm: Any, at_random: Any, particle: Int, at: Int) -> Int:
    """Decide a node by the leaves that it must have."""
    return decide_by_leaves(at_data[0], at_prior[0], at_swarm[0], at_random[0], particle, at)


BY_DEPTH = pointer_kernel(__name__, DECISION, by_depth)
BY_LEAVES = pointer_kernel(__name__, DECISION, by_leaves)
