"""The draw of classes' linear parts: Hamiltonian steps of all slopes, latent rates integrated out.

Slopes are drawn in a basis in which the terms are orthogonal. There the log likelihood's curvature is at most
half the terms' squares, whatever the forests say (Boehning 1992), so that step sizes need no tuning.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.leaf_models.log_linear_pass import STEP, exponential
from sampler.kernels.arrays import Float, Floats, Floats2, Ints2, Words
from sampler.kernels.dot_product import dot
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

LEAPS = 3  # of a trajectory
SHORTEST, LONGEST = 0.6, 1.2  # leap, in units of the scale that a quarter of the squares gives
SCALE_STEPS, STRETCHES = 5, 2  # of the slopes' standard deviation, and of slopes with it
FARTHEST = 1e6  # the standard deviation stays within this factor of its scale
LARGEST = float(1 << 29)  # a slope, and a row's linear part, in steps


class ClassLines(NamedTuple):
    """Terms of the rows in a rotated basis, the classes' slopes, and room to work."""

    basis: Floats2  # [term, n], rotation' z; padding rows are 0
    rotation: Floats2  # [term, term], orthogonal
    squares: Floats  # [term], sums over rows of the basis' squares
    slope: Ints2  # [class, term], of the terms themselves, in steps
    shift: Ints2  # [class, n], the linear part as log_value has it, in steps
    is_class: Ints2  # [class, n]
    spread: Floats  # [1], the slopes' standard deviation
    base: Floats2  # [class, n], log share and log f
    value: Floats2  # [class, n], log odds, then probabilities less whether it is the class
    at: Floats2  # [class, term], slopes in the basis
    moved: Floats2  # [class, term], where a trajectory ends
    momentum: Floats2  # [class, term]
    slant: Floats2  # [class, term], slope of the log density
    largest: Floats  # [n]
    total: Floats  # [n]
    scale: Float  # of the half-Cauchy prior of the standard deviation


@kernel(allocates=False, entry=True)
def sum_squares(part: ClassLines) -> None:
    """Set `squares`."""
    for j in range(len(part.basis)):
        part.squares[j] = dot(part.basis[j], part.basis[j])


@kernel(allocates=False, entry=True)
def apply_lines(part: ClassLines, log_value: Ints2) -> None:
    """Enter the linear parts of the present slopes, instead of the former, into log f; set `at` by them."""
    classes, terms = part.slope.shape
    num_rows = part.is_class.shape[1]
    for k in range(classes):
        for j in range(terms):
            part.at[k, j] = 0.0
            for l in range(terms):  # noqa: E741
                part.at[k, j] += part.rotation[l, j] * (STEP * float(part.slope[k, l]))
        _add_line(part, part.at[k], part.value[k], 0.0)
        for i in range(num_rows):
            shift = np.int32(np.rint(min(max(part.value[k, i] / STEP, -LARGEST), LARGEST)))
            log_value[k, i] += shift - part.shift[k, i]
            part.shift[k, i] = shift


@kernel(allocates=False)
def _add_line(part: ClassLines, slopes: Floats, out: Floats, keep: Float) -> None:
    """Set `out` [n] to `keep` times itself plus the linear part of slopes in the basis."""
    for i in range(len(out)):
        out[i] *= keep
    for j in range(len(slopes)):
        slope, values = slopes[j], part.basis[j]
        for i in range(len(out)):
            out[i] += slope * values[i]


@kernel(allocates=False)
def _log_likelihood(part: ClassLines, slopes: Floats2, factor: Float) -> Float:
    """Compute the log likelihood of `factor` times the slopes, and probabilities into `value`."""
    classes, num_rows = part.is_class.shape
    rows = part.value.shape[1]
    for k in range(classes):
        value = part.value[k]
        value[:] = 0.0
        _add_line(part, slopes[k], value, 1.0)
        base = part.base[k]
        for i in range(rows):
            value[i] = base[i] + factor * value[i]
    likelihood = 0.0
    for i in range(rows):
        part.largest[i] = part.value[0, i]
        part.total[i] = 0.0
    for k in range(1, classes):
        for i in range(rows):
            part.largest[i] = max(part.largest[i], part.value[k, i])
    for k in range(classes):
        for i in range(num_rows):
            if part.is_class[k, i]:
                likelihood += part.value[k, i] - part.largest[i]
        for i in range(rows):
            part.value[k, i] = exponential(part.value[k, i] - part.largest[i])
            part.total[i] += part.value[k, i]
    for i in range(num_rows):
        likelihood -= math.log(part.total[i])
    return likelihood


