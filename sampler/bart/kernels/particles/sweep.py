"""Updates of all trees of a forest by particles: what takes the place of local moves in an iteration.

How large a tree gets is known only once it is there. Where there is too little room for it, the update notes
that in `PendingChange.state` and ends: the iteration is done again with more (`sampler.bart.chain`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.bart.kernels.leaf_models.operations import units, widen
from sampler.bart.kernels.particles.growth import NO_ROOM, become, run_particles
from sampler.bart.kernels.particles.layout import CONDITIONAL, LEAVES, MADE, PARTICLES, TREE, Swarm
from sampler.bart.kernels.state import (
    DONE,
    MOST_LEAVES,
    NEED,
    NEEDS_LEAVES,
    NEEDS_NODES,
    NEEDS_PLANE,
    PENDING_LEAVES,
    PG,
    PREVIOUS,
    TRIAL,
    VALUE,
    Forest,
    Work,
    step_beside,
)
from sampler.bart.kernels.tree_update import draw_leaves, pass_rows
from sampler.kernels.arrays import BYTE_LEAVES, Data, Int, Longs, Model
from sampler.kernels.function_pointers import call_step, places_of, store_members
from sampler.kernels.jit import kernel, pointer_kernel


@kernel(allocates=False, entry=True)
def store_swarm(swarm: Swarm, room: Longs) -> Int:
    """Store the particles, their address first; return how long `room` has to be."""
    return store_members((swarm,), room)


@kernel(inline=True, allocates=False)
def room_for_tree(forest: Forest, tree: Int, num_leaves: Int) -> Int:
    """Whether a tree may have that many leaves."""
    if num_leaves > forest.leaf.shape[1]:
        return NEEDS_LEAVES
    return NEEDS_PLANE if num_leaves > BYTE_LEAVES and forest.plane[tree] < 0 else DONE


@kernel(allocates=False)
def take_tree_out(data: Data, forest: Forest, model: Model, work: Work, tree: Int) -> None:
    """Apply the previous tree's change, take this tree out of the rows, and sum these in its leaves."""
    pass_rows(data, forest, model, work, tree, -1)
    leaf, leaves, delta = forest.leaf[tree], np.int64(forest.num_leaves[tree]), work.pending.delta
    largest = np.int64(0)
    for k in range(leaves):
        delta[k] = leaf[k, VALUE]
        largest = max(largest, abs(np.int64(delta[k])))
    delta[leaves:MOST_LEAVES] = 0
    work.pending.state[PREVIOUS], work.pending.state[PENDING_LEAVES] = tree, leaves
    widen(model, largest)
    pass_rows(data, forest, model, work, tree, -1)
    size_unit, total_unit = units(model)
    for k in range(leaves):
        work.leaves.old[k] = 0
        work.leaves.total[k] = total_unit * float(work.leaves.sums[TRIAL + k])
        work.leaves.size[k] = size_unit * float(forest.count[tree, k])
    delta[:leaves] = 0


@kernel(allocates=False)
def update_by_particles(data: Data, forest: Forest, model: Model, work: Work, swarm: Swarm, tree: Int) -> Int:
    """Update one tree by particles, then its leaf values; return DONE or what is needed."""
    take_tree_out(data, forest, model, work, tree)
    conditional = swarm.state[CONDITIONAL] != 0
    chosen = run_particles(data, forest, model, work, swarm, tree, swarm.state[PARTICLES], conditional)
    if chosen == NO_ROOM:
        return NEEDS_NODES
    changed = chosen > 0 or (chosen == 0 and not conditional)  # else the old tree stays
    if changed:
        leaves = (swarm.fill[chosen, MADE] + 1) // 2
        need = room_for_tree(forest, tree, leaves)
        if need != DONE:
            swarm.state[TREE], swarm.state[LEAVES] = tree, leaves
            return need
        become(data, forest, model, work, swarm, tree, chosen)
    forest.counters[PG, 0] += 1
    forest.counters[PG, 1] += changed
    draw_leaves(forest, model, work, tree, changed)
    return DONE


def update_trees(at_data: Any, at_forest: Any, at_model: Any, at_work: Any, at_swarm: Any) -> Int:
    """Update every tree of a forest once, by particles where it is their turn."""
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    swarm: Swarm = at_swarm[0]
    if swarm.state[PARTICLES] == 0:
        places = places_of((data, forest, model, work))
        local = forest.prior.steps[PG]
        return call_step(local, (places[0], places[1], places[2], places[3], np.int64(0)))
    for tree in range(len(forest.num_leaves)):
        need = update_by_particles(data, forest, model, work, swarm, tree)
        if need != DONE:
            work.pending.state[NEED] = need
            break
    return 0


UPDATE_TREES = pointer_kernel(__name__, step_beside(Swarm), update_trees)
