"""A mixture of normals as normal noise of rows with labels (docs/maths.md#mixtures-of-normals)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.leaf_models.log_linear_pass import exponential
from sampler.kernels.arrays import Bytes, Float, Floats, Floats2, Int, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, normal, uniform

SHARE, MEAN, SD = 0, 1, 2  # rows of the components' parameters
COUNT, TOTAL, SQUARE = 0, 1, 2  # rows of their sums
LEAST = 1e-300  # share of a component
BLOCK = 64  # rows that are scored together
LEAST_FACTOR = 1e-12
ROUNDED = 2.0**24  # grid steps that a mean may lie from 0


@kernel(allocates=False, entry=True)
def draw_labels(
    residual: Ints, parts: Floats2, power: Float, random: Words, scores: Floats2, label: Bytes, sums: Floats2
) -> None:
    """Draw each row's component, and sum over the rows of each: 1, the residual and its square.

    `parts` are shares, means and sds [3, component] in grid steps; `scores` is room, [component + 2, BLOCK]:
    loops over the rows of a block vectorise.
    """
    count = parts.shape[1]
    largest, point = scores[count], scores[count + 1]
    sums[:] = 0.0
    for start in range(0, len(label), BLOCK):
        size = min(BLOCK, len(label) - start)
        for j in range(size):
            largest[j] = -math.inf
            point[j] = float(residual[start + j])
        for k in range(count):
            score, mean, inverse = scores[k], parts[MEAN, k], 1.0 / parts[SD, k]
            constant = math.log(max(parts[SHARE, k], LEAST)) + power * math.log(inverse)
            for j in range(size):
                z = (point[j] - mean) * inverse
                score[j] = constant - 0.5 * power * z * z
                largest[j] = max(largest[j], score[j])
        for k in range(count):
            score = scores[k]
            for j in range(size):
                score[j] = exponential(score[j] - largest[j])
        for k in range(1, count):
            score, before = scores[k], scores[k - 1]
            for j in range(size):
                score[j] += before[j]
        total = scores[count - 1]
        for j in range(size):
            point[j] = uniform(random) * total[j]
            largest[j] = 0.0
        for k in range(count - 1):
            score = scores[k]
            for j in range(size):
                largest[j] += np.float64(score[j] < point[j])
        for j in range(size):
            chosen = np.int64(largest[j])
            value = float(residual[start + j])
            label[start + j] = np.uint8(chosen)
            sums[COUNT, chosen] += 1.0
            sums[TOTAL, chosen] += value
            sums[SQUARE, chosen] += value * value


@kernel(allocates=False, entry=True)
def sum_residuals(residual: Ints, label: Bytes, sums: Floats2) -> None:
    """Give all rows to the first component, and sum as `draw_labels`."""
    sums[:] = 0.0
    for i in range(len(label)):
        value = float(residual[i])
        label[i] = 0
        sums[TOTAL, 0] += value
        sums[SQUARE, 0] += value * value
    sums[COUNT, 0] = float(len(label))


@kernel(allocates=False)
def _draw_one(
    sums: Floats2, k: Int, power: Float, nu: Float, scale: Float, pull: Float, random: Words, parts: Floats2
) -> None:
    """Draw sd and mean of one component; `scale` is nu times the scale of its variance."""
    size = power * sums[COUNT, k]
    spread = pull + size
    middle = power * sums[TOTAL, k] / spread
    rest = max(power * sums[SQUARE, k] - spread * middle * middle, 0.0)
    variance = (scale + rest) / (2.0 * gamma(random, 0.5 * (nu + size)))
    parts[SD, k] = math.sqrt(variance)
    mean = np.rint(middle + math.sqrt(variance / spread) * normal(random))
    parts[MEAN, k] = max(-ROUNDED, min(ROUNDED, mean))


@kernel(allocates=False, entry=True)
def draw_components(
    sums: Floats2, power: Float, nu: Float, scale: Float, factor: Float, pull: Float, concentration: Float,
    random: Words, parts: Floats2,
) -> Float:  # fmt: skip
    """Draw shares, means and sds given the rows' labels; return the factor of the variances' scale.

    sd^2 ~ nu scale factor / chi^2_nu, where factor ~ chi^2_1; a mean of sd s ~ Normal(0, s^2 / pull), rounded
    to the grid; shares ~ Dirichlet of `concentration` each. The factor is drawn given the components that
    have rows, the others given it.
    """
    count = parts.shape[1]
    shape, rate = 0.5, 0.5
    for k in range(count):
        if power * sums[COUNT, k] > 0.0:
            _draw_one(sums, k, power, nu, nu * scale * factor, pull, random, parts)
            shape += 0.5 * nu
            rate += 0.5 * nu * scale / (parts[SD, k] * parts[SD, k])
    factor = max(gamma(random, shape) / rate, LEAST_FACTOR)
    total = 0.0
    for k in range(count):
        if power * sums[COUNT, k] <= 0.0:
            _draw_one(sums, k, 0.0, nu, nu * scale * factor, pull, random, parts)
        seen = sums[COUNT, k] if power > 0.0 else 0.0
        parts[SHARE, k] = max(gamma(random, concentration + seen), LEAST)
        total += parts[SHARE, k]
    for k in range(count):
        parts[SHARE, k] /= total
    return factor


@kernel(allocates=False, entry=True)
def take_out(residual: Ints, parts: Floats2, label: Bytes, variance: Float, weights: Floats) -> None:
    """Subtract from each row's residual the mean of its component, and weigh it by its variance.

    `variance` is that of a row of weight 1.
    """
    for i in range(len(label)):
        k = label[i]
        residual[i] -= np.int32(parts[MEAN, k])
        weights[i] = variance / (parts[SD, k] * parts[SD, k])


@kernel(allocates=False, entry=True)
def put_back(residual: Ints, parts: Floats2, label: Bytes) -> None:
    """Add to each row's residual the mean of its component."""
    for i in range(len(label)):
        residual[i] += np.int32(parts[MEAN, label[i]])
