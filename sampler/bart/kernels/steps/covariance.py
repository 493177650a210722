"""The errors' covariance of several outcomes, drawn from an inverse Wishart distribution."""

from __future__ import annotations

import math

import numpy as np

from sampler.kernels.arrays import Float, Floats, Floats2, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, normal


@kernel(allocates=False, entry=True)
def fill_normals(random: Words, values: Floats) -> None:
    """Fill an array with standard normal variables."""
    for i in range(len(values)):
        values[i] = normal(random)


@kernel(entry=True)
def draw_covariance(scatter: Floats2, degrees: Float, random: Words, covariance: Floats2) -> None:
    """Draw a covariance from the inverse Wishart distribution of a scatter matrix and degrees of freedom.

    With scatter L L' and Bartlett's triangle A, whose A A' is a standard Wishart matrix, it is
    L (A A')^-1 L'. The loops are in a fixed order: equal states give equal bits on all machines.
    """
    size = len(scatter)
    root, triangle, solved = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
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
    for column in range(size):  # A solved = L', so that the covariance is solved' solved
        for i in range(size):
            rest = root[column, i]
            for k in range(i):
                rest -= triangle[i, k] * solved[k, column]
            solved[i, column] = rest / triangle[i, i]
    for i in range(size):
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += solved[k, i] * solved[k, j]
            covariance[i, j] = total
