"""Whole iterations of a chain of one forest in one compiled call: what is beside the trees, and all of them.

Chains of several forests take the same steps one by one.
"""

from __future__ import annotations

import numpy as np

from sampler.bart.kernels.forest_sweep import (
    is_kept,
    keep_draw,
    room_for_draw,
    room_for_trees,
    settle_forest,
    update_forest,
)
from sampler.bart.kernels.leaf_models.normal import (
    K_DF,
    K_SCALE2,
    LIKELIHOOD,
    SIGMA2,
    TAU2,
    UNIT2,
    Normal,
)
from sampler.bart.kernels.state import (
    BROKEN,
    DONE,
    KEEP,
    OUT_OF_GRID,
    PREVIOUS,
    VALUE,
    Forest,
    KeptDraws,
    Outcome,
    Schedule,
    Work,
)
from sampler.kernels.arrays import Data, Float, Floats, Int, Words
from sampler.kernels.function_pointers import call_step, places_of
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma

OneForest = tuple[Data, Forest, Normal, Outcome, Work, KeptDraws]  # what whole sweeps take first


@kernel(inline=True, allocates=False, entry=True)
def draw_sigma2(outcome: Outcome, noise: Floats, squares: Float, random: Words) -> None:
    """Draw sigma^2 from its conditional, (nu scale + squares) / chi-square(nu + n), unless it is known."""
    if not outcome.sigma_fixed:
        power = noise[LIKELIHOOD]
        scale = outcome.nu * outcome.scale + power * squares
        noise[SIGMA2] = scale / (2.0 * gamma(random, 0.5 * (outcome.nu + power * float(outcome.num_seen))))
    outcome.scalars[0] = np.sqrt(noise[SIGMA2]) * outcome.step


@kernel(inline=True, allocates=False)
def begin_iteration(outcome: Outcome, model: Normal, work: Work) -> None:
    """Draw the latent outcomes and the linear part, if any."""
    work.pending.state[PREVIOUS] = work.pending.state[KEEP] = -1
    if outcome.draw_latent != 0:
        places = places_of((outcome, model, work.random))
        call_step(outcome.draw_latent, (places[0], places[1], places[2]))
    if outcome.draw_line != 0:
        own = places_of((model, work))
        call_step(outcome.draw_line, (outcome.line, own[0], own[1]))


@kernel(allocates=False, entry=True)
def draw_leaf_variance(forest: Forest, variance: Floats, random: Words) -> None:
    """Draw tau^2 = unit^2 / k^2 given all leaf values, unless it is known: k^2 is a gamma variable."""
    if len(variance) == 1:
        return
    squares = count = 0.0
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            value = float(forest.leaf[tree, slot, VALUE])
            squares += value * value
            count += 1.0
    rate = 0.5 * (1.0 / variance[K_SCALE2] + squares / variance[UNIT2])
    variance[TAU2] = variance[UNIT2] * rate / gamma(random, 0.5 * (variance[K_DF] + count))


@kernel(inline=True, allocates=False)
def end_iteration(data: Data, forest: Forest, model: Normal, outcome: Outcome, work: Work) -> None:
    """Apply the last tree's change, then draw sigma and the leaves' variance."""
    squares = settle_forest(data, forest, model, work)
    draw_sigma2(outcome, model.noise, squares, work.random)
    draw_leaf_variance(forest, model.variance, work.random)


@kernel(allocates=False, entry=True)
def sweep(
    data: Data,
    forest: Forest,
    model: Normal,
    outcome: Outcome,
    work: Work,
    kept: KeptDraws,
    schedule: Schedule,
) -> tuple[Int, Int]:
    """Run iterations of a chain of one forest; return the iterations done and why it came back.

    That is DONE or what is needed, found before an iteration starts, so that the call can simply be repeated
    once it is there, and the chain is the same however often that happens.
    """
    places = places_of((data, forest, model, work))
    iteration = schedule.iteration
    while iteration < schedule.stop:
        keeps = is_kept(schedule, iteration)
        need = room_for_trees(forest.num_leaves, forest.plane, forest.leaf.shape[1])
        if need == DONE and keeps:
            need = room_for_draw(forest, kept)
        if need != DONE:
            return iteration, need
        begin_iteration(outcome, model, work)
        update_forest(forest, places)
        end_iteration(data, forest, model, outcome, work)
        iteration += 1
        if work.pending.state[BROKEN] != 0:
            return iteration, OUT_OF_GRID
        if keeps:
            keep_draw(forest, work.stack, kept, outcome.scalars)
    return iteration, DONE
