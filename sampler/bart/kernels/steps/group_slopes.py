"""The draw of one grouping's intercepts and slopes: their covariance first, then each group by itself."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, TAU2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND, measure_bound
from sampler.bart.kernels.state import BROKEN, GRID_LIMIT, VALUE, Forest, Outcome, Work
from sampler.bart.kernels.steps.intercepts import LARGEST, SMALLEST, STEPS
from sampler.bart.kernels.steps.linear_part import FIRST_SLOPE, TAU
from sampler.bart.kernels.tree_tables import num_present
from sampler.kernels.arrays import Float, Floats, Floats2, Floats3, Int, Ints, Ints2, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

NEAREST = 1e-9  # of a partial correlation to 1 or -1


class GroupTerms(NamedTuple):
    """The groups of one column with a value of each term for each: the intercept, then slopes.

    The covariance of a group's terms is given by its standard deviations and, row by row below the diagonal,
    by partial correlations: of terms i and j given those before j. These are scalars from `place` on.
    """

    group: Ints  # [n]
    z: Floats2  # [slope, n], what slopes are multiplied by
    effect: Ints2  # [term, group], grid steps
    shift: Ints  # [n], the effects of each row: what the residual lacks
    gram: Floats3  # [group, term, term], sums of weight x product of two terms, below the diagonal
    total: Floats2  # [group, term], sums of weight x (residual + shift) x term
    params: Floats  # [scalar], standard deviations in grid steps and partial correlations
    factor: Floats2  # [term, term], Cholesky factor of the covariance, grid steps
    square: Floats2  # [term, term], room
    solved: Floats2  # [3, term], room
    power: Floats  # [1], precision that a unit of weight gives a row
    scale: Float  # of the standard deviations' half-Cauchy prior, grid steps
    place: Int  # of the first of them in Outcome.scalars


@kernel(allocates=False, entry=True)
def apply_effects(part: GroupTerms, residual: Ints) -> None:
    """Take the present effects, instead of the former, out of the residual."""
    for i in range(len(part.group)):
        shift = _shift_of(part, i)
        residual[i] += part.shift[i] - shift
        part.shift[i] = shift


@kernel(allocates=False)
def _shift_of(part: GroupTerms, i: Int) -> Int:
    """Compute the effects of a row: an intercept, and its slopes' sum as a whole number of steps."""
    g, along = part.group[i], 0.0
    for k in range(len(part.z)):
        along += part.z[k, i] * float(part.effect[k + 1, g])
    limit = 4.0 * GRID_LIMIT
    return np.int32(np.int64(part.effect[0, g]) + np.int64(np.rint(min(max(along, -limit), limit))))


@kernel(allocates=False, entry=True)
def draw_effects(part: GroupTerms, model: Normal, outcome: Outcome, work: Work) -> None:
    """Draw the covariance given the residual with the effects in it, then the effects of each group."""
    _add_up(part, model)
    terms, groups = part.effect.shape
    for k in range(len(part.params)):
        unit = outcome.step if k < terms else 1.0
        part.params[k] = outcome.scalars[part.place + k] / unit
    _draw_covariance(part, work.random)
    for k in range(len(part.params)):
        unit = outcome.step if k < terms else 1.0
        outcome.scalars[part.place + k] = part.params[k] * unit
    fill_factor(part)
    for g in range(groups):
        _solve(part, g)
        # factor x (inverse of the square, by its factor, of the pull + normal variables)
        for k in range(terms):
            part.solved[1, k] += normal(work.random)
        for k in range(terms - 1, -1, -1):
            value = part.solved[1, k]
            for j in range(k + 1, terms):
                value -= part.square[j, k] * part.solved[2, j]
            part.solved[2, k] = value / part.square[k, k]
        for k in range(terms):
            drawn = 0.0
            for j in range(k + 1):
                drawn += part.factor[k, j] * part.solved[2, j]
            drawn = min(max(np.rint(drawn), -4.0 * GRID_LIMIT), 4.0 * GRID_LIMIT)
            part.effect[k, g] = np.int32(drawn)
    apply_effects(part, model.residual)
    measure_bound(model.residual, model.bound)
    if model.bound[BOUND] > GRID_LIMIT:
        work.pending.state[BROKEN] = 1


