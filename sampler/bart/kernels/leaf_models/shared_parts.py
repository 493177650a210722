"""Parts of passes over the rows of normal leaves that the threads of a chain do."""

from __future__ import annotations

from typing import Any

from sampler.bart.kernels.histograms import histograms, rows_of_pair, weighted_histograms
from sampler.bart.kernels.leaf_models.residual_pass import fused_pass, weighted_pass
from sampler.bart.kernels.leaf_models.shared_passes import COUNTS, CodedRows, MovedRows, PairRows
from sampler.bart.kernels.pairs import give_back, reroute_pair
from sampler.bart.kernels.state import CodeSums, Slots, Trial
from sampler.kernels.arrays import Int
from sampler.kernels.jit import pointer_kernel
from sampler.kernels.shared.team import part_signature


def moved_part(at: Any, number: Int, start: Int, stop: Int) -> Int:
    """Move and sum a part of the rows."""
    of: MovedRows = at[0]
    residual, rows = of.residual[start:stop], min(stop, of.num_rows) - start
    sums, counts = of.team.sums[number, :COUNTS], of.team.sums[number, COUNTS:]
    low_before, low_now = of.before[start:stop], of.now[start:stop]
    before = Slots(low_before, low_before, False, of.leaves_before, counts)
    now = Slots(low_now, low_now, False, of.leaves_now, counts)
    trial = Trial(of.trial.column[start:stop], of.trial.leaf, of.trial.cut, of.trial.side)
    if len(of.weights) > 0:
        weights = of.weights[start : start + rows]
        weighted_pass(of.passes, residual, before, of.delta, now, trial, rows, weights, sums)
    else:
        fused_pass(of.passes, residual, before, of.delta, now, trial, rows, of.block, sums)
    return 0


def pair_part(at: Any, _number: Int, start: Int, stop: Int) -> Int:
    """Take old values out of a part of a pair's rows, and send them by a new rule if asked to."""
    of: PairRows = at[0]
    residual, pair = of.residual[start:stop], rows_of_pair(of.pair, start, stop)
    if of.reroutes != 0:
        reroute_pair(residual, pair, of.column[start:stop], of.cut, of.side)
    else:
        give_back(residual, pair)
    return 0


def by_code_part(at: Any, number: Int, start: Int, stop: Int) -> Int:
    """Sum and count a part of a pair's rows by code."""
    of: CodedRows = at[0]
    sums = of.sums
    into = CodeSums(
        sums.values[number], sums.bins[number], sums.sums[number], sums.counts[number], sums.rows[number],
        sums.terms, sums.terms, sums.info,
    )  # fmt: skip
    residual, pair = of.residual[start:stop], rows_of_pair(of.pair, start, stop)
    first, second = of.first[start:stop], of.second[start:stop]
    if len(of.weights) > 0:
        rows = min(stop, of.num_rows) - start
        weighted_histograms(pair, residual, of.weights[start : start + rows], first, second, rows, into)
    else:
        histograms(pair, residual, first, second, of.first_width, of.second_width, into)
    return 0


MOVED_PART = pointer_kernel(__name__, part_signature(MovedRows), moved_part)
PAIR_PART = pointer_kernel(__name__, part_signature(PairRows), pair_part)
BY_CODE_PART = pointer_kernel(__name__, part_signature(CodedRows), by_code_part)
