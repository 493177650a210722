"""Thresholds between ordered classes, with latent outcomes integrated out (docs/maths.md#ordered-classes)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.state import VALUE, Forest
from sampler.kernels.arrays import Float, Floats, Floats2, Int, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

LEAST = 1e-100  # probability of a class that stands for none
FARTHEST = 1e150  # ratio of products of probabilities whose logarithm is taken


@kernel(allocates=False)
def probability_between(low: Float, high: Float) -> Float:
    """Compute P(low < z < high) of a standard normal z by its smaller tail; either end may be infinite."""
    if low > 0.0:
        p = 0.5 * (math.erfc(math.sqrt(0.5) * low) - math.erfc(math.sqrt(0.5) * high))
    else:
        p = 0.5 * (math.erfc(-math.sqrt(0.5) * high) - math.erfc(-math.sqrt(0.5) * low))
    return max(p, LEAST)


@kernel(allocates=False, entry=True)
def draw_thresholds(
    thresholds: Floats, sds: Floats, by_class: Ints, starts: Ints, residual: Ints, latent: Ints, step: Float,
    power: Float, limits: Floats2, random: Words,
) -> None:  # fmt: skip
    """Draw each threshold given f and the others by a Metropolis step, then set the latent outcomes' limits.

    Their prior is that of class probabilities with a uniform Dirichlet law where f is 0: ordered standard
    normals. It is drawn from where the power is 0.

    Parameters
    ----------
    thresholds
        float64 [K + 1], the first and the last infinite; the others are set.
    sds
        Standard deviations of the proposals, float64 [K + 1].
    by_class, starts
        Rows by class, int32 [n], and where each class begins among them, int32 [K + 1].
    residual, latent
        f is latent - residual, in grid steps, int32 [rows].
    step
        Of the grid.
    power
        Power of the likelihood.
    limits
        float64 [2, n], set: each row's limits in grid steps.
    random
        State of the random numbers.

    """
    last = len(thresholds) - 1
    if power == 0.0:
        for k in range(1, last):
            drawn, place = normal(random), k
            while place > 1 and thresholds[place - 1] > drawn:
                thresholds[place] = thresholds[place - 1]
                place -= 1
            thresholds[place] = drawn
    else:
        for k in range(1, last):
            old = thresholds[k]
            new = old + sds[k] * normal(random)
            chance = -math.log(uniform(random))
            if not thresholds[k - 1] < new < thresholds[k + 1]:
                continue
            log_ratio, ratio = 0.0, 1.0
            for place in range(starts[k - 1], starts[k + 1]):
                i = by_class[place]
                f = step * float(latent[i] - residual[i])
                if place < starts[k]:
                    low = thresholds[k - 1] - f
                    ratio *= probability_between(low, new - f) / probability_between(low, old - f)
                else:
                    high = thresholds[k + 1] - f
                    ratio *= probability_between(new - f, high) / probability_between(old - f, high)
                if not 1.0 / FARTHEST < ratio < FARTHEST:
                    log_ratio += math.log(ratio)
                    ratio = 1.0
            log_ratio += math.log(ratio)
            if chance >= 0.5 * (new * new - old * old) - power * log_ratio:
                thresholds[k] = new
    for k in range(last):
        for place in range(starts[k], starts[k + 1]):
            limits[0, by_class[place]] = thresholds[k] / step
            limits[1, by_class[place]] = thresholds[k + 1] / step


@kernel(allocates=False, entry=True)
def shift_level(
    forest: Forest, thresholds: Floats, variance: Float, latent: Ints, step: Float, random: Words
) -> None:
    """Move all thresholds and all leaves by as much, which no row notices: a draw from the prior.

    Parameters
    ----------
    forest
        The forest; its leaves are set.
    thresholds
        float64 [K + 1], the first and the last infinite; the others are set.
    variance
        Prior variance of a leaf, in squared grid steps.
    latent
        Latent outcomes in grid steps, int32 [rows], set, so that f is still latent - residual.
    step
        Of the grid.
    random
        State of the random numbers.

    """
    trees = len(forest.num_leaves)
    of_all = step * float(trees)  # by how much f moves where each leaf does by a step
    count = pull = 0.0
    for tree in range(trees):
        count += float(forest.num_leaves[tree])
        for slot in range(forest.num_leaves[tree]):
            pull += float(forest.leaf[tree, slot, VALUE])
    pull /= variance
    for k in range(1, len(thresholds) - 1):
        pull += of_all * thresholds[k]
    precision = float(len(thresholds) - 2) * of_all * of_all + count / variance
    drawn = np.int32(np.rint(-pull / precision + normal(random) / math.sqrt(precision)))
    for tree in range(trees):
        for slot in range(forest.num_leaves[tree]):
            forest.leaf[tree, slot, VALUE] += drawn
    for k in range(1, len(thresholds) - 1):
        thresholds[k] += of_all * float(drawn)
    moved = np.int32(trees) * drawn
    for i in range(len(latent)):
        latent[i] += moved
