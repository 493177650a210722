"""The state that the kernels of sums of trees share: trees, room to work, kept draws."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from sampler.bart.kernels.tree_prior import TreePrior
from sampler.kernels.arrays import (
    Bool,
    Byte,
    Bytes,
    Bytes2,
    Data,
    Float,
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


# moves
GROW, PRUNE, CHANGE_NOG, CHANGE, SWAP, RESTRUCTURE, RULE, PG = 0, 1, 2, 3, 4, 5, 6, 7

NUM_MOVES = 8


# Work.state
PREVIOUS, PENDING_LEAVES, KEEP, DROP, LAST, BROKEN = 0, 1, 2, 3, 4, 5

STATE_SIZE = 6


# Work.sums: the trial's sum and count come first, the leaves' sums from TRIAL on
TRIAL = 2

MOST_LEAVES = 8  # that the fused passes tell apart

GRID_LIMIT = 1 << 25  # of a residual or a leaf value, in grid steps; the data fill about 2^20


# why a run of the sweep came back
DONE, NEEDS_LEAVES, NEEDS_PLANE, NEEDS_ROOM, OUT_OF_GRID, NEEDS_NODES = 0, 1, 2, 3, 4, 5


class Forest(NamedTuple):
    """One forest of a chain: its trees, the leaf slot of every row in each, and their prior."""

    num_leaves: Ints  # [m]
    node: Ints3  # [m, capacity, 6]
    leaf: Ints3  # [m, capacity, 4]
    count: Longs2  # type: ignore[assignment]  # [m, capacity], rows (or weight units) in a leaf
    slots: Bytes2  # [m, rows], low byte of the leaf slot
    plane: Ints  # [m], row of `high` or ABSENT
    high: Bytes2  # [planes, rows], high byte of trees that have outgrown a byte
    counters: Longs2  # [NUM_MOVES, 2], moves proposed and accepted
    prior: TreePrior


class Slots(NamedTuple):
    """The leaf slot of every row in one tree, low + 256 x high if `wide`."""

    low: Bytes  # [rows]
    high: Bytes  # [rows]; anything unless wide
    wide: Bool
    leaves: Int


class Trial(NamedTuple):
    """A rule tried at a leaf: a row goes left iff uint8(code + side) <= cut (`rows.shifted`)."""

    column: Bytes  # [rows], codes
    leaf: Int  # its slot; -1: no trial
    cut: Byte
    side: Byte


class Outcome(NamedTuple):
    """What a chain explains, beside the rows of its leaf models."""

    labels: Bytes  # [n], 0 or 1 for probit, else empty
    latent: Ints  # [rows], probit's outcome less the offset, grid steps; 0 between calls is as good
    offset: Float
    step: Float  # of the grid
    nu: Float  # sigma^2 ~ nu scale / chi^2_nu
    scale: Float  # grid steps^2
    sigma_fixed: Bool
    num_seen: Int  # rows with a positive weight
    scalars: Floats  # [named scalars], in units of y: sigma, then those that a family adds


class Schedule(NamedTuple):
    """Iterations that a call is to do, and which of them are kept."""

    iteration: Int  # done so far
    stop: Int
    num_burnin: Int
    thin: Int


class Work(NamedTuple):
    """Room to work, and the random numbers."""

    delta: Ints  # [capacity], the pending change of the last tree's leaf values, by its slots
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


class KeptDraws(NamedTuple):
    """Room for kept draws of one forest; `fill` is (draws, nodes) so far."""

    fill: Longs
    scalars: Floats2  # [draws, named scalars]
    tree_start: Longs
    feature: Ints
    cut: Bytes
    missing_left: Bytes
    leaf: Ints


# a move that is called through its address: all but the tree's number come as pointers (`places_of`)
Places = tuple[Int, Int, Int, Int]


def step_signature(model: type) -> Any:
    """The signature of a move that is called through its address, for a leaf model."""
    pointer: Any = types.CPointer
    return i8(*(pointer(numba_type(kind)) for kind in (Data, Forest, model, Work)), i8)
