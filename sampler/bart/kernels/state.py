"""State that the kernels of sums of trees share: forests, room to work, kept draws."""

from __future__ import annotations

from collections.abc import Callable
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
    Int32,
    Ints,
    Ints2,
    Ints3,
    Longs,
    Longs2,
    Longs3,
    Words,
    f8,
    i8,
    numba_type,
)
from sampler.kernels.shared.team import Team

VALUE, ABOVE, DEPTH, GROWABLE = 0, 1, 2, 3


# moves
GROW, PRUNE, CHANGE_NOG, CHANGE, SWAP, RESTRUCTURE, RULE, PG = 0, 1, 2, 3, 4, 5, 6, 7

NUM_MOVES = 8


# PendingChange.state
PREVIOUS, PENDING_LEAVES, KEEP, DROP, LAST, BROKEN, NEED = 0, 1, 2, 3, 4, 5, 6

PENDING_SIZE = 7


# LeafSums.sums: the trial's sum and count come first, the leaves' sums from TRIAL on
TRIAL = 2

MOST_LEAVES = 8  # that the fused passes tell apart

GRID_LIMIT = 1 << 25  # of a residual or a leaf value, in grid steps; the data fill about 2^20


# why a run of the sweep came back; the same in PendingChange.state[NEED], where an iteration lacked room
DONE, NEEDS_LEAVES, NEEDS_PLANE, NEEDS_ROOM, OUT_OF_GRID, NEEDS_NODES = 0, 1, 2, 3, 4, 5


class Forest(NamedTuple):
    """One forest of a chain: its trees, the leaf slot of every row in each, and their prior."""

    num_leaves: Ints  # [m]; 0 of a tree that is absent, whose first leaf is a root's of value 0
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
    counts: Longs  # [capacity], rows (or weight units) in a leaf; passes with weights set it anew


class Trial(NamedTuple):
    """A rule tried at a leaf: a row goes left iff uint8(code + side) <= cut (`rows.shifted`)."""

    column: Bytes  # [rows], codes
    leaf: Int  # its slot; -1: no trial
    cut: Byte
    side: Byte


class LeafPair(NamedTuple):
    """The two leaves of one split, whose rows a move may part anew."""

    slots: Bytes  # [rows]
    left: Byte  # in `slots`
    right: Byte
    left_old: Int32  # old values, grid steps
    right_old: Int32


class Outcome(NamedTuple):
    """Outcome of a chain besides the rows of its leaf models: labels, grid, prior of the noise."""

    labels: Bytes  # [n], 0 or 1 for probit, else empty
    latent: Ints  # [rows], latent outcomes less the offset, grid steps; any y between calls is as good
    censored: Ints  # rows whose outcome is only known to be between limits
    limits: Floats2  # [2, censored], less the offset, grid steps
    offset: Float
    step: Float  # of the grid
    nu: Float  # sigma^2 ~ nu scale / chi^2_nu
    scale: Float  # grid steps^2
    sigma_fixed: Bool
    num_seen: Int  # rows with a positive weight
    scalars: Floats  # [named scalars], in units of y: sigma, then those that a family adds
    draw_latent: Int  # address of the kernel that draws latent outcomes; 0: there are none
    draw_line: Int  # address of the kernel that draws the linear part; 0: there is none
    line: Int  # address of the linear part


class Schedule(NamedTuple):
    """Iterations that a call is to do, and which of them are kept."""

    iteration: Int  # done so far
    stop: Int
    num_burnin: Int
    thin: Int


class LeafSums(NamedTuple):
    """Leaves of the tree under update, by slot, capacity + 16 of them."""

    old: Ints  # value before the update, grid steps; 0 where the rows hold none of it
    total: Floats  # the model's total (`leaf_models.operations`), for normal leaves of partial residuals
    size: Floats  # the model's size, for normal leaves of weights
    sums: Longs  # [2 + leaves], the trial's left sum and count, then each leaf's sum
    lanes: Longs2  # [4, leaves], sums under way


class PendingChange(NamedTuple):
    """Change that the last tree's update left to the next pass over rows."""

    # [PENDING_SIZE]: which tree, its leaves, how a prune relabels; whether a row left the grid; a need
    state: Longs
    delta: Ints  # [capacity + 16], old less new leaf value by the last tree's slots, grid steps


