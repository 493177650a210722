"""Steps of a sweep that concern one forest, for any leaf model."""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.leaf_models.operations import settle, take_out
from sampler.bart.kernels.state import (
    DONE,
    KEEP,
    MOST_LEAVES,
    NEEDS_LEAVES,
    NEEDS_PLANE,
    NEEDS_ROOM,
    PENDING_LEAVES,
    PREVIOUS,
    Forest,
    KeptDraws,
    Places,
    Schedule,
    Work,
)
from sampler.bart.kernels.tree_tables import slots_of, write_tree
from sampler.bart.kernels.tree_update import finish_prune
from sampler.kernels.arrays import BYTE_LEAVES, Bool, Data, Float, Floats, Int, Ints, Model
from sampler.kernels.function_pointers import call_step, places_of
from sampler.kernels.jit import kernel
from sampler.kernels.rows import route


@kernel(inline=True, allocates=False, entry=True)
def room_for_trees(num_leaves: Ints, plane: Ints, capacity: Int) -> Int:
    """Check for room for one more leaf in each tree; DONE or the need."""
    for tree in range(len(num_leaves)):
        if num_leaves[tree] >= capacity:
            return NEEDS_LEAVES
        if num_leaves[tree] >= BYTE_LEAVES and plane[tree] < 0:
            return NEEDS_PLANE
    return DONE


@kernel(inline=True, allocates=False, entry=True)
def room_for_draw(forest: Forest, kept: KeptDraws) -> Int:
    """Check for room for a draw with one more leaf in each tree; DONE or the need."""
    nodes = 0
    for tree in range(len(forest.num_leaves)):
        nodes += 2 * forest.num_leaves[tree] + 1
    full = kept.fill[0] >= len(kept.scalars) or kept.fill[1] + nodes > len(kept.feature)
    return NEEDS_ROOM if full else DONE


@kernel(inline=True, allocates=False)
def is_kept(schedule: Schedule, iteration: Int) -> Bool:
    """Whether the draw after the iteration of this number (from 0) is kept."""
    past = iteration + 1 - schedule.num_burnin
    return past > 0 and past % schedule.thin == 0


@kernel(allocates=False, entry=True)
def keep_draw(forest: Forest, stack: Ints, kept: KeptDraws, scalars: Floats) -> None:
    """Append a forest and the chain's scalars to the kept draws; `stack` is `Work.stack`."""
    draw, position = kept.fill[0], kept.fill[1]
    num_trees = len(forest.num_leaves)
    for k in range(len(scalars)):
        kept.scalars[draw, k] = scalars[k]
    for tree in range(num_trees):
        kept.tree_start[draw * num_trees + tree] = position
        position = write_tree(
            forest.node[tree], forest.leaf[tree], np.int64(forest.num_leaves[tree]), stack,
            kept.feature, kept.cut, kept.missing_left, kept.leaf, position,
        )  # fmt: skip
    kept.tree_start[(draw + 1) * num_trees] = position
    kept.fill[0], kept.fill[1] = draw + 1, position


@kernel(inline=True, allocates=False)
def update_forest(forest: Forest, places: Places) -> None:
    """Update every tree once. `places`: of data, forest, model and work."""
    call_step(forest.prior.update, (places[0], places[1], places[2], places[3], forest.prior.swarm))


@kernel(inline=True, allocates=False)
def settle_forest(data: Data, forest: Forest, model: Model, work: Work) -> Float:
    """Apply the change of the last tree; return the residual's weighted sum of squares (`settle`)."""
    state = work.pending.state
    before = slots_of(forest, state[PREVIOUS], state[PENDING_LEAVES])
    squares = settle(model, work, data.num_rows, before)
    finish_prune(data, forest, work)
    state[PREVIOUS] = -1
    return squares


@kernel(inline=True, allocates=False)
def sweep_trees(data: Data, forest: Forest, model: Model, work: Work) -> Float:
    """Update every tree once, there being room; return the residual's weighted sum of squares (`settle`)."""
    work.pending.state[PREVIOUS] = work.pending.state[KEEP] = -1
    update_forest(forest, places_of((data, forest, model, work)))
    return settle_forest(data, forest, model, work)


@kernel(allocates=False, entry=True)
def rebuild(data: Data, forest: Forest, model: Model) -> None:
    """Find the rows' slots in every tree, and take the trees out of the rows."""
    for tree in range(len(forest.num_leaves)):
        slots = slots_of(forest, tree, np.int64(forest.num_leaves[tree]))
        route(
            data.codes, forest.node[tree], forest.num_leaves[tree], slots.low, slots.high, slots.wide,
            data.num_rows,
        )  # fmt: skip
        take_out(model, slots, forest.leaf[tree], data.num_rows)


@kernel(allocates=False, entry=True)
def recount(data: Data, forest: Forest, model: Model) -> None:
    """Count the rows of every leaf, or their weights: needed whenever weights change."""
    weighted = len(model.weights) > 0
    zero = np.int64(0)
    total = np.int64(data.num_rows)
    if weighted:
        total = zero
        for i in range(data.num_rows):
            total += np.int64(model.weights[i])
    for tree in range(len(forest.num_leaves)):
        slots = slots_of(forest, tree, max(np.int64(forest.num_leaves[tree]), 1))
        count = forest.count[tree]
        if weighted and slots.leaves <= MOST_LEAVES:  # one leaf after the other: these sums take vectors
            low, rest = slots.low, total
            for k in range(slots.leaves - 1):
                own, part = np.uint8(k), zero
                for i in range(data.num_rows):
                    part += np.int64(model.weights[i]) if low[i] == own else zero
                count[k] = part
                rest -= part
            count[slots.leaves - 1] = rest
            continue
        count[: slots.leaves] = 0
        for i in range(data.num_rows):
            slot = np.int64(slots.low[i])
            if slots.wide:
                slot += 256 * np.int64(slots.high[i])
            count[slot] += np.int64(model.weights[i]) if weighted else np.int64(1)
