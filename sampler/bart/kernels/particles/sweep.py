"""Whole iterations of particle Gibbs: every tree, the noise, and the kept draws.

How large a tree or a draw gets is known only once it is there, so a sweep may come back in the middle of an
iteration for more room: `Swarm.state` says where, and the same call goes on from there.
"""

from __future__ import annotations

from sampler.bart.kernels.forest_sweep import is_kept, keep_draw
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.particles.growth import NO_ROOM, become, run_particles
from sampler.bart.kernels.particles.layout import MADE, Swarm
from sampler.bart.kernels.state import (
    BROKEN,
    DONE,
    NEEDS_LEAVES,
    NEEDS_NODES,
    NEEDS_PLANE,
    NEEDS_ROOM,
    OUT_OF_GRID,
    PG,
    Forest,
    KeptDraws,
    Outcome,
    Schedule,
    Work,
)
from sampler.bart.kernels.sweep import begin_iteration, end_iteration
from sampler.bart.kernels.tree_update import draw_leaves, load_leaves, pass_rows
from sampler.kernels.arrays import BYTE_LEAVES, Bool, Data, Int, Model
from sampler.kernels.jit import kernel

# Swarm.state: what is next, of which tree, the particle that it is to become, and how many particles run
PHASE, TREE, CHOSEN, PARTICLES = 0, 1, 2, 3
BEGIN, NEXT_TREE, SWARMING, BECOMING, KEEPING = 0, 1, 2, 3, 4
SWARM_STATE = 4


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
    return kept.fill[0] < len(kept.scalars) and kept.fill[1] + nodes <= len(kept.feature)


@kernel(allocates=False)
def load_tree(data: Data, forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Apply the previous tree's change to the residual, and sum it in this tree's leaves."""
    pass_rows(data, forest, model, work, tree, -1)
    load_leaves(forest, model, work, tree)


@kernel(allocates=False)
def update_by_particles(
    data: Data, forest: Forest, model: Model, work: Work, swarm: Swarm, conditional: Bool
) -> Int:
    """Update one tree by particles, then its leaf values; return DONE or what is needed to go on."""
    state, counters = swarm.state, forest.counters
    tree, particles = state[TREE], state[PARTICLES]
    if state[PHASE] == NEXT_TREE:
        load_tree(data, forest, model, work, tree)
        state[PHASE] = SWARMING
    if state[PHASE] == SWARMING:
        state[CHOSEN] = run_particles(data, forest, model, work, swarm, tree, particles, conditional)
        if state[CHOSEN] == NO_ROOM:
            return NEEDS_NODES
        state[PHASE] = BECOMING
    chosen = state[CHOSEN]
    changed = not conditional or chosen > 0
    if changed:
        need = room_for_tree(forest, tree, (swarm.fill[chosen, MADE] + 1) // 2)
        if need != DONE:
            return need
        become(data, forest, model, work, swarm, tree, chosen)
    counters[PG, 0] += 1
    counters[PG, 1] += changed
    draw_leaves(forest, model, work, tree, changed)
    state[PHASE] = NEXT_TREE
    return DONE


@kernel(allocates=False, entry=True)
def sweep_particles(
    data: Data, forest: Forest, model: Normal, outcome: Outcome, work: Work, swarm: Swarm, kept: KeptDraws,
    schedule: Schedule, conditional: Bool,
) -> tuple[Int, Int]:  # fmt: skip
    """Run iterations of a chain of one forest; return the iterations done and why it came back.

    Not `conditional`: every tree is drawn afresh, whatever it was.
    """
    state = swarm.state
    iteration = schedule.iteration
    while iteration < schedule.stop:
        if state[PHASE] == BEGIN:
            begin_iteration(outcome, model, work)
            state[PHASE], state[TREE] = NEXT_TREE, 0
        while state[PHASE] != KEEPING and state[TREE] < len(forest.num_leaves):
            need = update_by_particles(data, forest, model, work, swarm, conditional)
            if need != DONE:
                return iteration, need
            state[TREE] += 1
        if state[PHASE] != KEEPING:
            end_iteration(data, forest, model, outcome, work)
            state[PHASE] = KEEPING
        if is_kept(schedule, iteration) and work.pending.state[BROKEN] == 0:
            if not room_for_draw(forest, kept):
                return iteration, NEEDS_ROOM
            keep_draw(forest, work.stack, kept, outcome.scalars)
        state[PHASE] = BEGIN
        iteration += 1
        if work.pending.state[BROKEN] != 0:
            return iteration, OUT_OF_GRID
    return iteration, DONE
