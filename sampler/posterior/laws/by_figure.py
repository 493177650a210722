"""Predictions from draws of figures: one for each row, or one for each row and class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.posterior.core.intervals import IntervalFigures
from sampler.posterior.core.row_blocks import MAX_CELLS
from sampler.posterior.laws.law import Law

OutcomeFigures = Callable[[Coded, Floats, Floats, int], tuple[Floats, Floats, Floats | None]]

BLOCK_ROWS = 1024


def fill_by_figure(
    law: Law,
    figures: IntervalFigures,
    coded: Coded,
    num_draws: int | None,
    *,
    width: int = 1,
    outcomes: OutcomeFigures | None = None,
) -> int:
    """Compute the figures of rows from draws of means, weighted or not, row by row and class by class.

    Parameters
    ----------
    law, coded, num_draws
        As for `Law.fill`.
    figures
        Takes the figures.
    width
        Numbers held for each draw and row while these are evaluated.
    outcomes
        Function (rows, means [row, draw], tails, used) -> the mean variance of a new outcome given a draw
        [row], its quantiles [tail, row], and that variance in each draw [row, draw], or None where draws
        have weights; None where there are credible intervals alone.

    Returns
    -------
    int
        Number of draws per chain used.

    """
    chosen, used = law.draws.choose(num_draws)
    share = law.weights.shares(used)
    correction = len(chosen) / max(len(chosen) - 1, 1)
    size = min(BLOCK_ROWS, max(16, MAX_CELLS // (len(chosen) * width)))
    for start in range(0, coded.num_rows, size):
        rows = slice(start, min(start + size, coded.num_rows))
        part = coded.part(rows)
        f = law.mean(part, used)
        by_row = f.reshape(len(chosen), part.num_rows, -1).transpose(1, 2, 0)
        by_row = np.ascontiguousarray(by_row.reshape(-1, len(chosen)))  # [row and class, draw]
        # A mean lies among its draws, also after rounding: a probability just above 1 is no probability.
        centre = np.clip(by_row @ share, by_row.min(axis=1), by_row.max(axis=1))
        variance = ((by_row - centre[:, None]) ** 2) @ share * correction
        if figures.request.predictive:
            assert outcomes is not None
            more, bounds, each = outcomes(part, by_row, figures.tails, used)
            variance += more
            if each is not None:
                figures.judge(rows, by_row, each)
        else:
            bounds = law.weights.quantiles(by_row, figures.tails, used)
        figures.put(rows, centre, variance, bounds)
    return used
