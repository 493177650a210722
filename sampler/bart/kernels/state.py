"""The state that the kernels of sums of trees share: trees, room to work, kept draws."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from sampler.kernels.arrays import (
    Bytes,
    Bytes2,
    Data,
    Floats,
    Floats2,
    Int,
    Ints,
    Ints2,
    Ints3,
    Longs,
    Longs2,
    Words,
    i8,
    numba_type,
)

VALUE, ABOVE, DEPTH, GROWABLE = 0, 1, 2, 3


# Prior vector, in grid steps where a unit is needed
SIGMA2, TAU2, NU, LAMBDA, ALPHA, BETA, LIKELIHOOD, SIGMA_FIXED, UNIT, STEP = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

OFFSET, PRIOR_SIZE = 10, 11


# moves
GROW, PRUNE, CHANGE_NOG, CHANGE, SWAP, RESTRUCTURE, RULE, PG = 0, 1, 2, 3, 4, 5, 6, 7

NUM_MOVES = 8


# Work.state
PREVIOUS, PENDING_LEAVES, KEEP, DROP, LAST, BLOCK, BOUND, BROKEN = 0, 1, 2, 3, 4, 5, 6, 7

STATE_SIZE = 8


# why a run of the sweep came back
DONE, NEEDS_LEAVES, NEEDS_PLANE, NEEDS_ROOM, OUT_OF_GRID, NEEDS_NODES = 0, 1, 2, 3, 4, 5


class Forest(NamedTuple):
    """The trees of one chain, and the leaf slot of every row in each."""

    num_leaves: Ints  # [m]
    node: Ints3  # [m, capacity, 6]
    leaf: Ints3  # [m, capacity, 4]
    count: Longs2  # type: ignore[assignment]  # [m, capacity], rows (or weight units) in a leaf
    slots: Bytes2  # [m, rows], low byte of the leaf slot
    plane: Ints  # [m], row of `high` or ABSENT
    high: Bytes2  # [planes, rows], high byte of trees that have outgrown a byte


class Work(NamedTuple):
    """What a sweep needs besides: the residual, and room to work."""

    residual: Ints  # [rows], y minus all trees, in grid steps, up to the pending change of the last tree
    delta: Ints  # [capacity], that pending change, by the last tree's slots
    old: Ints  # [capacity]
    sums: Longs  # [2 + capacity]: the trial's left sum and count, then each leaf's sum
    lanes: Longs2  # [4, capacity], sums under way
    total: Floats  # [capacity], partial residual sum of each leaf
    size: Floats  # [capacity], count (or weight) of each leaf
    rule: Longs  # [3], the proposed rule: feature, cut, side
    span: Longs  # [3], low, high, missing of a column at a node
    state: Longs  # [STATE_SIZE]
    columns: Ints  # [p]
    mask: Bytes  # [rows]
    member: Bytes  # [rows], rows of the node that a move is about
    latent: Ints  # [rows], probit's outcome minus the offset, in grid steps; 0 between calls is as good
    address: Longs  # the fused passes' addresses
    random: Words  # [4]
    values: Longs  # [2048], the rule draw's packed partial residuals
    bins: Longs2  # [2, 256], and their histograms under way, of two columns
    code_sum: Longs2  # [2, 256]
    code_count: Longs2  # [2, 256]
    code_rows: Longs2  # [2, 256], where rows have weights
    terms: Floats2  # [2, 512]
    factors: Floats2  # [2, 512]
    info: Longs2  # [2, 9]
    order: Ints  # [capacity], splits below the top of a move that reshapes, parents first
    stack: Ints  # [capacity], then the label of each of them: its left-most leaf's
    label: Ints  # [capacity], of the leaves below it, in a numbering of their own; -1 of the others
    moved: Longs  # [capacity], weight (or rows) by label
    blocks: Ints  # [capacity], leaves in the order of a restructured tree
    shelf: Ints2  # [capacity, 6], the splits that a restructured tree had
    leaf_ranges: Ints3  # [capacity, p, 3], of codes: lowest and highest present, whether any is missing
    node_ranges: Ints3  # [capacity, p, 3], the same of splits
    law: Floats2  # [2, p], the columns' shares and their running sums; [0, 0]: all alike


class KeptDraws(NamedTuple):
    """Room for kept draws; `fill` is (draws, nodes) so far."""

    fill: Longs
    sigma: Floats
    tree_start: Longs
    feature: Ints
    cut: Bytes
    missing_left: Bytes
    leaf: Ints


# a move that is called through its address: all but the tree's number come as pointers (calls.places_of)
Places = tuple[Int, Int, Int, Int, Int]


_pointer: Any = types.CPointer


step_t = i8(*(_pointer(numba_type(kind)) for kind in (Data, Forest, Work, Floats, Floats2)), i8)
