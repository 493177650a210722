"""Particle Gibbs of a chain: whose turn an iteration is, and the particles' arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sampler.bart.forest_call import stored
from sampler.bart.kernels import state
from sampler.bart.kernels.particles import sweep
from sampler.bart.kernels.particles.layout import (
    CONDITIONAL,
    LEAVES,
    NODE_SIZE,
    PARTICLES,
    SWARM_STATE,
    TREE,
    Swarm,
)
from sampler.bart.kernels.state import Forest
from sampler.bart.tree_laws import drawn_by
from sampler.kernels.arrays import Data
from sampler.kernels.jit import address
from sampler.kernels.random import uniform
from sampler.moves import PARTICLE_GIBBS
from sampler.settings import Settings

FIRST_NODES = 64  # room per particle, doubled when a tree needs more
START_PARTICLES = 100


def are_used(settings: Settings) -> bool:
    """Whether a chain of these settings needs particles at all."""
    return settings.start == "smc" or settings.moves.get(PARTICLE_GIBBS, 0.0) > 0.0


class Particles:
    """The particles of one chain, for all of its forests.

    Nothing of them outlasts an iteration, so no checkpoint holds them.
    """

    def __init__(self, data: Data, settings: Settings) -> None:
        self._settings = settings
        self._share = settings.moves.get(PARTICLE_GIBBS, 0.0)
        fresh = settings.start == "smc"
        self._swarm = make_swarm(data, max(settings.particles, START_PARTICLES if fresh else 0))
        self._room = stored(sweep.store_swarm, self._swarm)

    def updating(self, forest: Forest, model: Any, trees: Mapping[str, Any]) -> Forest:
        """Return the forest with updates by particles, where it is their turn, and draws from its prior."""
        prior = forest.prior
        prior.steps[state.PG] = prior.update
        update = address(sweep.UPDATE_TREES, type(model))
        law, table = drawn_by(trees)
        prior = prior._replace(update=update, swarm=int(self._room[0]), law=law, table=table)
        return forest._replace(prior=prior)

    def take_turn(self, iteration: int, random: np.ndarray[Any, Any]) -> None:
        """Decide whether trees are updated by particles in this iteration, and by how many."""
        fresh = iteration == 0 and self._settings.start == "smc"
        theirs = fresh or self._share >= 1.0
        if not theirs and self._share > 0.0:
            theirs = uniform(random) < self._share
        particles = START_PARTICLES if fresh else self._settings.particles
        self._swarm.state[PARTICLES] = particles if theirs else 0
        self._swarm.state[CONDITIONAL] = not fresh

    @property
    def outgrown(self) -> tuple[int, int]:
        """A tree that found no room, and the leaves that it is about to have."""
        return int(self._swarm.state[TREE]), int(self._swarm.state[LEAVES])

    def enlarge(self) -> None:
        """Double the room for nodes."""
        old = self._swarm
        self._swarm = old._replace(**_make_nodes(old.node.shape[0], 2 * old.node.shape[1]))
        sweep.store_swarm(self._swarm, self._room)


def make_swarm(data: Data, particles: int, nodes: int = FIRST_NODES) -> Swarm:
    """Make room for `particles` trees of `nodes` nodes."""
    rows = data.num_rows
    return Swarm(
        **_make_nodes(particles, nodes),
        rows=np.zeros((particles, rows), np.int32),
        fill=np.zeros((particles, 2), np.int64),
        weight=np.zeros(particles),
        offspring=np.zeros(particles, np.int64),
        value=np.zeros(rows, np.int64),
        buffer=np.zeros(rows, np.int32),
        rule=np.zeros(3, np.int64),
        given=np.zeros(2, np.int64),
        span=np.zeros(3, np.int64),
        columns=np.zeros(len(data.codes), np.int32),
        state=np.zeros(SWARM_STATE, np.int64),
    )


def _make_nodes(particles: int, nodes: int) -> dict[str, Any]:

    return {
        "node": np.zeros((particles, nodes, NODE_SIZE), np.int32),
        "sum": np.zeros((particles, nodes, 2), np.int64),
        "cursor": np.zeros(nodes, np.int64),
    }