@kernel(allocates=False)
def _add_up(part: GroupTerms, model: Normal) -> None:
    """Sum the rows of each group, and find what a unit of weight is worth."""
    terms = len(part.effect)
    part.total[:] = 0.0
    part.gram[:] = 0.0
    weighted = len(model.weights) > 0
    for i in range(len(part.group)):
        g = part.group[i]
        weight = float(model.weights[i]) if weighted else 1.0
        rest = weight * float(np.int64(model.residual[i]) + np.int64(part.shift[i]))
        part.total[g, 0] += rest
        part.gram[g, 0, 0] += weight
        for k in range(1, terms):
            z = part.z[k - 1, i]
            part.total[g, k] += rest * z
            part.gram[g, k, 0] += weight * z
            for j in range(1, k + 1):
                part.gram[g, k, j] += weight * z * part.z[j - 1, i]
    unit = model.noise[UNIT] if weighted else 1.0
    part.power[0] = model.noise[LIKELIHOOD] * unit / model.noise[SIGMA2]


@kernel(allocates=False, entry=True)
def fill_factor(part: GroupTerms) -> None:
    """Compute the Cholesky factor of the covariance from standard deviations and partial correlations."""
    terms, at = len(part.effect), len(part.effect)
    for i in range(terms):
        left = 1.0
        for j in range(i):
            part.factor[i, j] = part.params[at] * math.sqrt(left)
            left *= 1.0 - part.params[at] * part.params[at]
            part.factor[i, j] *= part.params[i]
            at += 1
        part.factor[i, i] = part.params[i] * math.sqrt(left)


@kernel(allocates=False)
def _solve(part: GroupTerms, g: Int) -> None:
    """Factor I + factor' gram factor of a group into `square`, and solve it for its pull, in `solved[1]`."""
    terms = len(part.effect)
    factor, gram, square, solved = part.factor, part.gram, part.square, part.solved
    power = part.power[0]
    for j in range(terms):
        for k in range(terms):  # gram times column j of the factor
            value = 0.0
            for l in range(j, terms):  # noqa: E741
                value += (gram[g, k, l] if l <= k else gram[g, l, k]) * factor[l, j]
            solved[0, k] = value
        for i in range(j, terms):
            value = 1.0 if i == j else 0.0
            for k in range(i, terms):
                value += power * factor[k, i] * solved[0, k]
            square[i, j] = value
    for j in range(terms):
        value = square[j, j]
        for k in range(j):
            value -= square[j, k] * square[j, k]
        square[j, j] = math.sqrt(max(value, 1.0))
        for i in range(j + 1, terms):
            value = square[i, j]
            for k in range(j):
                value -= square[i, k] * square[j, k]
            square[i, j] = value / square[j, j]
    for i in range(terms):
        value = 0.0
        for k in range(i, terms):
            value += power * factor[k, i] * part.total[g, k]
        for k in range(i):
            value -= square[i, k] * solved[1, k]
        solved[1, i] = value / square[i, i]


@kernel(allocates=False, entry=True)
def log_density(part: GroupTerms) -> Float:
    """Compute the log density of log sds and partial correlations' atanh given the sums, up to a constant.

    Effects are integrated out. The prior of correlations is uniform over correlation matrices.
    """
    terms, groups = part.effect.shape
    density, at = 0.0, terms
    for k in range(terms):
        share = part.params[k] / part.scale
        if not SMALLEST < share < LARGEST:
            return -math.inf
        density += math.log(share) - math.log1p(share * share)
        for j in range(k):
            left = 1.0 - part.params[at] * part.params[at]
            if not left > NEAREST:
                return -math.inf
            density += (0.5 * float(terms - 2 - j) + 1.0) * math.log(left)
            at += 1
    fill_factor(part)
    for g in range(groups):
        _solve(part, g)
        for k in range(terms):
            density += 0.5 * part.solved[1, k] * part.solved[1, k] - math.log(part.square[k, k])
    return density


