"""Probabilities of Student's t from a table."""

from __future__ import annotations

import numpy as np

from sampler.kernels.arrays import Floats, Floats2, Int, Longs
from sampler.kernels.jit import kernel

UNKNOWN = 2.0  # in place of a probability that the table doesn't have


@kernel(allocates=False, entry=True)
def look_up(t: Floats, place: Longs, tail: Floats2, density: Floats2, cells: Int, below: Floats) -> None:
    """Compute probabilities below t by the cubic with the table's values and slopes at both ends of a cell.

    `place` is each value's row of the tables, which have points at 0, 1 / cells, ..; beyond the last the
    probability is `UNKNOWN`.
    """
    last = tail.shape[1] - 1
    for i in range(len(t)):
        scaled = abs(t[i]) * float(cells)
        if not scaled < last:
            below[i] = UNKNOWN
            continue
        cell, k = np.int64(scaled), place[i]
        u = scaled - float(cell)
        low = tail[k, cell]
        step = tail[k, cell + 1] - low
        begin, end = -density[k, cell] / cells, -density[k, cell + 1] / cells
        p = low + u * (begin + u * ((3 * step - 2 * begin - end) + u * (begin + end - 2 * step)))
        below[i] = p if t[i] < 0 else 1 - p
