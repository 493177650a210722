"""Scale of a treatment's effect, drawn given its forest in two ways (docs/maths.md#treatments)."""

from __future__ import annotations

import math

import numpy as np

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import measure_bound
from sampler.bart.kernels.probit import normal_above
from sampler.bart.kernels.state import VALUE, Forest
from sampler.bart.kernels.tree_tables import slots_of
from sampler.kernels.arrays import Float, Int, Ints, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import normal, uniform

STEPS, WIDTH = 3, 0.5  # of a random walk of the logarithm


@kernel(allocates=False)
def add_trees(forest: Forest, residual: Ints, num_rows: Int, factor: Int) -> None:
    """Add each row's sum of leaves, times `factor`, to the residual."""
    alike = np.int64(0)  # of trees without a split, which most are
    for tree in range(len(forest.num_leaves)):
        if forest.num_leaves[tree] == 1:
            alike += np.int64(forest.leaf[tree, 0, VALUE])
            continue
        slots = slots_of(forest, tree, np.int64(forest.num_leaves[tree]))
        leaf = forest.leaf[tree]
        if slots.wide:
            for i in range(num_rows):
                slot = np.int64(slots.low[i]) + 256 * np.int64(slots.high[i])
                residual[i] += factor * leaf[slot, VALUE]
        else:
            for i in range(num_rows):
                residual[i] += factor * leaf[np.int64(slots.low[i]), VALUE]
    for i in range(num_rows):
        residual[i] += factor * alike


@kernel(allocates=False, entry=True)
def draw_effect_scale(
    forest: Forest, model: Normal, effect: Ints, share: Float, scale: Float, start: Float, random: Words
) -> Float:
    """Draw the standard deviation of the effect, of which the forest is a share, in grid steps.

    First given the leaves, then given these in units of it: then the leaves move with it.

    Parameters
    ----------
    forest
        The forest of the effect.
    model
        Its leaf model, with residuals and weights as its trees see them.
    effect
        Room for the rows, int32 [n].
    share
        What the forest adds up to, in shares of the effect.
    scale
        Scale of the half-normal prior.
    start
        The present standard deviation.
    random
        State of the random numbers.

    Returns
    -------
    float
        The new one.

    """
    trees = len(forest.num_leaves)
    squares = leaves = 0.0
    for tree in range(trees):
        for slot in range(forest.num_leaves[tree]):
            value = float(forest.leaf[tree, slot, VALUE])
            squares += value * value
            leaves += 1.0
    half, precision = 0.5 / (share * share) * float(trees) * squares, 0.5 / (scale * scale)
    present = start
    for _ in range(STEPS):
        proposed = present * math.exp(WIDTH * normal(random))
        gain = (1.0 - leaves) * math.log(proposed / present)
        gain -= half * (1.0 / (proposed * proposed) - 1.0 / (present * present))
        gain -= precision * (proposed * proposed - present * present)
        if math.log(uniform(random)) < gain:
            present = proposed
    effect[:] = 0
    rows = len(effect)
    add_trees(forest, effect, rows, np.int64(1))
    size = cross = 0.0
    for i in range(rows):
        weight = model.noise[UNIT] * float(model.weights[i]) if len(model.weights) > 0 else 1.0
        own = float(effect[i])
        size += weight * own * own
        cross += weight * own * (float(model.residual[i]) + own)
    power = model.noise[LIKELIHOOD] / model.noise[SIGMA2]
    # of the ratio of the new standard deviation to the present one
    total = power * size + present * present / (scale * scale)
    sd = 1.0 / math.sqrt(total)
    mean = power * cross / total
    ratio = mean + sd * normal_above(random, -mean / sd)
    for i in range(rows):
        model.residual[i] += effect[i]
    for tree in range(trees):
        for slot in range(forest.num_leaves[tree]):
            value = ratio * float(forest.leaf[tree, slot, VALUE])
            forest.leaf[tree, slot, VALUE] = np.int32(np.rint(value))
    add_trees(forest, model.residual, rows, np.int64(-1))
    measure_bound(model.residual, model.bound)
    return ratio * present
