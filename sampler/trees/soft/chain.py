"""The chain of soft trees: reversible jump MCMC with Hamiltonian transitions (RJHMC).

The mathematics: docs/maths.md#jumps-between-topologies.

After Cochrane, Wills and Johnson (2023), in an exact form: after warm-up, transitions have a fixed step size
and are reversible, so that a jump is accepted by the densities just before and after it, and the chain has
the posterior as its stationary distribution.

Warm-up begins with a search: a proposal's splits start wide and sharpen, and it is accepted by its density at
the end. This finds good trees quickly but has no stationary distribution. The paper weighs new parameters by
their prior density; with few rows such a search ends in tens of leaves where the posterior has three. Here
they are weighed by the typical width of such parameters' posterior. The rest of warm-up runs the final chain
while step size and scales still adapt.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.chains import MarkovChain, count_moves
from sampler.errors import PackedError
from sampler.kernels.jit import warm
from sampler.kernels.random import below, uniform
from sampler.methods import METHODS
from sampler.soft.kernels import state
from sampler.soft.kernels.density import density
from sampler.soft.kernels.hmc import Leapfrog, transitions
from sampler.soft.kernels.state import SoftRoom
from sampler.storage import tree_checkpoint as checkpoint
from sampler.training import Training
from sampler.trees.soft.draws import SoftDraws, tree_ends
from sampler.trees.soft.kept_trees import KeptSoftTrees, leaf_values
from sampler.trees.soft.prior import soft_constants
from sampler.trees.soft.tree import (
    Parameters,
    SoftTree,
    leaves_of,
    log_topology,
    make_room,
    make_soft_rows,
    prunable_of,
    scale_guesses,
    shape_of,
)

MOVES = ("grow", "prune", "stay")
WARM_UP = {"grow": 0.5, "prune": 0.25, "stay": 0.25}
SEARCHING = 0.8  # share of the warm-up that searches
SHARPENING, SHARP = 40, 10  # transitions of a proposal in the search: at decreasing widths, at the last one
INNER = 5  # transitions before and after a jump
MOST_STEPS = 12  # leapfrog steps of a transition
FIRST_STEP = 0.2  # initial step size, relative to the scales
RATE, FAST_RATE = 0.05, 0.15  # adaptation rates of the step size: at the last width, while widths decrease
SCALE_RATE = 0.05
LARGEST = 1e100  # of a tree's parameters
SCALE_REACH = 20.0  # largest ratio of an adapted scale to its initial guess


class SoftChain(MarkovChain):
    """Chain over one tree of soft splits, with the interface of `sampler.chains.AnyChain`."""

    def __init__(self, training: Training, chain: int, random: NDArray[Any]) -> None:
        """Initialise the state; make chains by `start` or `resume`."""
        warm(training.settings)

        self.training, self.chain = training, chain
        self.iteration = self.num_kept = 0
        self._constants = soft_constants(training)
        self._rows = make_soft_rows(training)
        self._random = np.array(random, np.uint64)
        by_axis = METHODS[training.settings.method].variant == "one-column"
        self._parameters = Parameters(training, len(self._rows.x), by_axis=by_axis)
        self._tune = np.zeros((2, state.TUNE_SIZE))  # at decreasing widths; at the last width
        self._tune[:, state.LOG_STEP] = math.log(FIRST_STEP)
        self._guess = scale_guesses(training, self._rows)
        self._scale = self._guess.copy()
        self._counters = np.zeros((len(MOVES), 2), np.int64)
        self._kept = KeptSoftTrees(self._constants.sharpness)
        self._widths = np.concatenate(
            [
                np.geomspace(self._constants.sharpness_start, self._constants.sharpness, SHARPENING),
                np.full(SHARP, self._constants.sharpness),
            ]
        )
        self._widths[SHARPENING - 1 :] = self._constants.sharpness
        self._sharp = np.full(INNER, self._constants.sharpness)
        self._rooms: dict[int, SoftRoom] = {}
        self._tree: SoftTree

    @classmethod
    def start(cls, training: Training, chain: int) -> SoftChain:
        """Start a chain from a tree of one split, with sigma equal to the outcomes' standard deviation."""
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self = cls(training, chain, seed.generate_state(4, np.uint64))
        self._tree = self._parameters.first(self._random)
        return self

    @classmethod
    def resume(cls, training: Training, data: bytes) -> SoftChain:
        """Restore the chain that wrote the checkpoint, bit for bit; raise PackedError."""
        kinds = "i8:1 u8:1 f8:2 f8:1 i8:2 u1:1 i8:1 f8:1"
        chain, arrays = checkpoint.read(training, data, kinds)
        counts, random, tune, scale, counters, is_split, axis, u, *_ = arrays
        self = cls(training, chain, random)
        self.iteration, self.num_kept = (int(value) for value in counts[:2])
        self.check_counts()
        self._check_tree(is_split, axis, u)
        alike = (tune.shape, scale.shape, counters.shape)
        if alike != (self._tune.shape, self._scale.shape, self._counters.shape):
            raise PackedError("the checkpoint is of another version")
        far = scale / self._guess
        if not (np.all(np.isfinite(tune)) and np.all((far > 0.9 / SCALE_REACH) & (far < 1.1 * SCALE_REACH))):
            raise PackedError("the checkpoint's scales are out of range")
        self._tune[:], self._scale[:], self._counters[:] = tune, scale, counters
        self._tree = SoftTree(tuple(bool(bit) for bit in is_split), axis, u)
        return self

    def _check_tree(self, is_split: NDArray[np.uint8], axis: NDArray[np.int64], u: Floats) -> None:
        """Raise PackedError for what is no tree of soft splits with its parameters."""
        splits = int(np.count_nonzero(is_split))
        first = 0 if self._parameters.by_axis else -1
        most = self._parameters.columns - 1 if self._parameters.by_axis else -1
        fits = (
            splits > 0
            and np.array_equal(tree_ends(is_split != 0), [len(is_split) - 1])
            and len(axis) == splits
            and np.all((axis >= first) & (axis <= most))
            and len(u) == self._parameters.size(splits)
            and np.all(np.abs(u) <= LARGEST)
        )
        if not fits:
            raise PackedError("the checkpoint's tree is none")

    def run(self, iterations: int) -> int:
        """Run up to `iterations` iterations, transitions without the GIL; return the number done."""
        settings = self.training.settings
        before = self.iteration
        stop = min(before + max(int(iterations), 0), self.iterations)
        while self.iteration < stop:
            if self.iteration < SEARCHING * settings.num_burnin:
                self._search()
            else:
                self._sample(RATE if self.iteration < settings.num_burnin else 0.0)
            self.iteration += 1
            past = self.iteration - settings.num_burnin
            if past > 0 and past % settings.thin == 0:
                self._keep()
        return self.iteration - before

    def take(self) -> SoftDraws | None:
        """Return the draws kept since the last call, or None, and release them."""
        return self._kept.take()

    def checkpoint(self) -> bytes:
        """Encode the state between iterations, without draws not yet taken."""
        counts = np.array([self.iteration, self.num_kept])
        tree = self._tree
        parts = [counts, self._random, self._tune, self._scale, self._counters]
        parts += [np.array(tree.is_split, np.uint8), tree.axis, tree.u]
        return checkpoint.write(self.training, self.chain, parts)

    def statistics(self) -> dict[str, Any]:
        """Return the counters of moves and transitions: `{"moves": {"grow": {"proposed": .., ..}, ..}}`."""
        moves = count_moves(MOVES, self._counters)
        sharp = self._tune[1]
        if sharp[state.PROPOSED]:
            moves["hmc"] = {
                "proposed": int(sharp[state.PROPOSED]),
                "accepted": int(sharp[state.ACCEPTED]),
            }
        return {"moves": moves}

    def _search(self) -> None:
        """Do an iteration of the searching part of warm-up."""
        tree = self._tree
        move, proposed, log_ways, _ = self._propose(tree, WARM_UP)
        now = self._density(tree) + self._log_topology(tree) + self._log_volume(tree)
        self._transitions(proposed, self._widths[:SHARPENING], 0, FAST_RATE)
        then = self._transitions(proposed, self._widths[SHARPENING:], 1, RATE)
        then += self._log_topology(proposed) + self._log_volume(proposed)
        self._decide(move, proposed, then - now + log_ways)
        before = self._tree.u.copy()
        self._transitions(self._tree, self._sharp, 1, RATE)
        self._rescale(before, self._tree)

    def _sample(self, rate: float) -> None:
        """Do an iteration whose stationary distribution, at rate 0, is the posterior."""
        start = self._tree.copy()
        now = self._transitions(start, self._sharp, 1, rate)
        if rate:
            self._rescale(self._tree.u, start)
        move, proposed, log_ways, log_new = self._propose(start, self.training.settings.moves)
        if move == "stay":
            self._transitions(proposed, self._sharp, 1, rate)
            self._decide(move, proposed, math.inf)
            return
        jumped = self._density(proposed) + self._log_topology(proposed) - now - self._log_topology(start)
        self._transitions(proposed, self._sharp, 1, rate)
        self._decide(move, proposed, jumped + log_ways - log_new)

    def _propose(self, tree: SoftTree, chances: dict[str, float]) -> tuple[str, SoftTree, float, float]:
        """Propose a tree.

        Returns the move, the tree, the log ratio of the moves' probabilities back and forth, and the log
        density of new parameters (negated: of removed ones).
        """
        stay, chance = chances.get("stay", 0.0), self._chance_to_grow(tree.splits, chances)
        if uniform(self._random) < stay:
            return "stay", tree.copy(), 0.0, 0.0
        if uniform(self._random) < chance:
            leaves = leaves_of(tree.is_split)
            node = leaves[int(below(self._random, len(leaves)))]
            proposed, log_new = self._parameters.grow(tree, node, self._random)
            back = 1 - self._chance_to_grow(proposed.splits, chances)
            back /= len(prunable_of(proposed.is_split))
            return "grow", proposed, math.log(back) - math.log(chance / len(leaves)), log_new
        prunable = prunable_of(tree.is_split)
        node = prunable[int(below(self._random, len(prunable)))]
        proposed, log_gone = self._parameters.prune(tree, node)
        back = self._chance_to_grow(proposed.splits, chances) / (proposed.splits + 1)
        return "prune", proposed, math.log(back) - math.log((1 - chance) / len(prunable)), -log_gone

    def _decide(self, move: str, proposed: SoftTree, log_ratio: float) -> None:

        which = MOVES.index(move)
        self._counters[which, 0] += 1
        if log_ratio >= 0 or math.log(uniform(self._random)) < log_ratio:
            self._tree = proposed
            self._counters[which, 1] += 1

    @staticmethod
    def _chance_to_grow(splits: int, chances: dict[str, float]) -> float:
        """Compute the probability of growing where the move is not "stay"; the last split is kept."""
        grow, prune = chances["grow"], chances["prune"]
        return 1.0 if splits == 1 else grow / (grow + prune)

    def _log_topology(self, tree: SoftTree) -> float:
        return log_topology(tree.is_split, self._constants.alpha, self._constants.beta)

    def _log_volume(self, tree: SoftTree) -> float:
        """Estimate the log volume of a tree's parameters by a normal's entropy, from their scales."""
        scale = self._scale[self._parameters.kinds(tree.splits)]
        return float(np.sum(np.log(scale))) + 0.5 * len(scale) * math.log(2 * math.pi * math.e)

    def _room(self, splits: int) -> SoftRoom:
        if splits not in self._rooms:
            self._rooms[splits] = make_room(self._rows, splits)
        return self._rooms[splits]

    def _density(self, tree: SoftTree) -> float:

        shape, slope = shape_of(tree.is_split, tree.axis), np.empty(len(tree.u))
        width, room = self._constants.sharpness, self._room(tree.splits)
        return float(density(self._rows, shape, width, tree.u, slope, room))

    def _transitions(self, tree: SoftTree, widths: Floats, phase: int, rate: float) -> float:
        """Do transitions of the tree in place; return its log density at the last width."""
        tune = self._tune[phase]
        tune[state.RATE] = rate
        scale = self._scale[self._parameters.kinds(tree.splits)]
        return float(
            transitions(
                self._rows, shape_of(tree.is_split, tree.axis), widths, tree.u,
                Leapfrog(scale, MOST_STEPS, tune), self._room(tree.splits), self._random,
                np.empty((4, len(tree.u))),
            )
        )  # fmt: skip

    def _rescale(self, before: Floats, tree: SoftTree) -> None:
        """Adapt the scale of each kind of parameter to the distance that such parameters moved."""
        kinds = self._parameters.kinds(tree.splits)
        moved = (tree.u - before) ** 2
        if not moved.any():
            return
        for kind in range(4):
            of_kind = moved[kinds == kind]
            if len(of_kind) and of_kind.mean() > 0:
                went = 0.5 * math.log(of_kind.mean() / 2)
                old = math.log(self._scale[kind])
                new = math.exp(old + SCALE_RATE * (went - old))
                low, high = self._guess[kind] / SCALE_REACH, self._guess[kind] * SCALE_REACH
                self._scale[kind] = min(max(new, low), high)

    def _keep(self) -> None:
        tree = self._tree.copy()
        parts = self._parameters.taken_apart(tree)
        room = self._room(tree.splits)
        values = leaf_values(self._rows, tree, parts, self._constants.sharpness, room, self._random)
        self._kept.add(tree, self._parameters, values)
        self.num_kept += 1
