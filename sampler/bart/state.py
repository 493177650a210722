"""Arrays of a chain made from its training: rows, forests with their leaf models, and room to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sampler.bart.kernels import state
from sampler.bart.kernels.leaf_models.residual_pass import FUSED
from sampler.bart.kernels.leaf_models.weighted_pass import WEIGHTED
from sampler.bart.kernels.state import Forest, KeptDraws, SharedSums, Work
from sampler.bart.kernels.steps import monotone as in_order
from sampler.bart.kernels.tree_prior import TreePrior
from sampler.bart.kernels.tree_update import UPDATE_TREES
from sampler.kernels.arrays import Data
from sampler.kernels.groups import MOVES as COMPILED
from sampler.kernels.jit import address
from sampler.kernels.shared.team import DONE, LINE, MEMBERS, NUM_STEPS, Team
from sampler.moves import MOVE_NAMES, MOVES
from sampler.settings import Settings
from sampler.training import Training

DEPTHS = 64  # tabled depths of the tree prior


@dataclass(frozen=True)
class ForestPlan:
    """One forest of a chain: how many trees, their prior and moves, and their leaves' standard deviation."""

    name: str
    num_trees: int
    alpha: float
    beta: float
    leaf_sd: float  # in units of y
    moves: Mapping[str, float]
    leaves: Literal["normal", "log-linear"] = "normal"
    part: str = ""  # beside the mean that it belongs to, as in `sampler.definitions.parts`
    trees: Mapping[str, Any] = field(
        default_factory=dict
    )  # prior of trees, if not by depth alone (`Constants`)


def make_data(training: Training) -> Data:
    """Coded rows, and facts about each column."""
    codes = training.codes
    low, high, missing = *np.zeros((2, len(codes)), np.int64), np.zeros(len(codes), np.uint8)
    for j, column in enumerate(codes):
        present = column[column != 255]
        low[j], high[j] = present.min(initial=255), present.max(initial=0) if len(present) else -1
        missing[j] = len(present) < len(column)
    return Data(
        training.padded_codes, low, high, missing, codes.shape[1], training.examples, training.most_equal
    )


def can_split(data: Data) -> bool:
    """Whether any column has two codes, so that the root can be split."""
    rules = data.high - data.low + data.missing * (data.high >= 0)
    return bool(np.any((data.high >= data.low) & (rules > 0)))


def monotone_columns(data: Data, training: Training, plan: ForestPlan) -> NDArray[np.int64] | None:
    """Return directions of monotone columns, and which columns rows lack, int64 [2, p]; None without any."""
    if training.directions is None or plan.leaves != "normal":
        return None
    return np.stack([training.directions, data.missing.astype(np.int64)])


def make_tree_prior(
    plan: ForestPlan,
    model: Any,
    monotone: NDArray[np.int64] | None = None,
    shares: NDArray[np.float64] | None = None,
) -> TreePrior:
    """Make the prior of a forest's trees, with its moves compiled for its leaf model.

    `monotone` are the directions of monotone columns and which columns rows lack, int64 [2, p], and `shares`
    those of columns in rules, with running sums, float64 [2, p]; None where all are alike.
    """
    split = plan.alpha * (1.0 + np.arange(DEPTHS)) ** -plan.beta
    moves = np.array([plan.moves.get(name, 0.0) for name in MOVE_NAMES])
    local = moves[: len(MOVES)]
    local /= max(local.sum(), np.finfo(float).tiny)  # relative probabilities in iterations without particles
    steps = np.zeros(len(MOVE_NAMES), np.int64)
    for number, name in enumerate(MOVE_NAMES):
        if name in COMPILED and plan.moves.get(name):
            module = import_module(f"sampler.{COMPILED[name].module}")
            steps[number] = address(getattr(module, COMPILED[name].name), type(model))
    update, orders = UPDATE_TREES, np.zeros(0, np.int64)
    if monotone is not None:
        update, orders = in_order.UPDATE_TREES, np.zeros(in_order.ROOM, np.int64)
    return TreePrior(
        alpha=plan.alpha,
        beta=plan.beta,
        depths=np.stack([np.log1p(-split), np.log(split)]),
        shares=np.zeros((0, 0)) if shares is None else shares,
        moves=moves,
        steps=steps,
        update=address(update, type(model)),
        swarm=0,
        law=0,
        table=np.zeros((0, 0)),
        directions=np.zeros((0, 0), np.int64) if monotone is None else monotone,
        orders=orders,
        log_odds=np.zeros(0),
        number=np.zeros(0),
    )


def passes_of(*, weighted: bool) -> NDArray[np.int64]:
    """List the addresses of the passes over rows of normal leaves."""
    of_weights = [address(entry) if weighted else 0 for entry in WEIGHTED]
    return np.array([address(FUSED), *of_weights], np.int64)


