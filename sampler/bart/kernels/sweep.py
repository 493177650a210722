"""Whole iterations in one compiled call: every tree, the noise, and the kept draws."""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.leaf_models.gaussian import draw_sigma2
from sampler.bart.kernels.probit import draw_latent
from sampler.bart.kernels.residual_bound import GRID_LIMIT, plane_of, set_bound
from sampler.bart.kernels.state import (
    BROKEN,
    DONE,
    KEEP,
    LIKELIHOOD,
    NEEDS_LEAVES,
    NEEDS_PLANE,
    NEEDS_ROOM,
    OFFSET,
    OUT_OF_GRID,
    PENDING_LEAVES,
    PREVIOUS,
    SIGMA2,
    STEP,
    UNIT,
    VALUE,
    Forest,
    KeptDraws,
    Work,
)
from sampler.bart.kernels.tree_tables import write_tree
from sampler.bart.kernels.tree_update import finish_prune, update_tree
from sampler.kernels.arrays import BYTE_LEAVES, Bool, Data, Floats, Floats2, Int, Longs2
from sampler.kernels.function_pointers import places_of
from sampler.kernels.jit import kernel
from sampler.kernels.rows import largest_absolute, route, settle


@kernel(inline=True, allocates=False)
def room_for_iteration(forest: Forest, kept: KeptDraws, keeps: Bool) -> Int:
    """Whether every array has room for one more leaf in each tree, and for the draw if it is kept."""
    nodes = 0
    for tree in range(len(forest.num_leaves)):
        num_leaves = forest.num_leaves[tree]
        if num_leaves >= forest.leaf.shape[1]:
            return NEEDS_LEAVES
        if num_leaves >= BYTE_LEAVES and forest.plane[tree] < 0:
            return NEEDS_PLANE
        nodes += 2 * num_leaves + 1
    if keeps and (kept.fill[0] >= len(kept.sigma) or kept.fill[1] + nodes > len(kept.feature)):
        return NEEDS_ROOM
    return DONE


@kernel(allocates=False)
def keep_draw(forest: Forest, work: Work, kept: KeptDraws, prior: Floats) -> None:
    """Append the forest and sigma to the kept draws."""
    draw, position = kept.fill[0], kept.fill[1]
    num_trees = len(forest.num_leaves)
    kept.sigma[draw] = np.sqrt(prior[SIGMA2]) * prior[STEP]
    for tree in range(num_trees):
        kept.tree_start[draw * num_trees + tree] = position
        position = write_tree(
            forest.node[tree], forest.leaf[tree], np.int64(forest.num_leaves[tree]), work.old,
            kept.feature, kept.cut, kept.missing_left, kept.leaf, position,
        )  # fmt: skip
    kept.tree_start[(draw + 1) * num_trees] = position
    kept.fill[0], kept.fill[1] = draw + 1, position


@kernel(inline=True, allocates=False)
def end_iteration(data: Data, forest: Forest, work: Work, prior: Floats) -> None:
    """Apply the last tree's change, then draw sigma."""
    state = work.state
    tree, labels = state[PREVIOUS], state[PENDING_LEAVES]
    slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
    squares, largest = settle(
        work.residual, slots, high, labels > BYTE_LEAVES, work.delta, labels, data.weights, data.num_rows
    )
    finish_prune(data, forest, work)
    state[PREVIOUS] = -1
    if largest > GRID_LIMIT:
        state[BROKEN] = 1
    set_bound(work, largest)
    prior[SIGMA2] = draw_sigma2(prior, prior[UNIT] * squares, float(data.num_seen), work.random)


@kernel(
    allocates=False,
    entry=True,
)
def sweep(
    data: Data, forest: Forest, work: Work, prior: Floats, depths: Floats2, moves: Floats, counters: Longs2,
    kept: KeptDraws, iteration: Int, stop: Int, num_burnin: Int, thin: Int,
) -> tuple[Int, Int]:  # fmt: skip
    """Run iterations up to `stop`; returns the iterations done and why it came back (DONE or what it needs).

    What is needed is found before an iteration starts, so the call can simply be repeated once it is there,
    and the chain is the same however often that happens.
    """
    places = places_of((data, forest, work, prior, depths))
    while iteration < stop:
        past = iteration + 1 - num_burnin
        keeps = past > 0 and past % thin == 0
        need = room_for_iteration(forest, kept, keeps)
        if need != DONE:
            return iteration, need
        work.state[PREVIOUS] = work.state[KEEP] = -1
        if len(data.labels) > 0 and prior[LIKELIHOOD] != 0.0:
            draw_latent(data.labels, work.residual, work.latent, prior[OFFSET], prior[STEP], work.random)
            set_bound(work, largest_absolute(work.residual))
        for tree in range(len(forest.num_leaves)):
            update_tree(data, forest, work, prior, depths, moves, counters, places, tree)
        end_iteration(data, forest, work, prior)
        iteration += 1
        if work.state[BROKEN] != 0:
            return iteration, OUT_OF_GRID
        if keeps:
            keep_draw(forest, work, kept, prior)
    return iteration, DONE


@kernel(allocates=False, entry=True)
def rebuild(data: Data, forest: Forest, work: Work) -> None:
    """Slots, counts and residual from the trees; the residual must hold y on entry."""
    weighted = len(data.weights) > 0
    for tree in range(len(forest.num_leaves)):
        num_leaves = np.int64(forest.num_leaves[tree])
        slots, high = forest.slots[tree], forest.high[plane_of(forest, tree)]
        wide = num_leaves > BYTE_LEAVES
        route(data.codes, forest.node[tree], forest.num_leaves[tree], slots, high, wide, data.num_rows)
        forest.count[tree, :num_leaves] = 0
        for i in range(data.num_rows):
            slot = np.int64(slots[i])
            if wide:
                slot += 256 * np.int64(high[i])
            forest.count[tree, slot] += np.int64(data.weights[i]) if weighted else np.int64(1)
            work.residual[i] -= forest.leaf[tree, slot, VALUE]
    work.state[PREVIOUS] = work.state[KEEP] = -1
    work.state[BROKEN] = 0
    work.latent[:] = 0
    set_bound(work, largest_absolute(work.residual))
