"""Log-linear leaves: f is a product over trees, with Gamma leaves (docs/maths.md#log-linear-forests).

Given all else, the likelihood of a leaf value is value^r e^(-s value) with r and s added up over its rows: so
a leaf is Gamma(shape + r, rate + s) again. Values are kept as logarithms, in whole steps of STEP.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.leaf_models import log_linear_pass as passes
from sampler.bart.kernels.leaf_models import parts_by_code
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD
from sampler.bart.kernels.leaf_models.residual_pass import byte_leaf, place_of_pass
from sampler.bart.kernels.state import (
    BROKEN,
    MOST_LEAVES,
    VALUE,
    LeafPair,
    Slots,
    Trial,
    Work,
)
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
from sampler.kernels.function_pointers import call_pass

# places in LogLinear.leaf_law: of the Gamma; the log evidence of no rows at all; r of a row of weight 1
SHAPE, RATE, EMPTY, COUNT = 0, 1, 2, 3
LAW_SIZE = 4


class LogLinear(NamedTuple):
    """Parameters and rows of a forest with log-linear leaves."""

    leaf_law: Floats  # [LAW_SIZE], of the leaves; changes with their scale where that is drawn
    noise: Floats  # shared with the chain's other forests; the likelihood's power is in it
    log_value: Ints  # [rows], log f, steps of STEP, up to the pending change of the last tree
    part: Floats  # [rows], what a row adds to s: its rate times f, up to the same
    weights: Ints  # [n], r of each row in units of leaf_law[COUNT]; empty: all 1
    counted: Ints  # [n], the same, or 1 for each row
    scale: Floats  # [1], a power of two: parts are summed as whole multiples of its inverse
    passes: Longs  # addresses of the fused passes
    factors: Floats  # [leaves of any tree], room for a pass
    log_gamma: Floats  # log Gamma(shape + k / 2)


def units(model: LogLinear) -> tuple[Float, Float]:
    """Factors that make a number of rows an r, and a sum of whole parts an s."""
    power = model.noise[LIKELIHOOD]
    return model.leaf_law[COUNT] * power, power / model.scale[0]


def partial_sum(_model: LogLinear, total: Int, _count: Int, old: Int32) -> Float:
    """Sum the rows' parts without this tree, whose value there is `old`."""
    return float(total) * passes.exponential(-passes.STEP * float(old))


def log_evidence(model: LogLinear, size: Float, total: Float) -> Float:
    """l(node) for r `size` and s `total`."""
    return passes.evidence(model.leaf_law, model.log_gamma, size, total) - model.leaf_law[EMPTY]


def split_gain(
    model: LogLinear, left_size: Float, left_total: Float, right_size: Float, right_total: Float
) -> Float:
    """l(left) + l(right) - l(both)."""
    left = passes.evidence(model.leaf_law, model.log_gamma, left_size, left_total)
    right = passes.evidence(model.leaf_law, model.log_gamma, right_size, right_total)
    both = passes.evidence(model.leaf_law, model.log_gamma, left_size + right_size, left_total + right_total)
    return left + right - both - model.leaf_law[EMPTY]


def draw_leaf(model: LogLinear, size: Float, total: Float, random: Words) -> Float:
    """Draw the logarithm of a leaf value from its conditional, in steps, not yet rounded."""
    return passes.draw_log_value(model.leaf_law, size, total, random)


def redraw_leaf(model: LogLinear, size: Float, total: Float, _old: Int32, random: Words) -> Float:
    """Draw from the conditional, whatever the present value."""
    return passes.draw_log_value(model.leaf_law, size, total, random)


def pair_terms(model: LogLinear, total: Float, size: Float, terms: Floats, factors: Floats) -> None:
    """From the left parts' totals and sizes: l(left) + l(right) as terms, up to a constant; factors 1."""
    unit = model.leaf_law[COUNT] * model.noise[LIKELIHOOD]
    passes.pair_evidences(model.leaf_law, model.log_gamma, unit, total, size, terms, factors)


