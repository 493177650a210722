"""Normal leaves: y less all trees ~ Normal(0, sigma^2 / weight), a leaf value ~ Normal(0, tau^2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sampler.bart.kernels import histograms, pairs
from sampler.bart.kernels.leaf_models import residual_pass, shared_passes
from sampler.bart.kernels.leaf_models.residual_bound import BLOCK, measure_bound, set_bound, widen_bound
from sampler.bart.kernels.state import (
    BROKEN,
    GRID_LIMIT,
    MOST_LEAVES,
    VALUE,
    LeafPair,
    Slots,
    Trial,
    Work,
)
from sampler.kernels import rows
from sampler.kernels.arrays import (
    Bool,
    Byte,
    Bytes,
    Data,
    Float,
    Floats,
    Int,
    Int32,
    Ints,
    Ints2,
    Longs,
    Words,
)
from sampler.kernels.random import normal
from sampler.kernels.shared.team import is_shared

SIGMA2, LIKELIHOOD, UNIT = 0, 1, 2  # places in Normal.noise
TAU2, UNIT2, K_DF, K_SCALE2 = 0, 1, 2, 3  # places in Normal.variance
NOISE_SIZE = 3


class Normal(NamedTuple):
    """Parameters and rows of a forest with normal leaves; forests of one chain share all but `variance`."""

    variance: (
        Floats  # tau^2, grid steps^2; where it is unit^2 / k^2 with k drawn, also [unit^2, K_DF, K_SCALE2]
    )
    noise: Floats  # [3]: sigma^2 of weight 1, grid steps^2; the likelihood's power; what a unit of weight is
    residual: Ints  # [rows], y less all trees, grid steps, up to the pending change of the last tree
    weights: Ints  # [n], in units; empty: all 1
    bound: Longs  # [2], of |residual|, and rows in a block whose sum fits 32 bits
    passes: Longs  # addresses of the fused passes, then of those with weights


def units(model: Normal) -> tuple[Float, Float]:
    """Power of the likelihood x weight of a unit, for sizes and totals alike."""
    unit = model.noise[LIKELIHOOD] * model.noise[UNIT]
    return unit, unit


def partial_sum(_model: Normal, total: Int, count: Int, old: Int32) -> Float:
    """Sum the partial residuals: each row's residual plus the leaf's own value."""
    return float(total + count * old)


def log_evidence(model: Normal, size: Float, total: Float) -> Float:
    """l(node) of docs/maths.md#leaf-prior for weight `size` and weighted partial residual sum `total`."""
    sigma2, tau2 = model.noise[SIGMA2], model.variance[0]
    spread = sigma2 + size * tau2
    return 0.5 * (math.log(sigma2 / spread) + tau2 * total * total / (sigma2 * spread))


def split_gain(
    model: Normal, left_size: Float, left_total: Float, right_size: Float, right_total: Float
) -> Float:
    """l(left) + l(right) - l(both), with one logarithm."""
    sigma2, tau2 = model.noise[SIGMA2], model.variance[0]
    left = sigma2 + left_size * tau2
    right = sigma2 + right_size * tau2
    both = sigma2 + (left_size + right_size) * tau2
    total = left_total + right_total
    fit = left_total * left_total / left + right_total * right_total / right - total * total / both
    return 0.5 * (math.log(sigma2 * both / (left * right)) + tau2 / sigma2 * fit)


def draw_leaf(model: Normal, size: Float, total: Float, random: Words) -> Float:
    """Draw a leaf value from its conditional (docs/maths.md#leaf-prior), not yet rounded to the grid."""
    sigma2, tau2 = model.noise[SIGMA2], model.variance[0]
    spread = sigma2 + size * tau2
    return (tau2 * total + math.sqrt(sigma2 * tau2 * spread) * normal(random)) / spread


def redraw_leaf(model: Normal, size: Float, total: Float, old: Int32, random: Words) -> Float:
    """Draw from the same conditional given the present value (docs/maths.md#over-relaxation).

    The value is reflected at the mean, by the share r of the prior's variance that the data take away.
    """
    sigma2, tau2 = model.noise[SIGMA2], model.variance[0]
    spread = sigma2 + size * tau2
    mean, left = tau2 * total / spread, sigma2 / spread  # left: 1 - r
    spared = left * left * (2.0 - left)  # (1 - r) (1 - r^2)
    return mean - (1.0 - left) * (float(old) - mean) + math.sqrt(tau2 * spared) * normal(random)


def pair_terms(model: Normal, total: Float, size: Float, terms: Floats, factors: Floats) -> None:
    """Evidence of many rules, e^(l(left) + l(right)) = factors e^terms, in place of left sizes and totals."""
    sigma2, tau2 = model.noise[SIGMA2], model.variance[0]
    half = 0.5 * tau2 / sigma2
    for k in range(len(terms)):
        left, right = terms[k], total - terms[k]
        left_spread = sigma2 + factors[k] * tau2
        right_spread = sigma2 + (size - factors[k]) * tau2
        inverse = 1.0 / (left_spread * right_spread)  # one division: they are what this loop costs
        terms[k] = half * inverse * (left * left * right_spread + right * right * left_spread)
        factors[k] = sigma2 * math.sqrt(inverse)