class RuleProposal(NamedTuple):
    """A rule proposed, and what its draw needs."""

    rule: Longs  # [3], feature, cut, side
    span: Longs  # [3], lowest and highest code and whether any is missing, of a column at a node
    columns: Ints  # [p], columns listed


class RowMarks(NamedTuple):
    """Marks of rows."""

    mask: Bytes  # [rows], a leaf, or a pair of leaves as 1 and 2, of a tree whose slots take two bytes
    member: Bytes  # [rows], rows of the node that a move is about, by label


class CodeSums(NamedTuple):
    """Sums over rows by code of two columns, and what the exact rule draw makes of them."""

    values: Longs  # [2048], a block of rows: partial residuals packed with counts, or two values of each row
    bins: Longs2  # [2, 1024], sums of these by code under way, in copies; 0 between calls
    sums: Longs2  # [2, 256]
    counts: Longs2  # [2, 256], rows, or their weights
    rows: Longs2  # [2, 256], rows where counts are weights
    terms: Floats2  # [2, 512], of each rule: its evidence is factor e^term
    factors: Floats2  # [2, 512]
    info: Longs2  # [2, INFO_SIZE], the columns at the node


class SharedSums(NamedTuple):
    """Room of `CodeSums` for each of the threads that share passes over rows."""

    values: Longs2
    bins: Longs3
    sums: Longs3
    counts: Longs3
    rows: Longs3
    terms: Floats2  # of the chain's own, as is `info`
    info: Longs2


class SplitsBelow(NamedTuple):
    """The splits and leaves at and below one split, for a move that sends its rows down again."""

    order: Ints  # [capacity], splits, parents first
    split_label: Ints  # [capacity], by split: the label of its left-most leaf
    label: Ints  # [capacity], by slot: labels of the leaves below, from 0 on; -1 of others
    moved: Longs  # [capacity], by label: rows, or their weight
    growable: Ints  # [capacity], by label
    slot_of: Longs  # [256], by label


class RebuiltTree(NamedTuple):
    """A tree that a restructure builds above the same leaves; of one row only where there is no such move."""

    order: Ints  # [capacity], leaves, those of a split side by side
    spans: Ints2  # [capacity, 2], of a split still to be made: where its leaves begin and end in `order`
    depths: Ints  # [capacity], of splits
    shelf: Ints2  # [capacity, 6], the splits that the tree had
    leaf_ranges: Ints3  # [capacity, p, 3], lowest and highest code present, whether any is missing
    node_ranges: Ints3  # [capacity, p, 3]
    bad: Longs2  # [2, 256], cuts that would part a leaf


class Work(NamedTuple):
    """Room to work, and the random numbers."""

    random: Words  # [4]
    leaves: LeafSums
    pending: PendingChange
    proposal: RuleProposal
    marks: RowMarks
    codes: CodeSums
    below: SplitsBelow
    rebuilt: RebuiltTree
    stack: Ints  # [capacity + 16], splits and leaves still to visit
    team: Team
    shared: SharedSums


class KeptDraws(NamedTuple):
    """Room for kept draws of one forest, as `Draws` has them."""

    fill: Longs  # [2], draws and nodes so far
    scalars: Floats2  # [draws, named scalars]
    tree_start: Longs
    feature: Ints
    cut: Bytes
    missing_left: Bytes
    leaf: Ints


# a move that is called through its address: all but the tree's number come as pointers (`places_of`)
Places = tuple[Int, Int, Int, Int]


def step_signature(model: type) -> Any:
    """Signature of a move that is called through its address, for a leaf model.

    The move itself unpacks what stands at the addresses: beside it a kernel would be compiled twice, alone
    and in the move.
    """
    return i8(*_pointers(model), i8)


def step_beside(kind: type) -> Callable[[type], Any]:
    """Signature of an update of trees that has an address of such a tuple in place of the tree's number."""
    pointer: Any = types.CPointer
    return lambda model: i8(*_pointers(model), pointer(numba_type(kind)))


def sweep_signature(model: type) -> Any:
    """Signature of the sweep of a forest that is called through its address, for a leaf model."""
    return f8(*_pointers(model))


def _pointers(model: type) -> list[Any]:
    pointer: Any = types.CPointer
    return [pointer(numba_type(kind)) for kind in (Data, Forest, model, Work)]
