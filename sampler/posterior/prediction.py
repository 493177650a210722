"""Predictions of rows, with intervals and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.posterior.display.plots import draw_prediction
from sampler.posterior.display.tabular import (
    prediction_card,
    prediction_columns,
    prediction_text,
    to_pandas,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.row_flags import Flag
    from sampler.posterior.intervals import Interval, IntervalKind, Quantile
    from sampler.storage.conformal_table import CalibratedLevel

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PredictionSet:
    """Set of classes of each row at one level, bool [row, class]."""

    level: float
    members: NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Prediction:
    """Predictions of rows.

    Attributes
    ----------
    mean, sd
        float64 [row]; of more than two classes [row, class], as all other arrays.
    intervals, quantiles
        Those requested, in order.
    warnings
        Warnings about the rows.
    draws
        Number of draws per chain used.
    interval
        What `sd`, intervals and quantiles describe: a new outcome ("predictive", or "calibrated" by rows that
        the fit has not seen) or the regression function ("credible").
    flags
        The unusual cells of each row: outside the range of training, unseen levels, missing as never before.
    classes
        Names of the classes, None for numbers; of two, figures are the probability of the second.
    sets
        Prediction sets of classes, one for each level of calibrated predictions.
    claims
        What calibrated intervals or sets promise, one for each level.
    groups
        What `sd`, intervals and quantiles include of intercepts of groups, in words; "" for a model without.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    mean: Floats
    sd: Floats
    intervals: list[Interval]
    quantiles: list[Quantile]
    warnings: list[str]
    draws: int
    interval: IntervalKind
    flags: list[list[Flag]]
    classes: tuple[str, ...] | None = None
    sets: list[PredictionSet] = field(default_factory=list)
    claims: list[CalibratedLevel] = field(default_factory=list)
    groups: str = ""
    labels: Any = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.mean)

    def to_pandas(self) -> Any:
        """Return a data frame [row] with ``mean``, ``sd``, ``lower_90``, ``upper_90`` .. and ``interval``.

        With more than two classes each has its columns: ``mean_setosa``. Prediction sets have a column of
        booleans for each class: ``set_90_setosa``.
        """
        return to_pandas(prediction_columns(self), self.labels)

    def plot(self, ax: Any = None) -> Any:
        """Draw the first intervals by rank with matplotlib, on `ax` or a new figure; return the axes."""
        return draw_prediction(self, ax)

    def __repr__(self) -> str:
        return prediction_text(self)

    def _repr_html_(self) -> str:
        return prediction_card(self)

    @property
    def lower(self) -> Floats:
        """Lower ends, float64 [row], or [level, row] for several levels."""
        return self._ends(1)

    @property
    def upper(self) -> Floats:
        """Upper ends, float64 [row], or [level, row] for several levels."""
        return self._ends(2)

    def _ends(self, part: int) -> Floats:
        ends = [np.asarray(interval[part]) for interval in self.intervals]
        return ends[0] if len(ends) == 1 else np.array(ends).reshape(len(ends), *self.mean.shape)
