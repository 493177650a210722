"""Arrays of single-tree samplers, and the names of their columns.

Rows are not labelled with leaves but listed leaf by leaf: `order` holds the row numbers so that the rows of
every node, split or leaf, are one contiguous span. All sums are of whole numbers, exact and free of order, so
a chain's bits don't depend on how that list came about. Nodes come in pairs: the children of a split are
`child` and `child + 1`; node 0 is the root.
"""

from __future__ import annotations

from typing import NamedTuple

from sampler.kernels.arrays import (
    Bytes,
    Bytes2,
    Floats,
    Floats2,
    Int,
    Ints,
    Ints2,
    Ints3,
    Longs,
    Longs2,
)

# columns of Tree.node; FEATURE is LEAF at a leaf; SPLITTABLE: whether any rule is valid there
FEATURE, CUT, SIDE, CHILD, PARENT, DEPTH, SPLITTABLE = 0, 1, 2, 3, 4, 5, 6
NODE_SIZE = 7
LEAF = -1

# leaf models
MEAN_SHIFT, MEAN_VARIANCE, CLASSES = 0, 1, 2
# statistics of a leaf with a mean (the last where rows have weights); of classes, the count of each
COUNT, SUM, SQUARES, WEIGHT = 0, 1, 2, 3
# of each leaf: its own part of the log likelihood, and what it takes off the common sum of squares
OWN, EXPLAINED = 0, 1

# TreeRows.constants: of the prior, of the outcomes in grid steps, and the unit of each weighted statistic
ALPHA, BETA, PRECISION, NU, NU_LAMBDA, CONCENTRATION, LIKELIHOOD, STEP, OFFSET, TOTAL_SQUARES = range(10)
UNIT_WEIGHT, UNIT_SUM, UNIT_SQUARES = 10, 11, 12
NUM_CONSTANTS = 13

# moves
GROW, PRUNE, CHANGE, SWAP, RESTRUCTURE = 0, 1, 2, 3, 4
NUM_MOVES = 5

# why a run came back
DONE, NEEDS_NODES, NEEDS_ROOM = 0, 1, 2


class TreeRows(NamedTuple):
    """Training rows and the model: codes uint8 [p, n], outcomes in grid steps or class numbers int32 [n]."""

    codes: Bytes2
    y: Ints
    low: Longs  # [p], span of the codes over all rows
    high: Longs
    missing: Longs
    model: Int
    constants: Floats  # [NUM_CONSTANTS]
    table: Floats2  # [2, n + 1], log gammas of counts
    weighed: Longs2  # [n, 3]: a row's part of SUM, SQUARES and WEIGHT; no row of it where all weigh one


class Tree(NamedTuple):
    """Nodes and rows of one tree; `size` [1] counts the nodes."""

    size: Longs
    node: Ints2  # [capacity, NODE_SIZE]
    span: Longs2  # [capacity, 2] into `order`
    stat: Longs2  # [capacity, k]
    term: Floats2  # [capacity, 2]
    order: Ints  # [n]


class Room(NamedTuple):
    """Scratch arrays of the moves."""

    rule: Longs  # [3]
    code_span: Longs  # [3], lowest, highest and missing code of a column at a node
    columns: Ints  # [p]
    shelf: Ints  # [n]
    left: Longs  # [k], statistics of a proposed left child
    right: Longs
    stack: Ints  # [capacity]
    block: Ints3  # [capacity, p, 3], code spans of each leaf, for restructuring
    blocks: Ints  # [capacity], leaves in order
    bad: Longs2  # [2, 257]
    terms: Floats  # [512]
    bins: Longs2  # [256, k]
    child_terms: Floats2  # [2, 2], terms of two proposed children


class KeptTrees(NamedTuple):
    """Room for kept draws; `fill` is (draws, nodes, leaves) so far."""

    fill: Longs
    sigma: Floats
    tree_start: Longs
    feature: Ints
    cut: Bytes
    missing_left: Bytes
    value: Floats2  # [leaves, k]
