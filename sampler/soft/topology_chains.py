"""Inference on one topology of soft splits: its chains and their density.

The mathematics: docs/maths.md#divide-conquer-combine.

A topology's chains warm up one by one, each from the prior, while splits sharpen; those that ended far below
the others begin anew where others are, and the no-U-turn sampler takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sampler.prior import SIGMA_FLOOR
from sampler.soft.nuts import nuts
from sampler.soft.prior import soft_constants
from sampler.soft.tree import Parameters, make_room, make_soft_rows, scale_guesses, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.soft.kernels.state import SoftShape
    from sampler.soft.tree import SoftTree
    from sampler.training import Training

    Floats = NDArray[np.float64]
    Words = NDArray[np.uint64]
    Bits = tuple[bool, ...]

TRIED = 20  # starts of a chain, of which it takes one
SHARPENING = 0.8  # of the warm-up: at ever sharper widths; the rest at the last
MOST_STEPS = 12  # of a transition in warm-up
FIRST_STEP, RATE = 0.2, 0.1
TUNE = 200  # draws that the no-U-turn sampler tunes by, each time that it is called
AHEAD = 5  # rounds that it draws in one call, at most
HELD = 1 << 26  # bytes of draws that all topologies may hold for rounds to come
FAR_BELOW = 10.0  # log densities, and 3 for each parameter: where a chain begins anew


@dataclass
class Chains:
    """Where the chains of one topology are."""

    starts: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [chain, u] of the sampler's last call
    warmed: int = 0  # chains that have warmed up
    seed: int = 0  # of that call, for so many rounds of which so many are used
    rounds: int = 0
    used: int = 0
    drawn: Floats | None = None  # [chain, draw, u] of that call; not in checkpoints: it is done again

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """What a checkpoint has beside the starts, in the order of the fields."""
        return self.warmed, self.seed, self.rounds, self.used


class Local:
    """Chains on topologies of one problem."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.constants = soft_constants(training)
        self.rows = make_soft_rows(training)
        self.parameters = Parameters(training, len(self.rows.x), by_axis=False)

    def warmed_up(self, bits: Bits, random: Words) -> Floats:
        """A chain from a good one of some random trees, its splits sharpening, and where it comes to."""
        from sampler.soft.kernels import state  # noqa: PLC0415  # kernels load late
        from sampler.soft.kernels.hmc import transitions  # noqa: PLC0415

        constants, many = self.constants, max(self._training.settings.num_burnin, 1)
        u, shape = self._first(bits, random), _shape(bits)
        widths = np.full(many, constants.sharpness)
        sharpening = int(SHARPENING * many)
        if sharpening:
            widths[:sharpening] = np.geomspace(constants.sharpness_start, constants.sharpness, sharpening)
        tune = np.zeros(state.TUNE_SIZE)
        tune[state.LOG_STEP], tune[state.RATE] = math.log(FIRST_STEP), RATE
        scale = scale_guesses(self._training, self.rows)[self.parameters.kinds(sum(bits))]
        transitions(
            self.rows, shape, widths, u, scale, MOST_STEPS, tune, make_room(self.rows, sum(bits)),
            random, np.empty((4, len(u))),
        )  # fmt: skip
        return u

    def _first(self, bits: Bits, random: Words) -> Floats:
        """The most likely, while splits are wide, of some trees with random splits and fitted leaves."""
        width = self.constants.sharpness_start
        points = np.array([self._fitted(self.parameters.first(random, bits), width) for _ in range(TRIED)])
        return np.array(points[int(np.argmax(self.density(bits, points, width)))])

    def _fitted(self, tree: SoftTree, width: float) -> Floats:
        """A tree's parameters, its means the averages of the outcomes that come there, sigma what is left."""
        if not self.parameters.means or self._training.settings.prior_only:
            return tree.u
        from sampler.soft.kernels import state  # noqa: PLC0415

        rows, shape, parts = self.rows, _shape(tree.is_split), self.parameters.taken_apart(tree)
        goes = 0.5 + 0.5 * np.tanh((parts["direction"] @ rows.x - parts["threshold"][:, None]) / (2 * width))
        comes = np.ones((len(tree.is_split), rows.x.shape[1]))
        for node, right in enumerate(shape.right):
            if right:
                comes[right] = comes[node] * goes[shape.slot[node]]
                comes[node + 1] = comes[node] - comes[right]
        comes = comes[shape.right == 0]
        count, (centre, sd) = rows.count[0], self.parameters.outcomes
        mean = ((comes * count) @ rows.mean + centre) / (comes @ count + 1)  # a leaf may be without rows
        left = rows.prior[state.WITHIN] + np.sum(count * (rows.mean - mean @ comes) ** 2)
        sigma = max(math.sqrt(left / len(self._training.y)), SIGMA_FLOOR * sd)
        return np.concatenate([tree.u[: -len(mean) - 1], mean, [math.log(sigma)]])

    def begun_anew(self, bits: Bits, starts: Floats) -> Floats:
        """The chains' states, those far below the best replaced by others' in turn."""
        log = self.density(bits, starts)
        near = np.flatnonzero(log > log.max() - FAR_BELOW - 3 * starts.shape[1])
        near = near[np.argsort(-log[near], kind="stable")]
        found, taken = starts.copy(), 0
        for chain in range(len(starts)):
            if chain not in near:
                found[chain] = starts[near[taken % len(near)]]
                taken += 1
        return found

    def next_round(
        self, bits: Bits, chains: Chains, draws: int, likely: int, active: int, seed: int
    ) -> Floats:
        """The chains' next draws [chain, draw, u], so many of each.

        The sampler can't go on with the steps and scales that it tuned, so it draws several rounds at once:
        as many as are `likely` to be asked for, and as there is room for if all `active` topologies did so.
        `seed` is used when a call is due.
        """
        if chains.used == chains.rounds:
            room = HELD // (active * draws * chains.starts.nbytes)
            chains.seed, chains.rounds, chains.used = seed, max(1, min(likely, room, AHEAD)), 0
        if chains.drawn is None:
            sharpness, total = self.constants.sharpness, chains.rounds * draws
            chains.drawn = nuts(self.rows, bits, sharpness, chains.starts, TUNE, total, chains.seed)
        found = chains.drawn[:, chains.used * draws :][:, :draws]
        chains.used += 1
        if chains.used == chains.rounds:
            chains.starts, chains.drawn = found[:, -1].copy(), None
        return found

    def density(self, bits: Bits, points: Floats, width: float | None = None) -> Floats:
        """The log density at points [point, u], but for the prior of the topology; of splits of a width."""
        from sampler.soft.kernels.density import densities  # noqa: PLC0415

        shape, into = _shape(bits), np.empty(len(points))
        slope, room = np.empty(points.shape[1]), make_room(self.rows, sum(bits))
        densities(
            self.rows, shape, self.constants.sharpness if width is None else width,
            np.ascontiguousarray(points), room, slope, into,
        )  # fmt: skip
        return into


def _shape(bits: Bits) -> SoftShape:
    return shape_of(bits, np.full(sum(bits), -1, np.int64))
