"""Latent variables of counts, and the dispersion of negative binomial ones (docs/maths.md#counts)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.leaf_models.log_linear_pass import (
    ROWS_OF_A_SUM,
    STEP,
    exponential,
    log_gamma,
)
from sampler.kernels.arrays import Bytes, Float, Floats, Int, Ints, Longs, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, normal, uniform


class CountRows(NamedTuple):
    """Rows of counts."""

    y: Floats  # [n], counts
    mean: Floats  # [n], of a row that is no structural zero
    structural: Bytes  # [n], 1 for structural zeros; empty: none


@kernel(allocates=False, entry=True)
def set_means(log_value: Ints, exposure: Floats, num_rows: Int, mean: Floats) -> None:
    """Set every row's mean, its exposure times f; exposures are those times the mean rate."""
    for i in range(num_rows):
        mean[i] = exposure[i] * exponential(STEP * float(log_value[i]))


@kernel(allocates=False, entry=True)
def draw_zeros(
    rows: CountRows, dispersion: Float, latent: Ints, residual: Ints, offset: Float, step: Float,
    power: Float, random: Words,
) -> None:  # fmt: skip
    """Draw which zeros are structural, given the rest with the rows' gamma variables integrated out.

    `dispersion` is infinite for Poisson counts. A structural zero has prior probability Phi(offset + g), g
    the latent outcome less its residual. With a likelihood of power 0 every row's is drawn from the prior.
    """
    y, mean, structural = rows
    for i in range(len(y)):
        structural[i] = 0
        if y[i] > 0.0 and power > 0.0:
            continue
        share = 0.5 * math.erfc(-math.sqrt(0.5) * (offset + step * float(latent[i] - residual[i])))
        if dispersion < math.inf:
            log_zero = dispersion * math.log(dispersion / (dispersion + mean[i]))
        else:
            log_zero = -mean[i]
        other = (1.0 - share) * math.exp(power * log_zero)
        structural[i] = np.uint8(uniform(random) * (share + other) < share)


@kernel(allocates=False, entry=True)
def set_parts(rows: CountRows, dispersion: Float, power: Float, random: Words, part: Floats) -> Float:
    """Set every row's part, its mean times its gamma variable, drawn here; returns their sum.

    A structural zero has part 0.
    """
    y, mean, structural = rows
    total = 0.0
    for start in range(0, len(y), ROWS_OF_A_SUM):
        of_block = 0.0
        for i in range(start, min(start + ROWS_OF_A_SUM, len(y))):
            part[i] = 0.0
            if len(structural) > 0 and structural[i] != 0:
                continue
            part[i] = mean[i]
            if dispersion < math.inf:
                rate = dispersion + power * mean[i]
                part[i] *= gamma(random, dispersion + power * y[i]) / rate
            of_block += part[i]
        total += of_block
    return total


@kernel(allocates=False)
def log_density(dispersion: Float, rows: CountRows, values: Floats, tally: Longs, power: Float) -> Float:
    """Log posterior density of the logarithm of the dispersion, up to a constant.

    Its inverse root is half-normal(0, 1). `tally` has the number of rows, without structural zeros, by
    distinct value of y.
    """
    y, mean, structural = rows
    seen, of_values = np.int64(0), 0.0
    for j in range(len(values)):
        seen += tally[j]
        of_values += float(tally[j]) * log_gamma(dispersion + values[j])
    total = of_values + float(seen) * (dispersion * math.log(dispersion) - log_gamma(dispersion))
    for start in range(0, len(y), ROWS_OF_A_SUM):
        of_block = 0.0
        for i in range(start, min(start + ROWS_OF_A_SUM, len(y))):
            if len(structural) == 0 or structural[i] == 0:
                of_block += (dispersion + y[i]) * math.log(dispersion + mean[i])
        total -= of_block
    return power * total - 0.5 / dispersion - 0.5 * math.log(dispersion)


@kernel(allocates=False, entry=True)
def draw_dispersion(
    dispersion: Float, rows: CountRows, group: Ints, values: Floats, tally: Longs, power: Float, width: Float,
    steps: Int, random: Words,
) -> Float:  # fmt: skip
    """Draw the dispersion by a random walk of its logarithm; the rows' gamma variables are integrated out.

    Parameters
    ----------
    dispersion
        Present value.
    rows
        Counts, their means and marks of structural zeros.
    group
        Place of each row's count in `values`, int32 [n].
    values
        Distinct counts.
    tally
        Room, int64 [value].
    power
        Power of the likelihood.
    width, steps
        Standard deviation of a step, and their number.
    random
        State of the random numbers.

    Returns
    -------
    float
        The value drawn.

    """
    tally[:] = 0
    for i in range(len(rows.y)):
        if len(rows.structural) == 0 or rows.structural[i] == 0:
            tally[group[i]] += 1
    present = log_density(dispersion, rows, values, tally, power)
    for _ in range(steps):
        proposed = dispersion * math.exp(width * normal(random))
        if not 1e-6 < proposed < 1e9:
            continue
        density = log_density(proposed, rows, values, tally, power)
        if math.log(uniform(random)) < density - present:
            dispersion, present = proposed, density
    return dispersion
