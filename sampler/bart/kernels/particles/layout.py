"""Layout of a tree breadth first with its rows in order, so that every node's rows are contiguous."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.state import Forest
from sampler.bart.kernels.tree_tables import plane_of
from sampler.kernels.arrays import (
    BYTE_LEAVES,
    LEFT,
    RIGHT,
    Bool,
    Data,
    Floats,
    Int,
    Ints,
    Ints2,
    Ints3,
    Longs,
    Longs2,
    Longs3,
)
from sampler.kernels.jit import kernel

# columns of Swarm.node beside FEATURE, CUT and SIDE; CHILD is the left child's place (the right one's is the
# next) or NONE for a leaf; ALLOTTED is the number of leaves that it must have, where the prior says so;
# ORIGIN is the chain's own split or ~leaf slot
CHILD, START, ROWS, LEVEL, ALLOTTED, ORIGIN = 3, 4, 5, 6, 7, 8
NODE_SIZE = 9
NONE = -1
TOTAL, SIZE = 0, 1  # columns of Swarm.sum, a node's sum and count (`leaf_models.operations`)
HEAD, MADE = 0, 1  # columns of Swarm.fill
# Swarm.state: how many particles grow each tree, 0 where local moves update it; whether one of them is the
# tree itself; of a tree that found no room, its number and the leaves that it is to have
PARTICLES, CONDITIONAL, TREE, LEAVES = 0, 1, 2, 3
SWARM_STATE = 4


class Swarm(NamedTuple):
    """Particles of particle Gibbs, trees laid out; the first axis is the particle where there is one."""

    node: Ints3  # [particle, nodes, NODE_SIZE]
    sum: Longs3  # [particle, nodes, 2]
    rows: Ints2  # [particle, n]
    fill: Longs2  # [particle, 2], nodes decided and nodes made
    weight: Floats  # [particle], log
    offspring: Longs  # [particle]
    value: Longs  # [n], what a row adds to the sum of its node, without the tree
    buffer: Ints  # [n]
    cursor: Longs  # [nodes]
    rule: Longs  # [3]
    given: Longs  # [2], leaves that each child of a split must have; 0: any number
    span: Longs  # [3]
    columns: Ints  # [p]
    state: Longs  # [SWARM_STATE]


@kernel(allocates=False)
def lay_out(data: Data, forest: Forest, swarm: Swarm, tree: Int) -> Bool:
    """Lay a tree out as particle 0: nodes breadth first, rows by leaf; False if there is no room."""
    table = forest.node[tree]
    node, cursor = swarm.node[0], swarm.cursor
    num_leaves = np.int64(forest.num_leaves[tree])
    num_nodes = 2 * num_leaves - 1
    if num_nodes > node.shape[0]:
        return False
    slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
    wide = num_leaves > BYTE_LEAVES
    cursor[:num_leaves] = 0
    for i in range(data.num_rows):
        slot = np.int64(slots[i])
        if wide:
            slot += 256 * np.int64(high[i])
        cursor[slot] += 1
    node[0, ORIGIN], node[0, LEVEL] = (0 if num_leaves > 1 else ~0), 0
    last = 1
    for at in range(num_nodes):
        origin = node[at, ORIGIN]
        if origin < 0:
            node[at, CHILD] = NONE
            node[at, ROWS], node[at, ALLOTTED] = cursor[~origin], 1
            continue
        for k in range(3):  # feature, cut, side
            node[at, k] = table[origin, k]
        node[at, CHILD] = last
        node[last, ORIGIN], node[last + 1, ORIGIN] = table[origin, LEFT], table[origin, RIGHT]
        node[last, LEVEL] = node[last + 1, LEVEL] = node[at, LEVEL] + 1
        last += 2
    for at in range(num_nodes - 1, -1, -1):
        child = node[at, CHILD]
        if child != NONE:
            node[at, ROWS] = node[child, ROWS] + node[child + 1, ROWS]
            node[at, ALLOTTED] = node[child, ALLOTTED] + node[child + 1, ALLOTTED]
    node[0, START] = 0
    for at in range(num_nodes):
        child = node[at, CHILD]
        if child != NONE:
            node[child, START] = node[at, START]
            node[child + 1, START] = node[at, START] + node[child, ROWS]
        else:
            cursor[~node[at, ORIGIN]] = node[at, START]
    for i in range(data.num_rows):
        slot = np.int64(slots[i])
        if wide:
            slot += 256 * np.int64(high[i])
        swarm.rows[0, cursor[slot]] = i
        cursor[slot] += 1
    swarm.fill[0, HEAD], swarm.fill[0, MADE] = 0, 1
    return True
