"""Whole iterations of particle Gibbs: every tree, the noise, and the kept draws.

How large a tree or a draw gets is known only once it is there, so a sweep may come back in the middle of an
iteration for more room: `Swarm.state` says where, and the same call goes on from there.
"""

from __future__ import annotations

from sampler.bart.kernels.particles.growth import NO_ROOM, become, run_particles
from sampler.bart.kernels.particles.layout import MADE, Swarm
from sampler.bart.kernels.probit import draw_latent
from sampler.bart.kernels.residual_bound import set_bound
from sampler.bart.kernels.state import (
    BROKEN,
    DONE,
    KEEP,
    LIKELIHOOD,
    NEEDS_LEAVES,
    NEEDS_NODES,
    NEEDS_PLANE,
    NEEDS_ROOM,
    OFFSET,
    OUT_OF_GRID,
    PG,
    PREVIOUS,
    STEP,
    Forest,
    KeptDraws,
    Work,
)
from sampler.bart.kernels.sweep import end_iteration, keep_draw
from sampler.bart.kernels.tree_update import draw_leaves, load_leaves, pass_rows
from sampler.kernels.arrays import BYTE_LEAVES, Bool, Data, Floats, Floats2, Int, Longs2
from sampler.kernels.jit import kernel
from sampler.kernels.rows import largest_absolute

# Swarm.state: what is next, of which tree, and the particle that it is to become
PHASE, TREE, CHOSEN = 0, 1, 2
BEGIN, NEXT_TREE, SWARMING, BECOMING, KEEPING = 0, 1, 2, 3, 4
SWARM_STATE = 3


@kernel(inline=True, allocates=False)
def room_for_tree(forest: Forest, tree: Int, num_leaves: Int) -> Int:
    """Whether a tree may have that many leaves."""
    if num_leaves > forest.leaf.shape[1]:
        return NEEDS_LEAVES
    return NEEDS_PLANE if num_leaves > BYTE_LEAVES and forest.plane[tree] < 0 else DONE


@kernel(inline=True, allocates=False)
def room_for_draw(forest: Forest, kept: KeptDraws) -> Bool:
    """Whether the forest as it is fits the room for kept draws."""
    nodes = 0
    for tree in range(len(forest.num_leaves)):
        nodes += 2 * forest.num_leaves[tree] - 1
    return kept.fill[0] < len(kept.sigma) and kept.fill[1] + nodes <= len(kept.feature)


@kernel(allocates=False)
def load_tree(data: Data, forest: Forest, work: Work, prior: Floats, tree: Int) -> None:
    """Apply the previous tree's change to the residual, and sum it in this tree's leaves."""
    pass_rows(data, forest, work, tree, -1)
    load_leaves(forest, work, prior, tree)


@kernel(
    allocates=False,
)
def update_by_particles(
    data: Data, forest: Forest, work: Work, swarm: Swarm, prior: Floats, depths: Floats2, counters: Longs2,
    particles: Int, conditional: Bool,
) -> Int:  # fmt: skip
    """One tree by particles, then its leaf values; returns DONE or what it needs to go on."""
    state = swarm.state
    tree = state[TREE]
    if state[PHASE] == NEXT_TREE:
        load_tree(data, forest, work, prior, tree)
        state[PHASE] = SWARMING
    if state[PHASE] == SWARMING:
        state[CHOSEN] = run_particles(data, forest, work, swarm, prior, depths, tree, particles, conditional)
        if state[CHOSEN] == NO_ROOM:
            return NEEDS_NODES
        state[PHASE] = BECOMING
    chosen = state[CHOSEN]
    if not conditional or chosen > 0:
        need = room_for_tree(forest, tree, (swarm.fill[chosen, MADE] + 1) // 2)
        if need != DONE:
            return need
        become(data, forest, work, swarm, prior, tree, chosen)
    counters[PG, 0] += 1
    counters[PG, 1] += not conditional or chosen > 0
    draw_leaves(forest, work, prior, tree)
    state[PHASE] = NEXT_TREE
    return DONE


@kernel(
    allocates=False,
    entry=True,
)
def sweep_particles(
    data: Data, forest: Forest, work: Work, swarm: Swarm, prior: Floats, depths: Floats2, counters: Longs2,
    kept: KeptDraws, iteration: Int, stop: Int, num_burnin: Int, thin: Int, particles: Int, conditional: Bool,
) -> tuple[Int, Int]:  # fmt: skip
    """Run iterations up to `stop`; returns the iterations done and why it came back.

    Not `conditional`: every tree is drawn afresh, whatever it was.
    """
    state = swarm.state
    while iteration < stop:
        if state[PHASE] == BEGIN:
            work.state[PREVIOUS] = work.state[KEEP] = -1
            if len(data.labels) > 0 and prior[LIKELIHOOD] != 0.0:
                draw_latent(data.labels, work.residual, work.latent, prior[OFFSET], prior[STEP], work.random)
                set_bound(work, largest_absolute(work.residual))
            state[PHASE], state[TREE] = NEXT_TREE, 0
        while state[PHASE] != KEEPING and state[TREE] < len(forest.num_leaves):
            need = update_by_particles(
                data, forest, work, swarm, prior, depths, counters, particles, conditional
            )
            if need != DONE:
                return iteration, need
            state[TREE] += 1
        if state[PHASE] != KEEPING:
            end_iteration(data, forest, work, prior)
            state[PHASE] = KEEPING
        past = iteration + 1 - num_burnin
        if past > 0 and past % thin == 0 and work.state[BROKEN] == 0:
            if not room_for_draw(forest, kept):
                return iteration, NEEDS_ROOM
            keep_draw(forest, work, kept, prior)
        state[PHASE] = BEGIN
        iteration += 1
        if work.state[BROKEN] != 0:
            return iteration, OUT_OF_GRID
    return iteration, DONE
