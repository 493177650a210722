"""The linear part's draw: tau with the slopes integrated out, then the slopes, in a basis that parts them.

Where rows have weights the basis does so roughly only, and tau is drawn given the slopes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import BOUND, measure_bound
from sampler.bart.kernels.state import BROKEN, GRID_LIMIT, Work
from sampler.kernels.arrays import Float, Floats, Floats2, Int, Ints, Longs, Words, i8, numba_type
from sampler.kernels.dot_product import dot
from sampler.kernels.function_pointers import store_members
from sampler.kernels.jit import kernel, pointer_kernel
from sampler.kernels.random import normal, uniform

TAU, FIRST_SLOPE = 1, 2  # places in Outcome.scalars
BLOCK = 1024  # rows summed together
STEPS = 5  # of tau, and of the stretch, each smaller than the one before
MOST_TURNS = 30  # of the search for a basis
FARTHEST = 1e6  # tau stays within this factor of its scale


class LinearPart(NamedTuple):
    """Terms of the rows in a rotated basis, and what is derived of the slopes: the rows' linear part."""

    basis: Floats2  # [term, n], rotation' z
    rotation: Floats2  # [term, term], orthogonal
    fit: Floats  # [n], slopes' z, grid steps
    shift: Ints  # [n], the same rounded: what the residual lacks
    rest: Floats  # [n], room to work
    turned: Floats  # [term], the slopes in the basis, grid steps
    product: Floats  # [term], sums over rows of the basis x what the trees leave of y
    square: Floats  # [term], of the basis squared, once for all (`sum_squares`)
    scale: Float  # of tau's half-Cauchy prior, grid steps
    step: Float  # of the grid
    scalars: Floats  # of the chain (`Outcome`): tau and the slopes, in units of y


@kernel(allocates=False, entry=True)
def find_rotation(gram: Floats2, rotation: Floats2) -> None:
    """Find the eigenvectors of a symmetric matrix, in columns, by Jacobi's method; the matrix is overwritten.

    Own code, since the last digits of a library's would be those of one kind of processor.
    """
    count = len(gram)
    for i in range(count):
        for j in range(count):
            rotation[i, j] = 1.0 if i == j else 0.0
    for _ in range(MOST_TURNS):
        beside, total = 0.0, 0.0
        for i in range(count):
            total += gram[i, i] * gram[i, i]
            for j in range(i):
                beside += gram[i, j] * gram[i, j]
        if beside <= 1e-28 * total:
            return
        for p in range(count - 1):
            for q in range(p + 1, count):
                if gram[p, q] == 0.0:
                    continue
                theta = 0.5 * (gram[q, q] - gram[p, p]) / gram[p, q]
                tangent = 1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0))
                if theta < 0.0:
                    tangent = -tangent
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for k in range(count):
                    a, b = gram[k, p], gram[k, q]
                    gram[k, p], gram[k, q] = cosine * a - sine * b, sine * a + cosine * b
                for k in range(count):
                    a, b = gram[p, k], gram[q, k]
                    gram[p, k], gram[q, k] = cosine * a - sine * b, sine * a + cosine * b
                    a, b = rotation[k, p], rotation[k, q]
                    rotation[k, p], rotation[k, q] = cosine * a - sine * b, sine * a + cosine * b


@kernel(allocates=False, entry=True)
def sum_products(z: Floats2, gram: Floats2) -> None:
    """Sum products of terms over rows."""
    count, num_rows = z.shape
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for row in range(num_rows):
                total += z[i, row] * z[j, row]
            gram[i, j] = gram[j, i] = total


@kernel(allocates=False, entry=True)
def turn_terms(z: Floats2, rotation: Floats2, basis: Floats2) -> None:
    """Compute rotation' z."""
    for j in range(len(basis)):
        out = basis[j]
        out[:] = 0.0
        for k in range(len(z)):
            factor, values = rotation[k, j], z[k]
            for i in range(len(out)):
                out[i] += factor * values[i]