def pair_term(
    model: Normal, left_total: Float, left_size: Float, right_total: Float, right_size: Float
) -> tuple[Float, Float]:
    """Evidence of one rule as term and factor."""
    sigma2, tau2 = model.noise[SIGMA2], model.variance[0]
    left_spread = sigma2 + left_size * tau2
    right_spread = sigma2 + right_size * tau2
    fit = left_total * left_total / left_spread + right_total * right_total / right_spread
    return 0.5 * tau2 / sigma2 * fit, sigma2 / math.sqrt(left_spread * right_spread)


def move_and_sum(model: Normal, work: Work, num_rows: Int, before: Slots, now: Slots, trial: Trial) -> None:
    """Move the residual and sum it, by the quickest of the passes."""
    small = max(before.leaves, now.leaves) <= MOST_LEAVES
    if small and is_shared(work.team) and (len(model.weights) > 0 or model.bound[BLOCK] > 0):
        rows = shared_passes.MovedRows(
            model.passes, model.residual, before.low, before.leaves, work.pending.delta, now.low, now.leaves,
            trial, num_rows, model.weights, model.bound[BLOCK], work.team,
        )  # fmt: skip
        shared_passes.move_together(rows, work.leaves.sums, now.counts)
    elif small and len(model.weights) > 0:
        residual_pass.weighted_pass(
            model.passes,
            model.residual,
            before,
            work.pending.delta,
            now,
            trial,
            num_rows,
            model.weights,
            work.leaves.sums,
        )
    elif small and model.bound[BLOCK] > 0:
        residual_pass.fused_pass(
            model.passes,
            model.residual,
            before,
            work.pending.delta,
            now,
            trial,
            num_rows,
            model.bound[BLOCK],
            work.leaves.sums,
        )
    else:
        residual_pass.scatter_pass(
            model.residual,
            before,
            work.pending.delta,
            now,
            trial,
            model.weights,
            num_rows,
            work.leaves.sums,
            work.leaves.lanes,
        )


def measure(model: Normal) -> None:
    """Measure the bound of the residual."""
    measure_bound(model.residual, model.bound)


def take_out(model: Normal, slots: Slots, leaf: Ints2, num_rows: Int) -> None:
    """Subtract a tree from the residual."""
    for i in range(num_rows):
        slot = np.int64(slots.low[i])
        if slots.wide:
            slot += 256 * np.int64(slots.high[i])
        model.residual[i] -= leaf[slot, VALUE]


def row_values(model: Normal, num_rows: Int, values: Longs) -> None:
    """Find each row's residual times its weight."""
    weighted = len(model.weights) > 0
    for i in range(num_rows):
        values[i] = np.int64(model.residual[i]) * (np.int64(model.weights[i]) if weighted else 1)


def settle(model: Normal, work: Work, num_rows: Int, before: Slots) -> Float:
    """Apply the last change to the residual, and bound it; return its weighted sum of squares."""
    squares, largest = rows.settle(
        model.residual,
        before.low,
        before.high,
        before.wide,
        work.pending.delta,
        before.leaves,
        model.weights,
        num_rows,
    )
    if largest > GRID_LIMIT:
        work.pending.state[BROKEN] = 1
    set_bound(model.bound, largest)
    return model.noise[UNIT] * squares


def widen(model: Normal, change: Int) -> None:
    """Widen the bound of the residual."""
    widen_bound(model.residual, model.bound, change)


def give_back(model: Normal, work: Work, pair: LeafPair) -> None:
    """Add the old values of two leaves to their rows' residual."""
    if is_shared(work.team):
        none = np.uint8(0)
        rows = shared_passes.PairRows(model.residual, pair, pair.slots, none, none, 0)
        shared_passes.reroute_together(work.team, rows)
    else:
        pairs.give_back(model.residual, pair)


def reroute_pair(model: Normal, work: Work, pair: LeafPair, column: Bytes, cut: Byte, side: Byte) -> None:
    """Add the old values of two leaves to their rows' residual, and send the rows by a new rule."""
    if is_shared(work.team):
        rows = shared_passes.PairRows(model.residual, pair, column, cut, side, 1)
        shared_passes.reroute_together(work.team, rows)
    else:
        pairs.reroute_pair(model.residual, pair, column, cut, side)


def left_part(
    model: Normal, pair: LeafPair, column: Bytes, cut: Byte, side: Byte, num_rows: Int
) -> tuple[Int, Int]:
    """Sum of partial residuals and count of the rows of two leaves that a rule sends left."""
    return pairs.left_part(model.residual, model.weights, pair, column, cut, side, num_rows)


def sum_by_code(model: Normal, data: Data, work: Work, pair: LeafPair, own: Int, other: Int) -> Bool:
    """Sum partial residuals and counts by code; count rows apart only where they have weights."""
    first, second, into = data.codes[own], data.codes[other], work.codes
    if is_shared(work.team):
        rows = shared_passes.CodedRows(
            model.residual, model.weights, pair, first, second, data.high[own] + 1, data.high[other] + 1,
            data.num_rows, work.shared,
        )  # fmt: skip
        shared_passes.sum_together(work.team, rows, into)
        return len(model.weights) > 0
    if len(model.weights) > 0:
        histograms.weighted_histograms(
            pair, model.residual, model.weights, first, second, data.num_rows, into
        )
        return True
    histograms.histograms(pair, model.residual, first, second, data.high[own] + 1, data.high[other] + 1, into)
    return False
