"""Passes of `sampler.kernels.rows` by all threads of a chain, where it has several."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sampler.kernels.arrays import MISSING, Byte, Bytes, Int
from sampler.kernels.function_pointers import places_of
from sampler.kernels.jit import kernel
from sampler.kernels.rows import code_range, relabel_grown, relabel_pruned
from sampler.kernels.shared.team import CODES, GROWN, PRUNED, Team, is_shared, share

LOW, HIGH, GAPS = 0, 1, 2  # in Team.sums, of a part of a leaf's codes


class GrownLeaf(NamedTuple):
    """Arguments of `relabel_grown`."""

    slots: Bytes
    column: Bytes
    leaf: Byte
    cut: Byte
    side: Byte
    new: Byte


class PrunedLeaf(NamedTuple):
    """Arguments of `relabel_pruned`."""

    slots: Bytes
    keep: Byte
    drop: Byte
    last: Byte


class LeafCodes(NamedTuple):
    """Arguments of `code_range`."""

    slots: Bytes
    column: Bytes
    leaf: Byte
    team: Team


@kernel(inline=True, allocates=False)
def relabel_grown_by(team: Team, of: GrownLeaf) -> None:
    """Give the rows of a leaf that its new rule sends right the new slot."""
    if is_shared(team):
        share(team, GROWN, places_of((of,))[0], len(of.slots))
    else:
        relabel_grown(of.slots, of.column, of.leaf, of.cut, of.side, of.new)


@kernel(inline=True, allocates=False)
def relabel_pruned_by(team: Team, of: PrunedLeaf) -> None:
    """Join a slot to another, and give the last the number that became free."""
    if is_shared(team):
        share(team, PRUNED, places_of((of,))[0], len(of.slots))
    else:
        relabel_pruned(of.slots, of.keep, of.drop, of.last)


@kernel(inline=True, allocates=False)
def code_range_by(team: Team, slots: Bytes, column: Bytes, leaf: Byte) -> tuple[Int, Int, Int]:
    """Lowest and highest present code of a column in a leaf, and whether any is missing there."""
    if not is_shared(team):
        return code_range(slots, column, leaf)
    members = share(team, CODES, places_of((LeafCodes(slots, column, leaf, team),))[0], len(slots))
    low, high, gaps = np.int64(MISSING), np.int64(-1), np.int64(0)
    for k in range(members):
        low, high = min(low, team.sums[k, LOW]), max(high, team.sums[k, HIGH])
        gaps |= team.sums[k, GAPS]
    return low, high, gaps
