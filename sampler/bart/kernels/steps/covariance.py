"""The errors' covariance of several outcomes, drawn from an inverse Wishart distribution."""

from __future__ import annotations

import math

import numpy as np

from sampler.kernels.arrays import Float, Floats, Floats2, Int, Ints, Ints2, Longs, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, normal

LOW_BITS = 26  # of a product of residuals, which is added up in two parts: so sums are exact


@kernel(allocates=False, entry=True)
def fill_normals(random: Words, values: Floats) -> None:
    """Fill an array with standard normal variables."""
    for i in range(len(values)):
        values[i] = normal(random)


@kernel(allocates=False, entry=True)
def draw_gamma(random: Words, shape: Float) -> Float:
    """Draw a gamma variable of scale 1."""
    return gamma(random, shape)


@kernel(allocates=False, entry=True)
def find_regression(covariance: Floats2, number: Int, seen: Int, room: Floats2, slopes: Floats) -> Float:
    """Find the slopes of a variable's regression on others; return the variance that is left.

    Gaussian elimination in a fixed order: equal covariances give equal bits on all machines.

    Parameters
    ----------
    covariance
        float64 [variable, variable].
    number
        The variable.
    seen
        The others, bit k for variable k.
    room
        Room for equations, float64 [variable, variable + 1].
    slopes
        The result, float64 [variable], 0 for variables that are not among the others.

    Returns
    -------
    float
        The variance given the others.

    """
    size = len(covariance)
    for i in range(size):
        slopes[i] = 0.0
        if seen >> i & 1:
            for k in range(size):
                room[i, k] = covariance[i, k]
            room[i, size] = covariance[i, number]
    for i in range(size):
        if seen >> i & 1:
            for below in range(i + 1, size):
                if seen >> below & 1:
                    factor = room[below, i] / room[i, i]
                    for k in range(i, size + 1):
                        room[below, k] -= factor * room[i, k]
    left = covariance[number, number]
    for i in range(size - 1, -1, -1):
        if seen >> i & 1:
            rest = room[i, size]
            for k in range(i + 1, size):
                rest -= room[i, k] * slopes[k]  # 0 for the variables left out
            slopes[i] = rest / room[i, i]
            left -= slopes[i] * covariance[number, i]
    return left


@kernel(allocates=False, entry=True)
def regress(residual: Ints2, slopes: Floats, rows: Longs, members: Longs, others: Ints) -> None:
    """Compute what the errors of other outcomes say of an outcome's own, in whole grid steps.

    Parameters
    ----------
    residual
        The errors of all outcomes, int32 [outcome, row].
    slopes
        The slope of each outcome's error, 0 for those that say nothing, float64 [outcome].
    rows
        The rows that have the outcome, int64 [n].
    members
        Those of them to compute, by their places among `rows`.
    others
        The result, int32 [n].

    """
    for i in members:
        total = 0.0
        for k in range(len(slopes)):
            total += slopes[k] * residual[k, rows[i]]
        others[i] = np.int32(np.rint(total))


@kernel(allocates=False, entry=True)
def add_products(residual: Ints2, scatter: Floats2) -> None:
    """Add the errors' sums of squares and products, exactly added up, to a scatter matrix."""
    for j in range(len(residual)):
        for k in range(j + 1):
            high = low = np.int64(0)
            for i in range(residual.shape[1]):
                product = np.int64(residual[j, i]) * np.int64(residual[k, i])
                high += product >> LOW_BITS
                low += product & ((1 << LOW_BITS) - 1)
            total = float(high) * 2.0**LOW_BITS + float(low)
            scatter[j, k] += total
            if j != k:
                scatter[k, j] += total


@kernel(allocates=False, entry=True)
def add_weighted_products(residual: Ints2, weights: Floats, scatter: Floats2) -> None:
    """Add the errors' sums of squares and products by weights, float64 [row], to a scatter matrix.

    The sums are in the order of the rows: equal states give equal bits on all machines.
    """
    for j in range(len(residual)):
        for k in range(j + 1):
            total = 0.0
            for i in range(residual.shape[1]):
                total += weights[i] * (float(residual[j, i]) * float(residual[k, i]))
            scatter[j, k] += total
            if j != k:
                scatter[k, j] += total


@kernel(allocates=False, entry=True)
def draw_covariance(
    scatter: Floats2, degrees: Float, random: Words, root: Floats2, triangle: Floats2, covariance: Floats2
) -> None:
    """Draw a covariance from the inverse Wishart distribution of a scatter matrix and degrees of freedom.

    With scatter L L' and Bartlett's triangle A, whose A A' is a standard Wishart matrix, it is
    L (A A')^-1 L'. The loops are in a fixed order: equal states give equal bits on all machines. `root` and
    `triangle` are room to work in.
    """
    size = len(scatter)
    for i in range(size):
        for j in range(i + 1):
            rest = scatter[i, j]
            for k in range(j):
                rest -= root[i, k] * root[j, k]
            root[i, j] = math.sqrt(rest) if i == j else rest / root[j, j]
    for i in range(size):
        for j in range(i):
            triangle[i, j] = normal(random)
        triangle[i, i] = math.sqrt(2.0 * gamma(random, 0.5 * (degrees - i)))
    for row in range(size):  # a row of L becomes one of L A'^-1, whose square is the covariance
        for i in range(row + 1):
            rest = root[row, i]
            for k in range(i):
                rest -= triangle[i, k] * root[row, k]
            root[row, i] = rest / triangle[i, i]
        for i in range(row + 1, size):
            rest = 0.0
            for k in range(i):
                rest -= triangle[i, k] * root[row, k]
            root[row, i] = rest / triangle[i, i]
    for i in range(size):
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += root[i, k] * root[j, k]
            covariance[i, j] = total
