"""Thresholds between ordered classes, with latent outcomes integrated out (docs/maths.md#ordered-classes)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.state import VALUE, Forest
from sampler.bart.kernels.tree_tables import num_present
from sampler.kernels.arrays import Float, Floats, Floats2, Int, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

LEAST = 1e-100  # probability of a class that stands for none
FARTHEST = 1e150  # ratio of products of probabilities whose logarithm is taken


F, SIDE, LOW, HIGH, NEW = 0, 1, 2, 3, 4  # rows of the room for a draw of thresholds
ROOM = 5


@kernel(allocates=False, inline=True)
def tail(x: Float, side: Float) -> Float:
    """Compute P(z > x) of a standard normal z for side 1, P(z < x) for side -1; x may be infinite."""
    return 0.5 * math.erfc(side * math.sqrt(0.5) * x)


@kernel(allocates=False, inline=True)
def between(low: Float, high: Float, side: Float) -> Float:
    """Compute the probability between two thresholds from their tails."""
    return max(side * (low - high), LEAST)


@kernel(allocates=False, entry=True)
def draw_thresholds(
    thresholds: Floats, sds: Floats, by_class: Ints, starts: Ints, residual: Ints, latent: Ints, step: Float,
    power: Float, room: Floats2, limits: Floats2, random: Words,
) -> None:  # fmt: skip
    """Draw each threshold given f and the others, and set the limits of the latent outcomes.

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
    room
        float64 [ROOM, n].
    limits
        float64 [2, n], set: each row's limits in grid steps.
    random
        State of the random numbers.

    """
    last = len(thresholds) - 1
    if power == 0.0:
        draw_prior(thresholds, random)
    else:
        for k in range(last):
            low, high = thresholds[k], thresholds[k + 1]
            for place in range(starts[k], starts[k + 1]):
                i = by_class[place]
                f = step * float(latent[i] - residual[i])
                side = 1.0 if low > f else -1.0  # of the smaller tail
                room[F, place], room[SIDE, place] = f, side
                room[LOW, place], room[HIGH, place] = tail(low - f, side), tail(high - f, side)
        for k in range(1, last):
            propose_threshold(thresholds, k, sds[k], starts, power, room, random)
    for k in range(last):
        for place in range(starts[k], starts[k + 1]):
            limits[0, by_class[place]] = thresholds[k] / step
            limits[1, by_class[place]] = thresholds[k + 1] / step


@kernel(allocates=False)
def draw_prior(thresholds: Floats, random: Words) -> None:
    """Draw the thresholds from their prior: standard normals in order.

    Class probabilities where f is 0 then have a uniform Dirichlet law.
    """
    for k in range(1, len(thresholds) - 1):
        drawn, place = normal(random), k
        while place > 1 and thresholds[place - 1] > drawn:
            thresholds[place] = thresholds[place - 1]
            place -= 1
        thresholds[place] = drawn


@kernel(allocates=False)
def propose_threshold(
    thresholds: Floats, k: Int, sd: Float, starts: Ints, power: Float, room: Floats2, random: Words
) -> None:
    """Propose another threshold k by a Metropolis step: only rows of the classes beside it matter."""
    old = thresholds[k]
    new = old + sd * normal(random)
    chance = -math.log(uniform(random))
    if not thresholds[k - 1] < new < thresholds[k + 1]:
        return
    log_ratio, ratio = 0.0, 1.0
    for place in range(starts[k - 1], starts[k + 1]):
        low, high, side = room[LOW, place], room[HIGH, place], room[SIDE, place]
        moved = tail(new - room[F, place], side)
        room[NEW, place] = moved
        if place < starts[k]:
            ratio *= between(low, moved, side) / between(low, high, side)
        else:
            ratio *= between(moved, high, side) / between(low, high, side)
        if not 1.0 / FARTHEST < ratio < FARTHEST:
            log_ratio += math.log(ratio)
            ratio = 1.0
    log_ratio += math.log(ratio)
    if chance < 0.5 * (new * new - old * old) - power * log_ratio:
        return
    thresholds[k] = new
    for place in range(starts[k - 1], starts[k]):
        room[HIGH, place] = room[NEW, place]
    for place in range(starts[k], starts[k + 1]):
        room[LOW, place] = room[NEW, place]


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
    trees = num_present(forest)
    if trees == 0:
        return
    of_all = step * float(trees)  # by how much f moves where each leaf does by a step
    count = pull = 0.0
    for tree in range(len(forest.num_leaves)):
        count += float(forest.num_leaves[tree])
        for slot in range(forest.num_leaves[tree]):
            pull += float(forest.leaf[tree, slot, VALUE])
    pull /= variance
    for k in range(1, len(thresholds) - 1):
        pull += of_all * thresholds[k]
    precision = float(len(thresholds) - 2) * of_all * of_all + count / variance
    drawn = np.int32(np.rint(-pull / precision + normal(random) / math.sqrt(precision)))
    for tree in range(len(forest.num_leaves)):
        for slot in range(forest.num_leaves[tree]):
            forest.leaf[tree, slot, VALUE] += drawn
    for k in range(1, len(thresholds) - 1):
        thresholds[k] += of_all * float(drawn)
    moved = np.int32(trees) * drawn
    for i in range(len(latent)):
        latent[i] += moved