@kernel(allocates=False)
def _draw_covariance(part: GroupTerms, random: Words) -> None:
    """Draw standard deviations and partial correlations one by one, by random walks of log and atanh.

    All standard deviations move together too: where effects are all but collinear, one alone hardly can.
    """
    terms = len(part.effect)
    now = log_density(part)
    for k in range(STEPS):
        size = 10.0 ** (-0.5 * k)
        for j in range(len(part.params)):
            before = part.params[j]
            walk = size * normal(random)
            part.params[j] = before * math.exp(walk) if j < terms else math.tanh(math.atanh(before) + walk)
            then = log_density(part)
            if math.log(uniform(random)) < then - now:
                now = then
            else:
                part.params[j] = before
        factor = math.exp(size * normal(random))
        for j in range(terms):
            part.solved[2, j] = part.params[j]
            part.params[j] *= factor
        then = log_density(part)
        if math.log(uniform(random)) < then - now:
            now = then
        else:
            for j in range(terms):
                part.params[j] = part.solved[2, j]


@kernel(allocates=False)
def _prior_precision(part: GroupTerms, term: Int) -> None:
    """Compute a column of the inverse of the covariance into `solved[2]`; the factor is filled."""
    terms, factor, solved = len(part.effect), part.factor, part.solved
    for i in range(terms):
        value = 1.0 if i == term else 0.0
        for k in range(i):
            value -= factor[i, k] * solved[1, k]
        solved[1, i] = value / factor[i, i]
    for i in range(terms - 1, -1, -1):
        value = solved[1, i]
        for k in range(i + 1, terms):
            value -= factor[k, i] * solved[2, k]
        solved[2, i] = value / factor[i, i]


@kernel(allocates=False)
def _prior_pull(part: GroupTerms) -> Float:
    """Sum over groups the product of the column in `solved[2]` with a group's effects."""
    terms, groups = part.effect.shape
    pull = 0.0
    for k in range(terms):
        total = np.int64(0)
        for g in range(groups):
            total += np.int64(part.effect[k, g])
        pull += part.solved[2, k] * float(total)
    return pull


@kernel(allocates=False, entry=True)
def exchange_level(part: GroupTerms, forest: Forest, variance: Floats, random: Words) -> None:
    """Move a constant from all trees to all intercepts, drawn given everything else: no row's sum changes.

    Each tree gives the same whole number of steps.
    """
    trees, groups = num_present(forest), part.effect.shape[1]
    if trees == 0:
        return
    values, leaves = 0.0, 0.0
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            values += float(forest.leaf[tree, slot, VALUE])
            leaves += 1.0
    fill_factor(part)
    _prior_precision(part, 0)
    of_leaves = 1.0 / variance[TAU2]
    precision = part.solved[2, 0] * float(trees) * float(trees) * float(groups) + of_leaves * leaves
    mean = (of_leaves * values - float(trees) * _prior_pull(part)) / precision
    step = np.rint(mean + normal(random) / math.sqrt(precision))
    step = min(max(step, -float(GRID_LIMIT) / trees), float(GRID_LIMIT) / trees)
    shift = np.int32(step)
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            forest.leaf[tree, slot, VALUE] -= shift
    for g in range(groups):
        part.effect[0, g] += np.int32(trees) * shift
    for i in range(len(part.group)):
        part.shift[i] += np.int32(trees) * shift


@kernel(allocates=False, entry=True)
def exchange_slope(part: GroupTerms, term: Int, slope: Int, outcome: Outcome, random: Words) -> None:
    """Move a slope from the linear part to all groups' slopes of the same column, given everything else.

    No row's sum changes but by rounding; `term` is the groups', `slope` the linear part's.
    """
    groups, place = part.effect.shape[1], FIRST_SLOPE + slope
    before = outcome.scalars[place] / outcome.step
    of_line = outcome.step / outcome.scalars[TAU]
    of_line *= of_line
    fill_factor(part)
    _prior_precision(part, term)
    precision = part.solved[2, term] * float(groups) + of_line
    mean = (of_line * before - _prior_pull(part)) / precision
    moved = np.rint(mean + normal(random) / math.sqrt(precision))
    moved = min(max(moved, -float(GRID_LIMIT)), float(GRID_LIMIT))
    outcome.scalars[place] = (before - moved) * outcome.step
    for g in range(groups):
        part.effect[term, g] += np.int32(moved)
