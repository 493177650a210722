"""Predictions of rows, with intervals and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.row_flags import Flag, as_text
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import by_class, percent
from sampler.storage.conformal_table import CalibratedLevel

if TYPE_CHECKING:
    from sampler.posterior.core.intervals import Interval, IntervalKind, Quantile


@dataclass(frozen=True)
class PredictionSet:
    """Set of classes of each row at one level, bool [row, class]."""

    level: float
    members: NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Prediction(RowAnswer):
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

    card = "cards:prediction_card"
    text = "cards:prediction_text"

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

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [row]: ``mean``, ``sd``, ``lower_90``, ``upper_90`` .. and ``interval``.

        With more than two classes each has its columns: ``mean_setosa``. Prediction sets have a column of
        booleans for each class: ``set_90_setosa``.
        """
        return by_class(prediction_columns(self), self.classes) | {
            "interval": [self.interval] * len(self.mean)
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the first intervals by rank with matplotlib, on `ax` or a new figure; return the axes."""
        return plot("plots:by_rank", ax, self)

    @property
    def lower(self) -> Floats:
        """Lower ends, float64 [row], or [level, row] for several levels."""
        return self._ends(1)

    @property
    def upper(self) -> Floats:
        """Upper ends, float64 [row], or [level, row] for several levels."""
        return self._ends(2)

    @property
    def cumulative(self) -> Floats:
        """Probabilities of each class or a lower one, float64 [row, class], of ordered classes."""
        p = self.mean if self.mean.ndim == 2 else np.stack([1 - self.mean, self.mean], axis=1)
        return np.cumsum(p, axis=1)

    def _ends(self, part: int) -> Floats:
        ends = [np.asarray(interval[part]) for interval in self.intervals]
        return ends[0] if len(ends) == 1 else np.array(ends).reshape(len(ends), *self.mean.shape)


@dataclass(frozen=True)
class Errors:
    """Monte Carlo standard errors of a prediction: float64 [row] of the mean and of each bound."""

    mean: Floats
    intervals: list[Interval]
    quantiles: list[Quantile]


def prediction_columns(
    prediction: Prediction,
    *,
    only_mean: bool = False,
    errors: Errors | None = None,
    rhat: Floats | None = None,
    samples: Floats | None = None,
    flags: Sequence[Sequence[Flag]] | None = None,
) -> dict[str, Any]:
    """Arrange a prediction as columns by name.

    Parameters
    ----------
    prediction
        The prediction; its intervals become ``lower_90``, ``upper_90`` and so on, its quantiles
        ``quantile_5``, its prediction sets ``set_90``.
    only_mean
        Leave out ``sd``.
    errors
        Monte Carlo errors: ``mcse_mean``, ``mcse_lower_90`` and so on.
    rhat
        float64 [row], column ``rhat``.
    samples
        float64 [row, draw], columns ``draw_1``, ``draw_2`` and so on.
    flags
        Unusual cells of each row, column ``flags``, as text.

    Returns
    -------
    dict
        float64 [row] or [row, class] by name; sets are bool [row, class], ``flags`` is a list of text.

    """
    named: dict[str, Any] = {"mean": prediction.mean}
    if not only_mean:
        named["sd"] = prediction.sd
    named |= _bounds("", prediction)
    named |= {f"set_{percent(each.level)}": each.members for each in prediction.sets}
    if errors is not None:
        named |= {"mcse_mean": errors.mean, **_bounds("mcse_", errors)}
    if rhat is not None:
        named["rhat"] = rhat
    if samples is not None:
        named |= {f"draw_{k + 1}": samples[..., k] for k in range(samples.shape[-1])}
    if flags is not None:
        named["flags"] = [as_text(row) for row in flags]
    return named


def are_finite(prediction: Prediction) -> bool:
    """Tell whether all figures are finite; a target near the largest float64 may overflow.

    Ends of calibrated intervals may be infinite.
    """
    bounds = () if prediction.interval == "calibrated" else (*prediction.intervals, *prediction.quantiles)
    figures = (values for _, *each in bounds for values in each)
    return all(bool(np.isfinite(values).all()) for values in (prediction.mean, prediction.sd, *figures))


def _bounds(prefix: str, estimates: Prediction | Errors) -> dict[str, Floats]:
    bounds = {}
    for level, lower, upper in estimates.intervals:
        bounds[f"{prefix}lower_{percent(level)}"] = lower
        bounds[f"{prefix}upper_{percent(level)}"] = upper
    return bounds | {f"{prefix}quantile_{percent(q)}": values for q, values in estimates.quantiles}