def pair_term(
    model: LogLinear, left_total: Float, left_size: Float, right_total: Float, right_size: Float
) -> tuple[Float, Float]:
    """Evidence of one rule as term and factor."""
    left = passes.evidence(model.leaf_law, model.log_gamma, left_size, left_total)
    return left + passes.evidence(model.leaf_law, model.log_gamma, right_size, right_total), 1.0


def move_and_sum(
    model: LogLinear, work: Work, num_rows: Int, before: Slots, now: Slots, trial: Trial
) -> None:
    """Move the rows and sum their parts; where these have outgrown the scale, sum by a coarser one."""
    delta, sums = work.pending.delta, work.leaves.sums
    passes.set_factors(delta, before.leaves, model.factors)
    if max(before.leaves, now.leaves) <= MOST_LEAVES:
        arguments = (
            model.part, model.log_value, before.low, model.factors, delta, now.low, trial.column,
            byte_leaf(trial), trial.cut, trial.side, num_rows, model.counted, model.scale[0], sums,
        )  # fmt: skip
        call_pass(model.passes[place_of_pass(before, now, trial)], arguments)
    else:
        passes.move_and_scatter(model, num_rows, before, delta, now, trial, sums)
    while passes.outgrown(work.leaves.sums, now.leaves):
        model.scale[0] /= passes.COARSER
        passes.sum_parts(model, num_rows, now, trial, work.leaves.sums)


def measure(_model: LogLinear) -> None:
    """Do nothing: the scale is chosen at the start of a sweep (`log_linear_pass.choose_scale`)."""


def take_out(model: LogLinear, slots: Slots, leaf: Ints2, num_rows: Int) -> None:
    """Add a tree to the rows' log f."""
    for i in range(num_rows):
        slot = np.int64(slots.low[i])
        if slots.wide:
            slot += 256 * np.int64(slots.high[i])
        model.log_value[i] += leaf[slot, VALUE]


def row_values(model: LogLinear, num_rows: Int, values: Longs) -> None:
    """Round each row's part to whole units."""
    for i in range(num_rows):
        values[i] = passes.whole(model.part[i], model.scale[0])


def settle(model: LogLinear, work: Work, num_rows: Int, before: Slots) -> Float:
    """Apply the last change to the rows' log f; their parts are computed anew before the next sweep."""
    if passes.settle(model.log_value, num_rows, before, work.pending.delta) > passes.LOG_LIMIT:
        work.pending.state[BROKEN] = 1
    return 0.0


def widen(_model: LogLinear, _change: Int) -> None:
    """Do nothing: sums of parts are watched in each pass."""


def give_back(model: LogLinear, _work: Work, pair: LeafPair) -> None:
    """Divide the rows of two leaves by their old values."""
    passes.give_back(model.part, model.log_value, pair)


def reroute_pair(model: LogLinear, _work: Work, pair: LeafPair, column: Bytes, cut: Byte, side: Byte) -> None:
    """Divide the rows of two leaves by their old values, and send the rows by a new rule."""
    passes.give_back(model.part, model.log_value, pair)
    passes.reroute(pair, column, cut, side)


def left_part(
    model: LogLinear, pair: LeafPair, column: Bytes, cut: Byte, side: Byte, num_rows: Int
) -> tuple[Int, Int]:
    """Sum of parts without this tree, and number of the rows of two leaves that a rule sends left."""
    return passes.left_part(model.part, model.weights, model.scale[0], pair, column, cut, side, num_rows)


def sum_by_code(model: LogLinear, data: Data, work: Work, pair: LeafPair, own: Int, other: Int) -> Bool:
    """Sum parts without this tree and count by code; count rows apart only where they have weights."""
    parts_by_code.sum_by_code(
        model.part, model.weights, model.scale[0], pair, data.codes[own], data.codes[other], data.num_rows,
        work.codes,
    )  # fmt: skip
    return len(model.weights) > 0
