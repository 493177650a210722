"""Particle Gibbs of a chain: the particles' arrays, enlarged when a tree needs more room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.bart.kernels.particles.layout import MADE, NODE_SIZE, Swarm
from sampler.bart.kernels.particles.sweep import CHOSEN, PARTICLES, SWARM_STATE, TREE, sweep_particles
from sampler.kernels.random import uniform
from sampler.moves import PARTICLE_GIBBS

if TYPE_CHECKING:
    from sampler.bart.kernels.state import Schedule
    from sampler.bart.kernels.sweep import OneForest
    from sampler.kernels.arrays import Data
    from sampler.settings import Settings

FIRST_NODES = 64  # room per particle, doubled when a tree needs more
START_PARTICLES = 100


def are_used(settings: Settings) -> bool:
    """Whether a chain of these settings needs particles at all."""
    return settings.start == "smc" or settings.moves.get(PARTICLE_GIBBS, 0.0) > 0.0


class Particles:
    """The particles of one chain. Nothing of them outlasts an iteration, so no checkpoint holds them."""

    def __init__(self, data: Data, settings: Settings) -> None:
        self._settings = settings
        self._share = settings.moves.get(PARTICLE_GIBBS, 0.0)
        fresh = settings.start == "smc"
        self._swarm = make_swarm(data, max(settings.particles, START_PARTICLES if fresh else 0))
        self._turn: bool | None = None  # whether the iteration under way is theirs, once that is drawn

    def take_turn(self, iteration: int, random: np.ndarray[Any, Any]) -> bool:
        """Whether this iteration is theirs; the same answer until `end_turn`."""
        if self._turn is None:
            if iteration == 0 and self._settings.start == "smc":
                self._turn = True
            elif 0.0 < self._share < 1.0:
                self._turn = uniform(random) < self._share
            else:
                self._turn = self._share > 0.0
        return self._turn

    def end_turn(self) -> None:
        """Note that the iteration is done."""
        self._turn = None

    @property
    def tree(self) -> int:
        """The tree that is under way."""
        return int(self._swarm.state[TREE])

    @property
    def leaves(self) -> int:
        """Leaves that the tree under way is about to have."""
        return (int(self._swarm.fill[max(self._swarm.state[CHOSEN], 0), MADE]) + 1) // 2

    def sweep(self, chain: OneForest, schedule: Schedule) -> tuple[int, int]:
        """Iterate by a schedule; return the iterations done so far and what is needed to go on."""
        fresh = schedule.iteration == 0 and self._settings.start == "smc"
        self._swarm.state[PARTICLES] = START_PARTICLES if fresh else self._settings.particles
        if fresh:
            schedule = schedule._replace(stop=1)
        data, forest, model, outcome, work, kept = chain
        reached, need = sweep_particles(
            data, forest, model, outcome, work, self._swarm, kept, schedule, not fresh
        )
        return int(reached), int(need)

    @property
    def alone(self) -> bool:
        """Whether every iteration is theirs."""
        return self._share >= 1.0

    def enlarge(self) -> None:
        """Double the room for nodes; their content is drawn again."""
        old = self._swarm
        fresh = _make_nodes(old.node.shape[0], 2 * old.node.shape[1])
        self._swarm = old._replace(**fresh)


def make_swarm(data: Data, particles: int, nodes: int = FIRST_NODES) -> Swarm:
    """Make room for `particles` trees of `nodes` nodes."""
    rows = data.num_rows
    return Swarm(
        **_make_nodes(particles, nodes),
        rows=np.zeros((particles, rows), np.int32),
        fill=np.zeros((particles, 2), np.int64),
        weight=np.zeros(particles),
        offspring=np.zeros(particles, np.int64),
        partial=np.zeros(rows, np.int32),
        buffer=np.zeros(rows, np.int32),
        rule=np.zeros(3, np.int64),
        span=np.zeros(3, np.int64),
        columns=np.zeros(len(data.codes), np.int32),
        state=np.zeros(SWARM_STATE, np.int64),
        random=np.zeros(4, np.uint64),
    )


def _make_nodes(particles: int, nodes: int) -> dict[str, Any]:

    return {
        "node": np.zeros((particles, nodes, NODE_SIZE), np.int32),
        "sum": np.zeros((particles, nodes, 2), np.int64),
        "cursor": np.zeros(nodes, np.int64),
    }
