"""Intervals calibrated by rows that the model was not fitted to (docs/maths.md#calibrated-intervals)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import SettingsError
from sampler.posterior.assessment.predictive import Predictive
from sampler.posterior.intervals import Interval, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.posterior.assessment.scoring import LabelledRows
    from sampler.posterior.posterior_draws import PosteriorDraws
    from sampler.posterior.prediction import Prediction

    Floats = NDArray[np.float64]

TWO_SIDED_ROWS = 200  # from so many on, either tail has its own share
FARTHEST = 1e-12  # tail probability beyond which an end is infinite
BATCH_ROWS = 500


@dataclass(frozen=True)
class CoverageClaim:
    """Statement on calibrated intervals of one level.

    Attributes
    ----------
    level
        The level asked for.
    rows
        Number of calibration rows.
    at_least
        Expected share of new outcomes inside, at least.
    text
        The same in words.

    """

    level: float
    rows: int
    at_least: float
    text: str


@dataclass(frozen=True)
class CalibratedIntervals:
    """Split-conformal intervals of a posterior (Vovk, Gammerman and Shafer 2005).

    Attributes
    ----------
    posterior
        The posterior.
    below
        Predictive probability of values below the outcome of each calibration row, float64 [row].

    """

    posterior: PosteriorDraws
    below: Floats

    @classmethod
    def of(cls, posterior: PosteriorDraws, rows: LabelledRows) -> CalibratedIntervals:
        """Calibrate by rows that the posterior was not fitted to.

        Raises
        ------
        SettingsError
            For classes, which have no intervals.

        """
        if posterior.classes is not None:
            raise SettingsError(
                "calibrate: classes have no predictive intervals", field=None, code="not_applicable"
            )
        below = np.empty(len(rows.y))
        for batch, part in rows.batches(BATCH_ROWS):
            below[batch] = Predictive.of(posterior, part.coded, part.weights).below(part.y)
        return cls(posterior, below)

    def predict(
        self, X: Any, level: float | Sequence[float] = 0.9, num_draws: int | None = None
    ) -> Prediction:
        """Predict rows with calibrated intervals; an end is infinite where no finite one can be claimed.

        Parameters
        ----------
        X
            Rows, as for `Posterior.predict`.
        level
            Expected share of new outcomes inside, one or several.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.

        Raises
        ------
        SettingsError
            For levels that need more calibration rows.

        """
        levels = Request.check(level, "predictive", None).levels
        ends = [end for each in levels for end in self.quantiles(each)]
        finite = sorted({end for end in ends if FARTHEST < end < 1 - FARTHEST})
        said = self.posterior.predict(X, level=None, quantiles=finite or None, num_draws=num_draws)
        infinite = np.full(len(said.mean), np.inf)
        values = {quantile.q: quantile.values for quantile in said.quantiles}
        bounds = [values.get(end, -infinite if end < 0.5 else infinite) for end in ends]
        intervals = [Interval(v, bounds[2 * i], bounds[2 * i + 1]) for i, v in enumerate(levels)]
        return replace(said, intervals=intervals, quantiles=[])

    def quantiles(self, level: float) -> tuple[float, float]:
        """Return the predictive quantiles that are the ends of intervals of that level.

        Raises
        ------
        SettingsError
            For a level that needs more calibration rows.

        """
        count, miss = len(self.below), 1 - level
        if math.ceil((count + 1) * level - 1e-9) > count:
            least = math.ceil(1 / miss - 1e-9) - 1
            raise SettingsError(
                f"level {level:g} takes at least {least} calibration rows, and there are {count}",
                field="level",
                code="out_of_range",
            )
        if count < TWO_SIDED_ROWS:
            distance = np.sort(np.abs(self.below - 0.5))[math.ceil((count + 1) * level - 1e-9) - 1]
            return 0.5 - float(distance), 0.5 + float(distance)
        ranked = np.sort(self.below)
        first = math.floor((count + 1) * miss / 2 + 1e-9)
        last = math.ceil((count + 1) * (1 - miss / 2) - 1e-9)
        return (
            float(ranked[first - 1]) if first > 0 else 0.0,
            float(ranked[last - 1]) if last <= count else 1.0,
        )

    def claim(self, level: float = 0.9) -> CoverageClaim:
        """Return what may be claimed of intervals of that level; raises as `quantiles`."""
        self.quantiles(level)
        count = len(self.below)
        text = (
            f"Of new rows like the {count} calibration rows, at least {level:.4g} fall inside on average. "
            "That is not so for each value of the features, nor if rows come to differ, nor for f."
        )
        return CoverageClaim(level, count, level, text)