def make_forest(data: Data, prior: TreePrior, num_trees: int, capacity: int, *, rows: bool = True) -> Forest:
    """Trees of one leaf of value 0, with room for `capacity` leaves each."""
    width = data.codes.shape[1] if rows else 0
    return Forest(
        num_leaves=np.ones(num_trees, np.int32),
        node=np.zeros((num_trees, capacity, 6), np.int32),
        leaf=np.zeros((num_trees, capacity, 4), np.int32),
        count=np.zeros((num_trees, capacity), np.int64),
        slots=np.zeros((num_trees, width), np.uint8),
        plane=np.full(num_trees, -1, np.int32),
        high=np.zeros((1, 0), np.uint8),
        counters=np.zeros((len(MOVE_NAMES), 2), np.int64),
        prior=prior,
    )


def make_work(
    data: Data, capacity: int, random: NDArray[Any], settings: Settings, *, rows: bool = True
) -> Work:
    """Room to work in, and the random numbers' state."""
    restructured = capacity if "restructure" in settings.moves else 1
    width, columns, room = data.codes.shape[1] if rows else 0, len(data.codes), capacity + 16
    team, shared = make_team(1)
    return state.Work(
        random=np.array(random, np.uint64),
        leaves=state.LeafSums(
            old=np.zeros(room, np.int32),
            total=np.zeros(room),
            size=np.zeros(room),
            sums=np.zeros(room, np.int64),
            lanes=np.zeros((4, room), np.int64),
        ),
        pending=state.PendingChange(
            state=np.zeros(state.PENDING_SIZE, np.int64), delta=np.zeros(room, np.int32)
        ),
        proposal=state.RuleProposal(
            rule=np.zeros(3, np.int64), span=np.zeros(3, np.int64), columns=np.zeros(columns, np.int32)
        ),
        marks=state.RowMarks(mask=np.zeros(width, np.uint8), member=np.zeros(width, np.uint8)),
        codes=state.CodeSums(
            values=np.zeros(2048, np.int64),
            bins=np.zeros((2, 1024), np.int64),
            sums=np.zeros((2, 256), np.int64),
            counts=np.zeros((2, 256), np.int64),
            rows=np.zeros((2, 256), np.int64),
            terms=np.zeros((2, 512)),
            factors=np.zeros((2, 512)),
            info=np.zeros((2, 9), np.int64),
        ),
        below=state.SplitsBelow(
            order=np.zeros(capacity, np.int32),
            split_label=np.zeros(capacity, np.int32),
            label=np.zeros(capacity, np.int32),
            moved=np.zeros(capacity, np.int64),
            growable=np.zeros(capacity, np.int32),
            slot_of=np.zeros(256, np.int64),
        ),
        rebuilt=state.RebuiltTree(
            order=np.zeros(restructured, np.int32),
            spans=np.zeros((restructured, 2), np.int32),
            depths=np.zeros(restructured, np.int32),
            shelf=np.zeros((restructured, 6), np.int32),
            leaf_ranges=np.zeros((restructured, columns, 3), np.int32),
            node_ranges=np.zeros((restructured, columns, 3), np.int32),
            bad=np.zeros((2, 256), np.int64),
        ),
        stack=np.zeros(room, np.int32),
        team=team,
        shared=shared,
    )


def make_team(members: int) -> tuple[Team, SharedSums]:
    """Room for threads that share passes over rows, which none do yet; none for the first if it is alone."""
    words = np.zeros(DONE + members * LINE, np.int64)
    words[MEMBERS] = 1
    room = members if members > 1 else 0
    bins, values = np.zeros((room, 2, 1024), np.int64), np.zeros((room, 2048), np.int64)
    sums, counts, rows = np.zeros((3, room, 2, 256), np.int64)
    shared = SharedSums(values, bins, sums, counts, rows, np.zeros((0, 0)), np.zeros((0, 0), np.int64))
    return Team(words, np.zeros(NUM_STEPS, np.int64), np.zeros((room, 32), np.int64)), shared


def make_kept(draws: int, nodes: int, num_trees: int, num_scalars: int = 1) -> KeptDraws:
    """Room for kept draws of one forest."""
    return KeptDraws(
        fill=np.zeros(2, np.int64),
        scalars=np.zeros((draws, num_scalars)),
        tree_start=np.zeros(draws * num_trees + 1, np.int64),
        feature=np.zeros(nodes, np.int32),
        cut=np.zeros(nodes, np.uint8),
        missing_left=np.zeros(nodes, np.uint8),
        leaf=np.zeros(nodes, np.int32),
    )
