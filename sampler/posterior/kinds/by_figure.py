"""Predictions from draws of figures: one for each row, or one for each row and class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.data.row_flags import by_row as flags_by_row
from sampler.posterior.intervals import Interval, Quantile, Request
from sampler.posterior.posterior import MAX_CELLS, Posterior, Prediction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.encode import Coded

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

    def _predict(self, coded: Coded, request: Request, num_draws: int | None) -> Prediction:
        chosen, used = self._choose(num_draws)
        several = self.classes is not None and len(self.classes) > 2
        shape = (coded.num_rows, len(self.classes or ())) if several else (coded.num_rows,)
        mean, sd = np.empty(shape), np.empty(shape)
        bounds = np.empty((len(request.tails), *shape))
        share = self.draw_weights.shares(used)
        size = min(BLOCK_ROWS, max(16, MAX_CELLS // (len(chosen) * self.width)))
        for start in range(0, coded.num_rows, size):
            rows = slice(start, min(start + size, coded.num_rows))
            part = coded.part(rows)
            f = self._f(part, used)
            by_row = f.reshape(len(chosen), part.num_rows, -1).transpose(1, 2, 0)
            by_row = np.ascontiguousarray(by_row.reshape(-1, len(chosen)))  # [row and class, draw]
            centre = by_row @ share
            correction = len(chosen) / max(len(chosen) - 1, 1)
            variance = ((by_row - centre[:, None]) ** 2) @ share * correction
            if request.kind == "predictive":
                more, found = self._outcomes(part, by_row, request.tails, used)
                variance += more
            else:
                found = self.draw_weights.quantiles(by_row, request.tails, used)
            mean[rows] = centre.reshape(-1, *shape[1:])
            sd[rows] = np.sqrt(variance).reshape(-1, *shape[1:])
            bounds[:, rows] = found.reshape(len(request.tails), part.num_rows, *shape[1:])
        ends = 2 * len(request.levels)
        return Prediction(
            mean,
            sd,
            [Interval(v, bounds[2 * i], bounds[2 * i + 1]) for i, v in enumerate(request.levels)],
            [Quantile(q, bounds[ends + i]) for i, q in enumerate(request.quantiles)],
            list(coded.warnings),
            used,
            request.kind,
            flags_by_row(coded.marks, self.schema.columns),
        )

    def _outcomes(self, part: Coded, f: Floats, tails: Floats, used: int) -> tuple[Floats, Floats]:
        """Return the mean variance of a new outcome given a draw [row], and its quantiles [tail, row].

        `f` is float64 [row, draw of any chain], of the first `used` draws of each.
        """
        raise NotImplementedError
