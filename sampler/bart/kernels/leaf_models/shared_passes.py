"""Passes over the rows of normal leaves by all threads of a chain (`sampler.kernels.shared`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sampler.bart.kernels.state import MOST_LEAVES, TRIAL, CodeSums, LeafPair, SharedSums, Trial
from sampler.kernels.arrays import MISSING, Byte, Bytes, Int, Ints, Longs
from sampler.kernels.function_pointers import places_of
from sampler.kernels.jit import kernel
from sampler.kernels.shared.team import BY_CODE, MOVED, PAIR, Team, share

COUNTS = 16  # in Team.sums, of the leaves' weights


class MovedRows(NamedTuple):
    """Arguments of the fused passes."""

    passes: Longs
    residual: Ints
    before: Bytes  # slots of the previous tree, which has so many leaves
    leaves_before: Int
    delta: Ints
    now: Bytes
    leaves_now: Int
    trial: Trial
    num_rows: Int
    weights: Ints
    block: Int
    team: Team


class PairRows(NamedTuple):
    """Arguments of the passes that take a pair's old values out, and by a new rule if `reroutes`."""

    residual: Ints
    pair: LeafPair
    column: Bytes
    cut: Byte
    side: Byte
    reroutes: Int  # not Bool: a tuple in memory that has one is no argument of a part


class CodedRows(NamedTuple):
    """Arguments of the sums by code."""

    residual: Ints
    weights: Ints
    pair: LeafPair
    first: Bytes
    second: Bytes
    first_width: Int
    second_width: Int
    num_rows: Int
    sums: SharedSums


@kernel(allocates=False)
def move_together(of: MovedRows, sums: Longs, counts: Longs) -> None:
    """Move the residual and sum it by leaf; weights are counted by leaf, too."""
    members = share(of.team, MOVED, places_of((of,))[0], len(of.residual))
    for k in range(TRIAL + MOST_LEAVES):
        total = np.int64(0)
        for number in range(members):
            total += of.team.sums[number, k]
        sums[k] = total
    if len(of.weights) > 0:
        for k in range(MOST_LEAVES):
            total = np.int64(0)
            for number in range(members):
                total += of.team.sums[number, COUNTS + k]
            counts[k] = total


@kernel(allocates=False)
def reroute_together(team: Team, of: PairRows) -> None:
    """Take a pair's old values out of its rows, and send them by a new rule if `reroutes`."""
    share(team, PAIR, places_of((of,))[0], len(of.residual))


@kernel(inline=True, allocates=False)
def add_parts(of: CodedRows, which: Int, code: Int, members: Int, into: CodeSums) -> None:
    """Add up what the threads summed of one code."""
    total, count, rows = np.int64(0), np.int64(0), np.int64(0)
    for number in range(members):
        total += of.sums.sums[number, which, code]
        count += of.sums.counts[number, which, code]
        rows += of.sums.rows[number, which, code]
    into.sums[which, code], into.counts[which, code], into.rows[which, code] = total, count, rows


@kernel(allocates=False)
def sum_together(team: Team, of: CodedRows, into: CodeSums) -> None:
    """Sum partial residuals and counts by code of two columns."""
    members = share(team, BY_CODE, places_of((of,))[0], len(of.residual))
    for which in range(2):
        for code in range(of.first_width if which == 0 else of.second_width):
            add_parts(of, which, code, members, into)
        add_parts(of, which, MISSING, members, into)
