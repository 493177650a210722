"""Quantiles of mixtures of normals, by root-finding on the distribution function itself.

Draw d contributes Normal(f_d, sigma_d^2). Working on the lower tail only (an upper one is mirrored) keeps
the relative precision of small probabilities. The normal distribution function comes from a table of step
1/128 and its Taylor series, whose derivatives are Hermite polynomials: without exponentials, exact to 1e-14,
and at six standard deviations to 1e-10 of its size.
"""

from __future__ import annotations

import math

import numpy as np

from sampler.kernels.arrays import Float, Floats, Floats2, Ints2
from sampler.kernels.jit import kernel

PER_UNIT = 128
REACH = 38  # the lower tail there is 1e-316
NODES = np.arange(-REACH * PER_UNIT, REACH * PER_UNIT + 1) / PER_UNIT
CDF = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in NODES])
DENSITY = np.exp(-0.5 * NODES**2) / math.sqrt(2 * math.pi)
PASSES = 80  # only bisection of a mixture far from normal comes near it
CLOSE = 2e-3  # of the smallest sigma: from there one third-order step is exact to about 1e-11
LANES = 64
LAST = len(NODES) - 1


@kernel(allocates=False)
def _sums_at(shift: Floats, inverse: Floats, q: Float, lanes: Floats2, sums: Floats) -> None:
    """F and its first three derivatives by q, summed over draws, at z = q * inverse - shift.

    Sums run in lanes [4, LANES], so that the loop is vectorised and its order is always the same.
    """
    num_draws = len(inverse)
    for k in range(4):
        for lane in range(LANES):
            lanes[k, lane] = 0.0
    for start in range(0, num_draws, LANES):
        first = np.uint64(start)  # an index that can't be negative: else the loop isn't vectorised
        for lane in range(np.uint64(min(LANES, num_draws - start))):
            scale = inverse[first + lane]
            z = min(max(q * scale - shift[first + lane], -float(REACH)), float(REACH))
            nearest = np.int32(z * PER_UNIT + (REACH * PER_UNIT + 0.5))
            nearest = min(max(nearest, np.int32(0)), np.int32(LAST))  # whatever z is, NaN too
            x = np.float64(nearest - np.int32(REACH * PER_UNIT)) * (1 / PER_UNIT)
            t = z - x
            h2 = x * x - 1
            h3 = x * (h2 - 2)
            density = DENSITY[np.uint32(nearest)]
            series = t * (1 - t * (x * (1 / 2) - t * (h2 * (1 / 6) - t * (h3 * (1 / 24)))))
            slope = scale * density * (1 - t * (x - t * (h2 * (1 / 2) - t * (h3 * (1 / 6)))))
            bend = z * scale
            lanes[0, lane] += CDF[np.uint32(nearest)] + density * series
            lanes[1, lane] += slope
            lanes[2, lane] -= slope * bend
            lanes[3, lane] += slope * (bend * bend - scale * scale)
    for k in range(4):
        sums[k] = 0.0
        for lane in range(LANES):
            sums[k] += lanes[k, lane]


@kernel(allocates=False)
def _moments(centre: Floats, sigma: Floats, moments: Floats) -> None:
    """Compute standard deviation, skewness and excess kurtosis of a mixture with mean zero."""
    second, third, fourth = 0.0, 0.0, 0.0
    for d in range(len(centre)):
        f2, s2 = centre[d] * centre[d], sigma[d] * sigma[d]
        second += f2 + s2
        third += centre[d] * (f2 + 3 * s2)
        fourth += f2 * f2 + 6 * f2 * s2 + 3 * s2 * s2
    variance = second / len(centre)
    moments[0] = math.sqrt(variance)
    moments[1] = third / len(centre) / (variance * moments[0])
    moments[2] = fourth / len(centre) / (variance * variance) - 3


@kernel(entry=True)
def mixture_quantiles(
    steps: Ints2,
    step: Float,
    sigma: Floats,
    tails: Floats,
    normal: Floats,
    quantiles: Floats2,
) -> None:
    """Quantiles [row, level] of the mixtures over draws of Normal(step * steps[row, draw], sigma[draw]^2).

    A level is its tail probability, in (0, 0.5], negative for an upper tail; `normal` is the standard
    normal's quantile at that tail's size.
    """
    num_rows, num_draws = steps.shape
    inverse, centre, shift = np.empty(num_draws), np.empty(num_draws), np.empty(num_draws)
    lanes = np.empty((4, LANES))
    moments, sums = np.empty(3), np.empty(4)
    least_sigma = most_sigma = sigma[0]
    for d in range(num_draws):  # loops, since numba takes as long for an array's minimum as for all of this
        inverse[d] = 1.0 / sigma[d]
        least_sigma, most_sigma = min(least_sigma, sigma[d]), max(most_sigma, sigma[d])
    close = CLOSE * least_sigma
    for row in range(num_rows):
        total = np.int64(0)
        least = most = steps[row, 0]
        for d in range(num_draws):
            total += steps[row, d]
            least, most = min(least, steps[row, d]), max(most, steps[row, d])
        mean = total / num_draws
        for d in range(num_draws):
            centre[d] = step * (steps[row, d] - mean)
        _moments(centre, sigma, moments)
        for level in range(len(tails)):
            sign = -1.0 if tails[level] < 0 else 1.0
            target = abs(tails[level]) * num_draws
            u = normal[level]
            for d in range(num_draws):
                shift[d] = sign * centre[d] * inverse[d]
            near, far = sign * step * (least - mean), sign * step * (most - mean)
            low, high = min(near, far) + u * most_sigma, max(near, far) + u * least_sigma  # u <= 0
            # Cornish and Fisher's start: the normal quantile, corrected for skewness and kurtosis
            skew, excess = sign * moments[1], moments[2]
            corrected = (u * u - 1) * skew / 6 + u * (u * u - 3) * excess / 24
            corrected -= u * (2 * u * u - 5) * skew * skew / 36
            q = min(max(moments[0] * (u + corrected), low), high)
            for _ in range(PASSES):
                _sums_at(shift, inverse, q, lanes, sums)
                miss = sums[0] - target
                low, high = (low, min(high, q)) if miss > 0 else (max(low, q), high)
                newton = -miss / sums[1]
                bend, twist = sums[2] / (2 * sums[1]), sums[3] / (6 * sums[1])
                move = newton * (1 - newton * (bend - newton * (2 * bend * bend - twist)))
                if abs(newton) < close and abs(move) < close:
                    q += move
                    break
                q = q + move if low < q + move < high else 0.5 * (low + high)
                if high - low <= 1e-13 * moments[0]:
                    break
            quantiles[row, level] = step * mean + sign * q
