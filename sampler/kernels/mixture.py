"""Quantiles of mixtures of normals, by root-finding on the distribution function itself.

Draw d contributes Normal(f_d, sigma_d^2). Working on the lower tail only (an upper one is mirrored) keeps
the relative precision of small probabilities. The normal distribution function comes from a table of step
1/64 and its Taylor series, whose derivatives are Hermite polynomials: without exponentials, exact to 1e-13.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sampler.compile import kernel
from sampler.kernels.shapes import array, f8, floats_1, floats_2, i4, void

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.kernels.shapes import Floats

PER_UNIT = 64
REACH = 38  # the lower tail there is 1e-316
NODES = np.arange(-REACH * PER_UNIT, REACH * PER_UNIT + 1) / PER_UNIT
CDF = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in NODES])
DENSITY = np.exp(-0.5 * NODES**2) / math.sqrt(2 * math.pi)
PASSES = 80  # only bisection of a mixture far from normal comes near it
CLOSE = 1e-3  # of the smallest sigma: from there one third-order step is exact to about 1e-12


@kernel(void(floats_1, floats_1, f8, floats_1))
def _sums_at(z_shift: Floats, inverse: Floats, q: float, sums: Floats) -> None:
    """F and its first three derivatives by q, summed over draws, at z = q * inverse - z_shift."""
    total, first, second, third = 0.0, 0.0, 0.0, 0.0
    for d in range(len(inverse)):
        scale = inverse[d]
        z = q * scale - z_shift[d]
        z = min(max(z, -REACH), REACH)
        nearest = np.int64(z * PER_UNIT + (REACH * PER_UNIT + 0.5))
        x = (nearest - REACH * PER_UNIT) * (1 / PER_UNIT)
        t = z - x
        h2 = x * x - 1
        h3 = x * (h2 - 2)
        h4 = x * h3 - 3 * h2
        h5 = x * h4 - 4 * h3
        series = t * (1 - t * (x / 2 - t * (h2 / 6 - t * (h3 / 24 - t * (h4 / 120 - t * (h5 / 720))))))
        density = DENSITY[np.uint64(nearest)]
        total += CDF[np.uint64(nearest)] + density * series
        slope = scale * density * (1 - t * (x - t * (h2 / 2 - t * (h3 / 6))))
        first += slope
        second -= z * scale * slope
        third += (z * z - 1) * scale * scale * slope
    sums[0], sums[1], sums[2], sums[3] = total, first, second, third


@kernel(void(array(i4, 2), f8, floats_1, floats_1, floats_1, floats_2))
def mixture_quantiles(
    steps: NDArray[np.int32],
    step: float,
    sigma: Floats,
    tails: Floats,
    normal: Floats,
    quantiles: NDArray[np.float64],
) -> None:
    """Quantiles [row, level] of the mixtures over draws of Normal(step * steps[row, draw], sigma[draw]^2).

    A level is its tail probability, in (0, 0.5], negative for an upper tail; `normal` is the standard
    normal's quantile at that tail's size.
    """
    num_rows, num_draws = steps.shape
    shift = np.empty(num_draws)
    inverse = 1 / sigma
    sums = np.empty(4)
    mean_variance, close = 0.0, np.inf
    for d in range(num_draws):
        close = min(close, CLOSE * sigma[d])
        mean_variance += sigma[d] * sigma[d] / num_draws
    for row in range(num_rows):
        mean, square = 0.0, 0.0
        for d in range(num_draws):
            mean += step * steps[row, d] / num_draws
        for d in range(num_draws):
            square += (step * steps[row, d] - mean) ** 2 / num_draws
        sd = math.sqrt(square + mean_variance)
        for level in range(len(tails)):
            sign = -1.0 if tails[level] < 0 else 1.0
            wanted = abs(tails[level]) * num_draws
            low, high = np.inf, -np.inf
            for d in range(num_draws):
                centre = sign * (step * steps[row, d] - mean)
                shift[d] = centre * inverse[d]
                own = centre + normal[level] * sigma[d]
                low, high = min(low, own), max(high, own)
            q = min(max(normal[level] * sd, low), high)
            for _ in range(PASSES):
                _sums_at(shift, inverse, q, sums)
                miss = sums[0] - wanted
                low, high = (low, min(high, q)) if miss > 0 else (max(low, q), high)
                newton = -miss / sums[1]
                bend, twist = sums[2] / (2 * sums[1]), sums[3] / (6 * sums[1])
                move = newton * (1 - newton * (bend - newton * (2 * bend * bend - twist)))
                if abs(newton) < close and abs(move) < close:
                    q += move
                    break
                q = q + move if low < q + move < high else 0.5 * (low + high)
                if high - low <= 1e-13 * sd:
                    break
            quantiles[row, level] = mean + sign * q
