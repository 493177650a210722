"""The draw of one grouping's intercepts: their standard deviation without them, then each by itself."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, TAU2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND, measure_bound
from sampler.bart.kernels.state import BROKEN, GRID_LIMIT, VALUE, Forest, Outcome, Work
from sampler.bart.kernels.tree_tables import num_present
from sampler.kernels.arrays import Float, Floats, Int, Ints, Longs, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

STEPS = 5  # of the standard deviation, each smaller than the one before
SMALLEST, LARGEST = 1e-6, 10.0  # standard deviation, in units of its prior's scale


class Intercepts(NamedTuple):
    """The groups of one column: the group of each row, the intercepts, and room for sums."""

    group: Ints  # [n]
    effect: Ints  # [group], grid steps
    total: Longs  # [group], sum of weight x (residual + own intercept)
    size: Longs  # [group], sum of weights
    power: Floats  # [2]: precision that a unit of weight gives a row; standard deviation, grid steps
    scale: Float  # of the half-Cauchy prior, grid steps
    place: Int  # of the standard deviation in Outcome.scalars


@kernel(allocates=False, entry=True)
def draw_intercepts(part: Intercepts, model: Normal, outcome: Outcome, work: Work) -> None:
    """Draw the standard deviation given the residual with the intercepts in it, then the intercepts."""
    _add_up(part, model)
    tau = _draw_sd(part, outcome.scalars[part.place] / outcome.step, work.random)
    outcome.scalars[part.place] = tau * outcome.step
    part.power[1] = tau
    weight, variance = part.power[0], tau * tau
    for g in range(len(part.effect)):
        share = 1.0 + weight * float(part.size[g]) * variance
        mean = variance * weight * float(part.total[g]) / share
        drawn = np.rint(mean + tau / math.sqrt(share) * normal(work.random))
        drawn = min(max(drawn, -4.0 * GRID_LIMIT), 4.0 * GRID_LIMIT)
        part.total[g] = np.int64(drawn) - np.int64(part.effect[g])
        part.effect[g] = np.int32(drawn)
    for i in range(len(part.group)):
        model.residual[i] -= np.int32(part.total[part.group[i]])
    measure_bound(model.residual, model.bound)
    if model.bound[BOUND] > GRID_LIMIT:
        work.pending.state[BROKEN] = 1


@kernel(allocates=False)
def _add_up(part: Intercepts, model: Normal) -> None:
    """Sum the rows of each group, and find what a unit of weight is worth."""
    part.total[:] = 0
    part.size[:] = 0
    weighted = len(model.weights) > 0
    if weighted:
        for i in range(len(part.group)):
            g, weight = part.group[i], np.int64(model.weights[i])
            part.total[g] += weight * np.int64(model.residual[i])
            part.size[g] += weight
    else:
        for i in range(len(part.group)):
            g = part.group[i]
            part.total[g] += np.int64(model.residual[i])
            part.size[g] += 1
    for g in range(len(part.effect)):
        part.total[g] += part.size[g] * np.int64(part.effect[g])
    unit = model.noise[UNIT] if weighted else 1.0
    part.power[0] = model.noise[LIKELIHOOD] * unit / model.noise[SIGMA2]


@kernel(allocates=False, entry=True)
def log_density(part: Intercepts, tau: Float) -> Float:
    """Compute the log density of log tau given the sums, intercepts integrated out, up to a constant."""
    share = tau / part.scale
    if not SMALLEST < share < LARGEST:
        return -math.inf
    weight, variance = part.power[0], tau * tau
    log_p = math.log(share) - math.log1p(share * share)
    for g in range(len(part.effect)):
        more = weight * float(part.size[g]) * variance
        pull = weight * float(part.total[g])
        log_p += 0.5 * (variance * pull * pull / (1.0 + more) - math.log1p(more))
    return log_p


@kernel(allocates=False)
def _draw_sd(part: Intercepts, tau: Float, random: Words) -> Float:
    """Draw the standard deviation, in grid steps, by a random walk of its logarithm."""
    now = log_density(part, tau)
    for k in range(STEPS):
        other = tau * math.exp(10.0 ** (-0.5 * k) * normal(random))
        then = log_density(part, other)
        if math.log(uniform(random)) < then - now:
            tau, now = other, then
    return tau


@kernel(allocates=False, entry=True)
def exchange_level(part: Intercepts, forest: Forest, variance: Floats, random: Words) -> None:
    """Move a constant from all trees to all intercepts, drawn given everything else: no row's sum changes.

    Each tree gives the same whole number of steps. Without it the trees' level, which every row tells, would
    move only as far as the intercepts' mean does in one sweep.
    """
    trees, groups = num_present(forest), len(part.effect)
    if trees == 0:
        return
    values, leaves, effects = 0.0, 0.0, 0.0
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            values += float(forest.leaf[tree, slot, VALUE])
            leaves += 1.0
    for g in range(groups):
        effects += float(part.effect[g])
    of_groups, of_leaves = float(trees) / (part.power[1] * part.power[1]), 1.0 / variance[TAU2]
    precision = of_groups * float(trees) * float(groups) + of_leaves * leaves
    mean = (of_leaves * values - of_groups * effects) / precision
    step = np.rint(mean + normal(random) / math.sqrt(precision))
    step = min(max(step, -float(GRID_LIMIT) / trees), float(GRID_LIMIT) / trees)
    shift = np.int32(step)
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            forest.leaf[tree, slot, VALUE] -= shift
    for g in range(groups):
        part.effect[g] += np.int32(trees) * shift
