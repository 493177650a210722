"""The draw of a surface: its standard deviation and range without it, then the amplitudes of its waves.

Sums over places of products of two waves are four cosines each, so their matrix is made of the places'
cosine transform (docs/maths.md#a-surface-over-places).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND, measure_bound
from sampler.bart.kernels.state import BROKEN, GRID_LIMIT, Outcome, Work
from sampler.kernels.arrays import Float, Floats, Floats2, Floats3, Int, Ints, Ints2, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

SD, RANGE = 0, 1  # places in Surface.figures
STEPS = 3  # of the figures
SMALLEST, LARGEST = 1e-4, 10.0  # standard deviation, in units of its prior's scale
TYPICAL, SPREAD = 0.4, 0.5  # of the range's log-normal prior: median, and sd of its logarithm
SHORTEST, LONGEST = 0.15, 1.0  # range, in the unit of distances: what the waves in the box can tell
ALONE, BESIDE = (1.0, 0.0, 0.2), (0.0, 0.3, 0.1)  # sizes of the steps: of the sd alone, and of both
RIDGE = 2.5  # data tell sd^2 / range^5 best: power of the range by which the sd moves beside it


class Waves(NamedTuple):
    """The waves of a surface at the places of a chain's rows, and room for sums.

    A term is a wave, and the last one the constant of rows that lack a coordinate.
    """

    place: Ints  # [n], of each row
    first: Floats2  # [place, half waves], sines of the first coordinate
    second: Floats2  # [place, half waves], of the second
    first_cosines: Floats2  # [place, from 0 to twice as many], of the first coordinate
    second_cosines: Floats2  # [place, from 0 to twice as many], of the second
    missing: Ints  # [place], 1 without a coordinate
    numbers: Ints2  # [2, wave], half waves along both, from 1
    squares: Floats  # [wave], squared angular frequencies
    height: Float  # of a wave of amplitude 1
    amplitude: Floats  # [term], grid steps
    shift: Ints  # [n], the surface at each row: what the residual lacks
    at: Floats  # [place], room: sums by place, and the surface there
    weight: Floats  # [place], room
    transform: Floats2  # [of first_cosines, of second_cosines], room
    gram: Floats2  # [term, term], sums over rows of weight x product of two terms, below the diagonal
    pull: Floats  # [term], sums over rows of weight x (residual + shift) x term
    factor: Floats3  # [2, term, term], of the present figures and of others
    solved: Floats2  # [2, term], likewise
    root: Floats2  # [2, term], standard deviations of amplitudes, likewise
    figures: Floats  # [2], standard deviation in grid steps, and range
    power: Floats  # [1], precision that a unit of weight gives a row
    scale: Float  # of the standard deviation's half-Cauchy prior, grid steps


@kernel(allocates=False, entry=True)
def apply_surface(part: Waves, residual: Ints) -> None:
    """Take the present surface, instead of the former, out of the residual."""
    last = len(part.squares)
    for p in range(len(part.at)):
        height = 0.0
        if part.missing[p] == 1:
            height = float(part.amplitude[last])
        else:
            for j in range(last):
                wave = part.first[p, part.numbers[0, j] - 1] * part.second[p, part.numbers[1, j] - 1]
                height += part.height * part.amplitude[j] * wave
        limit = 4.0 * GRID_LIMIT
        part.at[p] = np.rint(min(max(height, -limit), limit))
    for i in range(len(part.place)):
        shift = np.int32(part.at[part.place[i]])
        residual[i] += part.shift[i] - shift
        part.shift[i] = shift


@kernel(allocates=False, entry=True)
def add_up(part: Waves, model: Normal) -> None:
    """Sum the rows of each place, then products of terms over places; find what a unit of weight is worth."""
    part.at[:] = 0.0
    part.weight[:] = 0.0
    weighted = len(model.weights) > 0
    for i in range(len(part.place)):
        p = part.place[i]
        weight = float(model.weights[i]) if weighted else 1.0
        part.at[p] += weight * float(np.int64(model.residual[i]) + np.int64(part.shift[i]))
        part.weight[p] += weight
    unit = model.noise[UNIT] if weighted else 1.0
    part.power[0] = model.noise[LIKELIHOOD] * unit / model.noise[SIGMA2]
    _add_pulls(part)
    add_products(part)


@kernel(allocates=False)
def _add_pulls(part: Waves) -> None:
    """Sum what the rows of places pull each term by."""
    last = len(part.squares)
    part.pull[:] = 0.0
    for p in range(len(part.at)):
        if part.missing[p] == 1:
            part.pull[last] += part.at[p]
            continue
        for j in range(last):
            wave = part.first[p, part.numbers[0, j] - 1] * part.second[p, part.numbers[1, j] - 1]
            part.pull[j] += part.height * part.at[p] * wave


@kernel(allocates=False, entry=True)
def add_products(part: Waves) -> None:
    """Sum products of two terms over places: sin a sin b = (cos(a - b) - cos(a + b)) / 2 along each side."""
    last = len(part.squares)
    part.transform[:] = 0.0
    missing = 0.0
    for p in range(len(part.weight)):
        if part.missing[p] == 1:
            missing += part.weight[p]
            continue
        for k in range(part.transform.shape[0]):
            along = part.weight[p] * part.first_cosines[p, k]
            for l in range(part.transform.shape[1]):  # noqa: E741
                part.transform[k, l] += along * part.second_cosines[p, l]
    share = 0.25 * part.height * part.height
    for i in range(last):
        for j in range(i + 1):
            less, more = abs(part.numbers[0, i] - part.numbers[0, j]), part.numbers[0, i] + part.numbers[0, j]
            left, right = (
                abs(part.numbers[1, i] - part.numbers[1, j]),
                part.numbers[1, i] + part.numbers[1, j],
            )
            inner = part.transform[less, left] - part.transform[less, right]
            outer = part.transform[more, left] - part.transform[more, right]
            part.gram[i, j] = share * (inner - outer)
    for j in range(last):
        part.gram[last, j] = 0.0
    part.gram[last, last] = missing


@kernel(allocates=False, entry=True)
def log_density(part: Waves, sd: Float, reach: Float, side: Int) -> Float:
    """Compute the log density of both figures' logarithms given the sums, amplitudes integrated out.

    Up to a constant; it leaves in `factor[side]` the Cholesky factor of I + power root gram root, and in
    `solved[side]` it solved for the pull.
    """
    share = sd / part.scale
    if not SMALLEST < share < LARGEST or not SHORTEST < reach < LONGEST:
        return -math.inf
    away = math.log(reach / TYPICAL) / SPREAD
    density = math.log(share) - math.log1p(share * share) - 0.5 * away * away
    last, root, factor = len(part.squares), part.root[side], part.factor[side]
    ends = 5.0 / (reach * reach)
    top = sd * ends * math.sqrt(10.0 * math.pi * math.sqrt(ends))
    for j in range(last):
        power = ends + part.squares[j]
        root[j] = top / (power * math.sqrt(power * math.sqrt(power)))
    root[last] = sd
    for i in range(last + 1):
        for j in range(i + 1):
            value = part.power[0] * root[i] * root[j] * part.gram[i, j] + (1.0 if i == j else 0.0)
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            factor[i, j] = math.sqrt(max(value, 1.0)) if i == j else value / factor[j, j]
        value = part.power[0] * root[i] * part.pull[i]
        for k in range(i):
            value -= factor[i, k] * part.solved[side, k]
        part.solved[side, i] = value / factor[i, i]
        density += 0.5 * part.solved[side, i] * part.solved[side, i] - math.log(factor[i, i])
    return density


@kernel(allocates=False)
def _draw_figures(part: Waves, random: Words) -> Int:
    """Draw standard deviation and range by random walks of their logarithms; return the side they are on."""
    side = 0
    now = log_density(part, part.figures[SD], part.figures[RANGE], side)
    for k in range(STEPS):
        walk = ALONE[k] * normal(random)
        along = BESIDE[k] * normal(random)
        sd = part.figures[SD] * math.exp(walk + RIDGE * along)
        reach = part.figures[RANGE] * math.exp(along)
        then = log_density(part, sd, reach, 1 - side)
        if math.log(uniform(random)) < then - now:
            now, side = then, 1 - side
            part.figures[SD], part.figures[RANGE] = sd, reach
    return side


@kernel(allocates=False, entry=True)
def draw_surface(part: Waves, model: Normal, outcome: Outcome, work: Work, first: Int) -> None:
    """Draw the surface's figures given the residual with it in, then its amplitudes.

    Its scalars begin at `first`: the figures, the amplitudes, and the constant of rows elsewhere.
    """
    add_up(part, model)
    part.figures[SD] = outcome.scalars[first] / outcome.step
    part.figures[RANGE] = outcome.scalars[first + 1]
    side = _draw_figures(part, work.random)
    outcome.scalars[first] = part.figures[SD] * outcome.step
    outcome.scalars[first + 1] = part.figures[RANGE]
    terms = len(part.amplitude)
    factor, solved = part.factor[side], part.solved[side]
    for k in range(terms):
        solved[k] += normal(work.random)
    for i in range(terms - 1, -1, -1):
        value = solved[i]
        for k in range(i + 1, terms):
            value -= factor[k, i] * solved[k]
        solved[i] = value / factor[i, i]
        outcome.scalars[first + 2 + i] = part.root[side, i] * solved[i] * outcome.step
    outcome.scalars[first + 2 + terms] = part.figures[SD] * normal(work.random) * outcome.step
    read_amplitudes(part, outcome, first)
    apply_surface(part, model.residual)
    measure_bound(model.residual, model.bound)
    if model.bound[BOUND] > GRID_LIMIT:
        work.pending.state[BROKEN] = 1


@kernel(allocates=False, entry=True)
def read_amplitudes(part: Waves, outcome: Outcome, first: Int) -> None:
    """Take the amplitudes from the scalars, so that a chain which goes on has the same."""
    for k in range(len(part.amplitude)):
        part.amplitude[k] = outcome.scalars[first + 2 + k] / outcome.step
