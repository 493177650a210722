"""Student's t noise as normal noise of rows with weights of their own (docs/maths.md#heavy-tails)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.leaf_models.log_linear_pass import ROWS_OF_A_SUM, STEP, exponential, log_gamma
from sampler.kernels.arrays import Float, Floats, Int, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, uniform

MOST_PRODUCT = 1e100  # of factors whose logarithms are taken together


@kernel(allocates=False, entry=True)
def measure_errors(
    log_value: Ints, precision: Floats, residual: Ints, variance: Float, num_rows: Int, squares: Floats
) -> Int:
    """Set every row's squared error over its variance; return the number of rows whose weight is not 0.

    `precision` are weights, float64 [n], empty: all 1; `variance` is that of an error of weight 1.
    """
    seen = np.int64(0)
    for i in range(num_rows):
        weight = precision[i] if len(precision) > 0 else 1.0
        error = float(residual[i])
        squares[i] = weight * error * error / variance * exponential(STEP * float(log_value[i]))
        seen += np.int64(weight > 0.0)
    return seen


@kernel(allocates=False, entry=True)
def draw_degrees(
    squares: Floats, seen: Int, power: Float, grid: Floats, log_prior: Floats, scores: Floats, random: Words
) -> Int:
    """Draw the place of the degrees of freedom on their grid, whatever the rows' scales are.

    `power` is the likelihood's: with it the rows' law is the mixture over scales of the normal density to
    that power.
    """
    largest = -math.inf
    for g in range(len(grid)):
        half = 0.5 * grid[g]
        scores[g] = float(seen) * (
            log_gamma(half + 0.5 * power) - log_gamma(half) - 0.5 * power * math.log(half)
        )
        total = 0.0
        for start in range(0, len(squares), ROWS_OF_A_SUM):
            of_block, product = 0.0, 1.0
            for i in range(start, min(start + ROWS_OF_A_SUM, len(squares))):
                product *= 1.0 + power * squares[i] / grid[g]
                if product > MOST_PRODUCT:
                    of_block += math.log(product)
                    product = 1.0
            total += of_block + math.log(product)
        scores[g] += log_prior[g] - (half + 0.5 * power) * total
        largest = max(largest, scores[g])
    total = 0.0
    for g in range(len(grid)):
        total += math.exp(scores[g] - largest)
    remainder = uniform(random) * total
    for g in range(len(grid)):
        remainder -= math.exp(scores[g] - largest)
        if remainder <= 0.0:
            return g
    return len(grid) - 1


@kernel(allocates=False, entry=True)
def draw_scales(
    squares: Floats, precision: Floats, power: Float, degrees: Float, random: Words, weights: Floats
) -> None:
    """Draw each row's scale given the degrees of freedom, and multiply it with the given weight."""
    for i in range(len(squares)):
        weight = precision[i] if len(precision) > 0 else 1.0
        if weight > 0.0:
            weight *= gamma(random, 0.5 * (degrees + power)) / (0.5 * (degrees + power * squares[i]))
        weights[i] = weight
