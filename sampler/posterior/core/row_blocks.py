"""Blocks of rows at which draws are evaluated at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.posterior.core.intervals import RowIndex
from sampler.posterior.kernels.tree_sums import BLOCK

# Rows of a block of sums: were their number a power of two, the values of a row in all draws would share few
# places in the nearest cache, and to put them side by side would take twice as long.
ROWS = BLOCK - 64
MIXTURE_ROWS = 1024 - 64  # at once, where predictions are mixtures of draws that differ by row
MAX_CELLS = 1 << 21  # draws times rows of a block: 8 MB for each of a few arrays


def by_blocks(
    coded: Coded, draws: int, known: Callable[[Coded], NDArray[np.bool_]] | None, *, plain: bool
) -> Iterator[tuple[RowIndex, bool]]:
    """Yield blocks of rows to evaluate at once, and whether f is a whole number of steps at each.

    With `plain` it is, except at rows of new groups, whose intercepts are unknown: `known` tells rows of
    known groups (None: there are no groups).
    """
    room = max(16, MAX_CELLS // draws)
    if known is None or not plain:
        block = min(ROWS if plain else MIXTURE_ROWS, room)
        for start in range(0, coded.num_rows, block):
            yield slice(start, min(start + block, coded.num_rows)), plain
        return
    rows_known = known(coded)
    for of_sums, block in ((True, ROWS), (False, MIXTURE_ROWS)):
        places = np.flatnonzero(rows_known == of_sums)
        for start in range(0, len(places), min(block, room)):
            yield places[start : start + min(block, room)], of_sums


def draws_by_row(values: Floats) -> Floats:
    """Turn values [chain, draw, row] into [row, draw]."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[2]).T)


def spaced(count: int, most: float) -> NDArray[np.int64]:
    """Choose at most `most` of `count` rows, evenly spaced: their positions."""
    return np.unique(np.linspace(0, count - 1, int(min(count, most))).astype(np.int64))