@kernel(allocates=False)
def _find_slant(part: ClassLines, slopes: Floats2, power: Float) -> Float:
    """Set `slant` to that of the log density at these slopes; return the log density."""
    classes, terms = slopes.shape
    num_rows, rows = part.is_class.shape[1], part.value.shape[1]
    density = power * _log_likelihood(part, slopes, 1.0)
    tight = 1.0 / (part.spread[0] * part.spread[0])
    for k in range(classes):
        value = part.value[k]
        for i in range(rows):
            value[i] /= part.total[i]
        for i in range(num_rows):
            value[i] -= float(part.is_class[k, i])
        for j in range(terms):
            part.slant[k, j] = -power * dot(value, part.basis[j]) - tight * slopes[k, j]
            density -= 0.5 * tight * slopes[k, j] * slopes[k, j]
    return density


@kernel(allocates=False)
def _move(part: ClassLines, power: Float, random: Words) -> None:
    """Draw momenta, and go along a trajectory to its end, or stay."""
    classes, terms = part.slope.shape
    tight = 1.0 / (part.spread[0] * part.spread[0])
    before = _find_slant(part, part.at, power)
    leap = SHORTEST + (LONGEST - SHORTEST) * uniform(random)
    for k in range(classes):
        for j in range(terms):
            mass = 0.25 * power * part.squares[j] + tight
            start = normal(random)
            before -= 0.5 * start * start
            part.momentum[k, j] = math.sqrt(mass) * start
            part.moved[k, j] = part.at[k, j]
    after = 0.0
    for step in range(LEAPS):
        for k in range(classes):
            for j in range(terms):
                mass = 0.25 * power * part.squares[j] + tight
                part.momentum[k, j] += (0.5 if step == 0 else 1.0) * leap * part.slant[k, j]
                part.moved[k, j] += leap * part.momentum[k, j] / mass
        after = _find_slant(part, part.moved, power)
    for k in range(classes):
        for j in range(terms):
            mass = 0.25 * power * part.squares[j] + tight
            end = part.momentum[k, j] + 0.5 * leap * part.slant[k, j]
            after -= 0.5 * end * end / mass
    if math.log(uniform(random)) < after - before:
        for k in range(classes):
            for j in range(terms):
                part.at[k, j] = part.moved[k, j]


@kernel(allocates=False)
def _draw_spread(part: ClassLines, power: Float, random: Words) -> None:
    """Draw the standard deviation given the slopes, then both along the ray through them."""
    classes, terms = part.slope.shape
    squares, count, spread = 0.0, float(classes * terms), part.spread[0]
    for k in range(classes):
        for j in range(terms):
            squares += part.at[k, j] * part.at[k, j]
    for step in range(SCALE_STEPS):
        other = spread * math.exp(10.0 ** (-0.5 * step) * normal(random))
        gain = count * math.log(spread / other) + 0.5 * squares * (1.0 / spread**2 - 1.0 / other**2)
        if math.log(uniform(random)) < gain + _log_prior(other, part.scale) - _log_prior(spread, part.scale):
            spread = other
    stretch, now = 1.0, power * _log_likelihood(part, part.at, 1.0)
    for step in range(STRETCHES):
        other = stretch * math.exp(0.3 * 10.0 ** (-0.5 * step) * normal(random))
        then = power * _log_likelihood(part, part.at, other)
        gain = _log_prior(spread * other, part.scale) - _log_prior(spread * stretch, part.scale)
        if math.log(uniform(random)) < then - now + gain:
            stretch, now = other, then
    part.spread[0] = spread * stretch
    for k in range(classes):
        for j in range(terms):
            part.at[k, j] *= stretch


@kernel(allocates=False, entry=True)
def draw_lines(part: ClassLines, log_value: Ints2, log_share: Floats, power: Float, random: Words) -> None:
    """Draw the slopes and their standard deviation given the forests, and enter them into log f."""
    classes, terms = part.slope.shape
    num_rows = part.is_class.shape[1]
    for k in range(classes):
        for i in range(num_rows):
            part.base[k, i] = log_share[k] + STEP * float(log_value[k, i] - part.shift[k, i])
    _move(part, power, random)
    _draw_spread(part, power, random)
    for k in range(classes):
        for l in range(terms):  # noqa: E741
            slope = 0.0
            for j in range(terms):
                slope += part.rotation[l, j] * part.at[k, j]
            part.slope[k, l] = np.int32(np.rint(min(max(slope / STEP, -LARGEST), LARGEST)))
    apply_lines(part, log_value)


@kernel(allocates=False)
def _log_prior(spread: Float, scale: Float) -> Float:
    """Compute the log density of the log of the standard deviation: half-Cauchy, cut off far out."""
    share = spread / scale
    if not 1.0 / FARTHEST < share < FARTHEST:
        return -math.inf
    return math.log(share) - math.log1p(share * share)