@kernel(allocates=False, entry=True)
def apply_slopes(part: LinearPart, residual: Ints) -> None:
    """Take the linear part of the present slopes, instead of the former, out of the residual.

    It depends on the slopes alone, whatever they were before.
    """
    count, num_rows = part.basis.shape
    for j in range(count):
        part.turned[j] = 0.0
        for k in range(count):
            part.turned[j] += part.rotation[k, j] * part.scalars[FIRST_SLOPE + k]
        part.turned[j] /= part.step
    part.fit[:] = 0.0
    for j in range(count):
        slope, values = part.turned[j], part.basis[j]
        for i in range(num_rows):
            part.fit[i] += slope * values[i]
    for i in range(num_rows):
        shift = np.int32(np.rint(min(max(part.fit[i], -4.0 * GRID_LIMIT), 4.0 * GRID_LIMIT)))
        residual[i] += part.shift[i] - shift
        part.shift[i] = shift


@kernel(allocates=False, entry=True)
def sum_squares(part: LinearPart) -> None:
    """Sum the squares of each term of the basis."""
    for j in range(len(part.basis)):
        part.square[j] = dot(part.basis[j], part.basis[j])


@kernel(allocates=False)
def _weighted_sums(one: Floats, other: Floats, weights: Ints) -> tuple[Float, Float]:
    """Sum weight x one x other, and weight x one^2, block by block: the order is always the same."""
    product, square = 0.0, 0.0
    for start in range(0, len(one), BLOCK):
        stop = min(start + BLOCK, len(one))
        of_product, of_square = 0.0, 0.0
        if len(weights) > 0:
            for i in range(start, stop):
                weighted = float(weights[i]) * one[i]
                of_product += weighted * other[i]
                of_square += weighted * one[i]
        else:
            for i in range(start, stop):
                of_product += one[i] * other[i]
                of_square += one[i] * one[i]
        product += of_product
        square += of_square
    return product, square


@kernel(allocates=False)
def _power(model: Normal) -> Float:
    """Precision that a unit of weight gives a row."""
    unit = model.noise[UNIT] if len(model.weights) > 0 else 1.0
    return model.noise[LIKELIHOOD] * unit / model.noise[SIGMA2]


@kernel(allocates=False)
def draw_without_weights(part: LinearPart, model: Normal, tau: Float, random: Words) -> Float:
    """Draw tau, from the one before, with the slopes integrated out, then the slopes; return tau."""
    power = _power(model)
    for i in range(len(part.rest)):
        part.rest[i] = float(model.residual[i] + part.shift[i])
    for j in range(len(part.basis)):
        part.product[j] = dot(part.basis[j], part.rest)
    now = _log_density(part, power, tau)
    for k in range(STEPS):
        other = tau * math.exp(10.0 ** (0.5 - 0.5 * k) * normal(random))
        then = _log_density(part, power, other)
        if math.log(uniform(random)) < then - now:
            tau, now = other, then
    for j in range(len(part.basis)):
        precision = 1.0 / (tau * tau) + power * part.square[j]
        part.turned[j] = power * part.product[j] / precision + normal(random) / math.sqrt(precision)
    return tau


@kernel(allocates=False)
def _log_density(part: LinearPart, power: Float, tau: Float) -> Float:
    """Compute the log density of log tau given the sums, slopes integrated out, up to a constant."""
    variance, log_p = tau * tau, _log_prior(tau, part.scale)
    for j in range(len(part.product)):
        more, pull = power * part.square[j] * variance, power * part.product[j]
        log_p += 0.5 * (variance * pull * pull / (1.0 + more) - math.log1p(more))
    return log_p


