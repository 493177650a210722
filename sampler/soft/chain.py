"""A chain over trees of soft splits: Hamiltonian transitions inside reversible jumps.

The mathematics: docs/maths.md#jumps-between-topologies.

Cochrane, Wills and Johnson (2023), in the exact form: after warm-up, transitions have a frozen step size
and are reversible, so that a jump is accepted by the densities just before and after it, and the chain's law
is the posterior. A warm-up first searches: splits of a proposal are wide and sharpen, and it is accepted by
where it ends. That finds good trees quickly, and is no law of anything. The paper counts what is new by its
density in the prior; with few rows such a search ends in tens of leaves where the posterior has three. So we
count it by how wide such parameters are found to be. Then the warm-up settles: the chain goes as it will go
on, but for a step size and scales that still adapt.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.kernels.jit import warm
from sampler.methods import METHODS
from sampler.soft.kept_trees import KeptSoftTrees, leaf_values
from sampler.soft.prior import soft_constants
from sampler.soft.tree import (
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
from sampler.storage import tree_checkpoint as checkpoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.soft.kernels.state import SoftRoom
    from sampler.storage.soft_draws import SoftDraws
    from sampler.training import Training

    Floats = NDArray[np.float64]

MOVES = ("grow", "prune", "stay")
WARM_UP = {"grow": 0.5, "prune": 0.25, "stay": 0.25}
SEARCHING = 0.8  # of the warm-up; the rest settles
SHARPENING, SHARP = 40, 10  # transitions of a proposal in a search: at ever sharper widths, then at the last
INNER = 5  # transitions before a jump and after it
MOST_STEPS = 12  # of a transition
FIRST_STEP = 0.2  # in the scales below
RATE, FAST_RATE = 0.05, 0.15  # at which the step adapts in warm-up: at the last width, while they sharpen
SCALE_RATE = 0.05
SCALE_REACH = 20.0  # of an adapted scale from its guess


class SoftChain:
    """As `Chain`: start or resume, run, take the kept draws, checkpoint."""

    def __init__(self, training: Training, chain: int, random: NDArray[Any]) -> None:
        """Use `start` or `resume`."""
        warm(training.settings)
        from sampler.soft.kernels import state  # noqa: PLC0415  # kernels load with the first chain

        self.training, self.chain = training, chain
        self.iteration = self.num_kept = 0
        self._constants = soft_constants(training)
        self._rows = make_soft_rows(training)
        self._random = np.array(random, np.uint64)
        by_axis = METHODS[training.settings.method].variant == "one-column"
        self._parameters = Parameters(training, len(self._rows.x), by_axis=by_axis)
        self._tune = np.zeros((2, state.TUNE_SIZE))  # while splits sharpen; at the last width
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
        """A chain at its first state, a tree of one split and a noise as large as the data."""
        seed = np.random.SeedSequence(training.settings.seed, spawn_key=(chain,))
        self = cls(training, chain, seed.generate_state(4, np.uint64))
        self._tree = self._parameters.first(self._random)
        return self

    @classmethod
    def resume(cls, training: Training, data: bytes) -> SoftChain:
        """The chain that `data` was taken of, bit for bit; raises PackedError."""
        chain, arrays = checkpoint.read(training, data)
        counts, random, tune, scale, counters, is_split, axis, u = arrays
        self = cls(training, chain, random)
        self.iteration, self.num_kept = (int(value) for value in counts)
        self._tune[:], self._scale[:], self._counters[:] = tune, scale, counters
        self._tree = SoftTree(tuple(bool(bit) for bit in is_split), axis, u)
        return self

    @property
    def iterations(self) -> int:
        """Iterations in all, burn-in and sampling."""
        return self.training.settings.iterations

    @property
    def phase(self) -> str:
        """`burn_in` or `sampling`."""
        return "burn_in" if self.iteration < self.training.settings.num_burnin else "sampling"

    @property
    def done(self) -> bool:
        """Whether every iteration is done."""
        return self.iteration >= self.iterations

    def run(self, iterations: int) -> int:
        """Do up to that many iterations, their transitions without the GIL; returns how many."""
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
        """The draws kept since the last take, or None; they are the caller's now."""
        return self._kept.taken()

    def checkpoint(self) -> bytes:
        """The state between iterations, small; draws not yet taken are not in it."""
        counts = np.array([self.iteration, self.num_kept])
        tree = self._tree
        parts = [counts, self._random, self._tune, self._scale, self._counters]
        parts += [np.array(tree.is_split, np.uint8), tree.axis, tree.u]
        return checkpoint.write(self.training, self.chain, parts)

    def statistics(self) -> dict[str, Any]:
        """What the moves did so far, and the transitions: `{"moves": {"grow": {"proposed": .., ..}, ..}}`."""
        from sampler.soft.kernels import state  # noqa: PLC0415

        moves = {
            name: {"proposed": int(proposed), "accepted": int(accepted)}
            for name, (proposed, accepted) in zip(MOVES, self._counters, strict=True)
            if proposed
        }
        sharp = self._tune[1]
        if sharp[state.PROPOSED]:
            moves["hmc"] = {
                "proposed": int(sharp[state.PROPOSED]),
                "accepted": int(sharp[state.ACCEPTED]),
            }
        return {"moves": moves}

    def _search(self) -> None:
        """An iteration of warm-up, in its first part."""
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
        """An iteration of the chain whose law, at a rate of 0, is the posterior."""
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
        """A move, the tree it gives, the log ratio of ways back and forth, the log density of what is new.

        Of what is gone, its negative.
        """
        from sampler.kernels.random import below, uniform  # noqa: PLC0415

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
        from sampler.kernels.random import uniform  # noqa: PLC0415

        which = MOVES.index(move)
        self._counters[which, 0] += 1
        if log_ratio >= 0 or math.log(uniform(self._random)) < log_ratio:
            self._tree = proposed
            self._counters[which, 1] += 1

    @staticmethod
    def _chance_to_grow(splits: int, chances: dict[str, float]) -> float:
        """Of a move that doesn't stay; the last split is never pruned."""
        grow, prune = chances["grow"], chances["prune"]
        return 1.0 if splits == 1 else grow / (grow + prune)

    def _log_topology(self, tree: SoftTree) -> float:
        return log_topology(tree.is_split, self._constants.alpha, self._constants.beta)

    def _log_volume(self, tree: SoftTree) -> float:
        """Roughly, of where a tree's parameters are: a normal's entropy, by the scales of their kinds."""
        scale = self._scale[self._parameters.kinds(tree.splits)]
        return float(np.sum(np.log(scale))) + 0.5 * len(scale) * math.log(2 * math.pi * math.e)

    def _room(self, splits: int) -> SoftRoom:
        if splits not in self._rooms:
            self._rooms[splits] = make_room(self._rows, splits)
        return self._rooms[splits]

    def _density(self, tree: SoftTree) -> float:
        from sampler.soft.kernels.density import density  # noqa: PLC0415

        shape, slope = shape_of(tree.is_split, tree.axis), np.empty(len(tree.u))
        width, room = self._constants.sharpness, self._room(tree.splits)
        return float(density(self._rows, shape, width, tree.u, slope, room))

    def _transitions(self, tree: SoftTree, widths: Floats, phase: int, rate: float) -> float:
        """Transitions of the tree itself; its log density at the last width."""
        from sampler.soft.kernels import state  # noqa: PLC0415
        from sampler.soft.kernels.hmc import transitions  # noqa: PLC0415

        tune = self._tune[phase]
        tune[state.RATE] = rate
        scale = self._scale[self._parameters.kinds(tree.splits)]
        return float(
            transitions(
                self._rows, shape_of(tree.is_split, tree.axis), widths, tree.u, scale, MOST_STEPS, tune,
                self._room(tree.splits), self._random, np.empty((4, len(tree.u))),
            )
        )  # fmt: skip

    def _rescale(self, before: Floats, tree: SoftTree) -> None:
        """Move each kind's scale towards how far such parameters went."""
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
