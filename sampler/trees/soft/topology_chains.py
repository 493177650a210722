"""Chains on one topology of soft splits, and their log density.

The mathematics: docs/maths.md#divide-conquer-combine.

A topology's chains warm up one by one, each from the prior, while splits sharpen; chains that end far below
the others restart at the others' states, and the no-U-turn sampler takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sampler.array_types import Floats, Words
from sampler.prior import SIGMA_FLOOR
from sampler.soft.kernels import state
from sampler.soft.kernels.density import densities
from sampler.soft.kernels.hmc import Leapfrog, transitions
from sampler.soft.kernels.state import SoftShape
from sampler.training import Training
from sampler.trees.soft.nuts import nuts
from sampler.trees.soft.prior import soft_constants
from sampler.trees.soft.tree import Parameters, SoftTree, make_room, make_soft_rows, scale_guesses, shape_of

Bits = tuple[bool, ...]

TRIED = 20  # candidate starts of a chain, of which the best is taken
SHARPENING = 0.8  # share of the warm-up at decreasing widths; the rest is at the last width
MOST_STEPS = 12  # leapfrog steps of a transition in warm-up
FIRST_STEP, RATE = 0.2, 0.1
TUNE = 200  # tuning draws in each call of the no-U-turn sampler
AHEAD = 5  # most rounds drawn in one call
HELD = 1 << 26  # bytes of draws that all topologies may hold for later rounds
FAR_BELOW = 10.0  # log density below the best, plus 3 per parameter, at which a chain restarts elsewhere


@dataclass
class Chains:
    """State of the chains of one topology."""

    starts: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [chain, u] of the sampler's last call
    warmed: int = 0  # chains that have warmed up
    seed: int = 0  # seed of the sampler's last call
    rounds: int = 0  # drawn in that call
    used: int = 0  # rounds of that call that have been used
    drawn: Floats | None = None  # [chain, draw, u] of that call; not checkpointed, since it is repeatable

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The integers in a checkpoint: warmed, seed, rounds, used."""
        return self.warmed, self.seed, self.rounds, self.used


class Local:
    """Chains on the topologies of one fit."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.constants = soft_constants(training)
        self.rows = make_soft_rows(training)
        self.parameters = Parameters(training, len(self.rows.x), by_axis=False)

    def warmed_up(self, bits: Bits, random: Words) -> Floats:
        """Warm up a chain on a topology while splits sharpen; return its final state u."""
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
            self.rows, shape, widths, u, Leapfrog(scale, MOST_STEPS, tune), make_room(self.rows, sum(bits)),
            random, np.empty((4, len(u))),
        )  # fmt: skip
        return u

    def _first(self, bits: Bits, random: Words) -> Floats:
        """Choose the most likely, at the initial width, of some trees with random splits and fitted means."""
        width = self.constants.sharpness_start
        points = np.array([self._fitted(self.parameters.first(random, bits), width) for _ in range(TRIED)])
        return np.array(points[int(np.argmax(self.density(bits, points, width)))])

    def _fitted(self, tree: SoftTree, width: float) -> Floats:
        """Fit a tree's leaf means and sigma to the outcomes, given its splits; return its parameters."""
        if not self.parameters.means or self._training.settings.prior_only:
            return tree.u

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
        left = rows.constants[state.WITHIN] + np.sum(count * (rows.mean - mean @ comes) ** 2)
        sigma = max(math.sqrt(left / len(self._training.y)), SIGMA_FLOOR * sd)
        return np.concatenate([tree.u[: -len(mean) - 1], mean, [math.log(sigma)]])

    def restart_stragglers(self, bits: Bits, starts: Floats) -> Floats:
        """Return the chains' states, with those far below the best replaced by the others in turn."""
        log = self.density(bits, starts)
        near = np.flatnonzero(log > log.max() - FAR_BELOW - 3 * starts.shape[1])
        near = near[np.argsort(-log[near], kind="stable")]
        states, replaced = starts.copy(), 0
        for chain in range(len(starts)):
            if chain not in near:
                states[chain] = starts[near[replaced % len(near)]]
                replaced += 1
        return states

    def next_round(
        self, bits: Bits, chains: Chains, draws: int, likely: int, active: int, seed: int
    ) -> Floats:
        """Return the next `draws` draws of each chain, float64 [chain, draw, u].

        The sampler can't continue with step sizes and scales tuned before, so each call draws several rounds.

        Parameters
        ----------
        bits
            The topology.
        chains
            State of its chains, updated in place.
        draws
            Number of draws per chain and round.
        likely
            Number of rounds that will probably be requested.
        active
            Number of active topologies, which share the memory for rounds drawn ahead.
        seed
            Seed of the sampler if it has to be called.

        """
        if chains.used == chains.rounds:
            room = HELD // (active * draws * chains.starts.nbytes)
            chains.seed, chains.rounds, chains.used = seed, max(1, min(likely, room, AHEAD)), 0
        if chains.drawn is None:
            sharpness, total = self.constants.sharpness, chains.rounds * draws
            chains.drawn = nuts(self.rows, bits, sharpness, chains.starts, TUNE, total, chains.seed)
        drawn = chains.drawn[:, chains.used * draws :][:, :draws]
        chains.used += 1
        if chains.used == chains.rounds:
            chains.starts, chains.drawn = drawn[:, -1].copy(), None
        return drawn

    def density(self, bits: Bits, points: Floats, width: float | None = None) -> Floats:
        """Compute the log density at points [point, u], without the topology's prior.

        `width` is that of the splits; None takes the final one.
        """
        shape, into = _shape(bits), np.empty(len(points))
        slope, room = np.empty(points.shape[1]), make_room(self.rows, sum(bits))
        densities(
            self.rows, shape, self.constants.sharpness if width is None else width,
            np.ascontiguousarray(points), room, slope, into,
        )  # fmt: skip
        return into


def _shape(bits: Bits) -> SoftShape:
    return shape_of(bits, np.full(sum(bits), -1, np.int64))