@kernel(allocates=False)
def draw_slopes(part: LinearPart, model: Normal, tau: Float, random: Words) -> Float:
    """Draw the slopes in the basis given tau; return their sum of squares. `rest` is what all leave of y."""
    power = _power(model)
    count, num_rows = part.basis.shape
    for i in range(num_rows):
        part.rest[i] = float(model.residual[i] + part.shift[i]) - part.fit[i]
    squares = 0.0
    for j in range(count):
        values = part.basis[j]
        product, square = _weighted_sums(values, part.rest, model.weights)
        before = part.turned[j]
        precision = 1.0 / (tau * tau) + power * square
        slope = power * (product + before * square) / precision + normal(random) / math.sqrt(precision)
        for i in range(num_rows):
            part.rest[i] -= (slope - before) * values[i]
        part.turned[j] = slope
        squares += slope * slope
    return squares


@kernel(allocates=False)
def draw_linear_part(part: LinearPart, model: Normal, work: Work) -> None:
    """Draw tau and the slopes given trees and noise, and note whether a row has left the grid."""
    count = len(part.basis)
    before = part.scalars[TAU] / part.step
    if len(model.weights) == 0:
        tau, stretch = draw_without_weights(part, model, before, work.random), 1.0
    else:
        tau, stretch = _draw_with_weights(part, model, before, work.random)
    part.scalars[TAU] = tau * stretch * part.step
    for k in range(count):
        slope = 0.0
        for j in range(count):
            slope += part.rotation[k, j] * part.turned[j]
        part.scalars[FIRST_SLOPE + k] = slope * stretch * part.step
    apply_slopes(part, model.residual)
    measure_bound(model.residual, model.bound)
    if model.bound[BOUND] > GRID_LIMIT:
        work.pending.state[BROKEN] = 1


def _draw_at(at_part: Any, at_model: Any, at_work: Any) -> Int:
    """Draw as above, called by its address: so that the compiled sweep need not contain it."""
    draw_linear_part(at_part[0], at_model[0], at_work[0])
    return 0


_pointer: Any = types.CPointer
DRAW_LINE = pointer_kernel(
    __name__, i8(*(_pointer(numba_type(kind)) for kind in (LinearPart, Normal, Work))), _draw_at
)


@kernel(allocates=False, entry=True)
def store_part(part: LinearPart, room: Longs) -> Int:
    """Store a linear part for `DRAW_LINE`, its address first; return how long `room` has to be."""
    return store_members((part,), room)


@kernel(allocates=False)
def _draw_with_weights(part: LinearPart, model: Normal, tau: Float, random: Words) -> tuple[Float, Float]:
    """Draw the slopes given tau, then tau given the slopes, then a factor of both; return tau and the factor.

    The last moves tau freely where the outcomes say little, the one before where they say much.
    """
    count, num_rows = part.basis.shape
    squares = draw_slopes(part, model, tau, random)
    for k in range(STEPS):
        other = tau * math.exp(10.0 ** (-0.5 * k) * normal(random))
        gain = count * math.log(tau / other) + 0.5 * squares * (1.0 / (tau * tau) - 1.0 / (other * other))
        if math.log(uniform(random)) < gain + _log_prior(other, part.scale) - _log_prior(tau, part.scale):
            tau = other
    for i in range(num_rows):
        part.fit[i] = float(model.residual[i] + part.shift[i]) - part.rest[i]
    product, square = _weighted_sums(part.fit, part.rest, model.weights)
    power, stretch = _power(model), 1.0
    for k in range(STEPS):
        other = stretch * math.exp(10.0 ** (-0.5 * k) * normal(random))
        # of the squares of rest + fit less the stretched fit
        gain = power * ((other - stretch) * (product + square) - 0.5 * (other**2 - stretch**2) * square)
        gain += _log_prior(tau * other, part.scale) - _log_prior(tau * stretch, part.scale)
        if math.log(uniform(random)) < gain:
            stretch = other
    return tau, stretch


@kernel(allocates=False)
def _log_prior(tau: Float, scale: Float) -> Float:
    """Compute the log density of log tau, up to a constant: half-Cauchy, cut off far out."""
    share = tau / scale
    if not 1.0 / FARTHEST < share < FARTHEST:
        return -math.inf
    return math.log(share) - math.log1p(share * share)
