"""Predictions from draws of figures: one for each row, or one for each row and class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.posterior.posterior import Posterior
from sampler.posterior.posterior_draws import MAX_CELLS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.intervals import IntervalFigures

    Floats = NDArray[np.float64]

BLOCK_ROWS = 1024


class FiguresPosterior(Posterior):
    """A posterior whose answers are made of draws of f, weighted or not, row by row and class by class.

    Attributes
    ----------
    width
        Numbers held for each draw and row while these are evaluated.

    """

    width = 1

    def _fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        chosen, used = self._choose(num_draws)
        share = self.draw_weights.shares(used)
        correction = len(chosen) / max(len(chosen) - 1, 1)
        size = min(BLOCK_ROWS, max(16, MAX_CELLS // (len(chosen) * self.width)))
        for start in range(0, coded.num_rows, size):
            rows = slice(start, min(start + size, coded.num_rows))
            part = coded.part(rows)
            f = self._f(part, used)
            by_row = f.reshape(len(chosen), part.num_rows, -1).transpose(1, 2, 0)
            by_row = np.ascontiguousarray(by_row.reshape(-1, len(chosen)))  # [row and class, draw]
            # A mean lies among its draws, also after rounding: a probability just above 1 is no probability.
            centre = np.clip(by_row @ share, by_row.min(axis=1), by_row.max(axis=1))
            variance = ((by_row - centre[:, None]) ** 2) @ share * correction
            if figures.request.predictive:
                more, bounds = self._outcomes(part, by_row, figures.tails, used)
                variance += more
            else:
                bounds = self.draw_weights.quantiles(by_row, figures.tails, used)
            figures.put(rows, centre, variance, bounds)
        return used

    def _outcomes(self, part: Coded, f: Floats, tails: Floats, used: int) -> tuple[Floats, Floats]:
        """Return the mean variance of a new outcome given a draw [row], and its quantiles [tail, row].

        `f` is float64 [row, draw of any chain], of the first `used` draws of each.
        """
        raise NotImplementedError
