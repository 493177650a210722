"""Intervals and prediction sets calibrated by rows that the fit has not seen (split-conformal prediction)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.scalars import counted
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.families import FAMILIES
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.core.intervals import Interval, Request
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import predict, predict_by_row
from sampler.posterior.refusals import check
from sampler.posterior.results.prediction import Prediction, PredictionSet
from sampler.storage.conformal_table import CalibratedLevel
from sampler.subgroups.declaration import Subgroup
from sampler.subgroups.membership import columns_of

FARTHEST = 1e-12  # tail probability beyond which an end is infinite
BATCH_ROWS = 500


def conformity(law: Law, rows: LabelledRows, before: Callable[[], None] = lambda: None) -> Floats:
    """Score rows that the posterior was not fitted to, float64 [row].

    The predictive probability of values below each outcome (of counts randomised between those below and up
    to it); of classes what decides whether a set has the row's own (`membership`), 0 for one that the model
    doesn't know. `before` is called before each batch of rows. Raises SettingsError for a model of censored
    outcomes.
    """
    check("calibration", law)
    law = law.before_recalibration  # so that no row is used twice for one statement
    scores = np.zeros(len(rows.y))
    for batch, part in rows.batches(BATCH_ROWS):
        before()
        if law.classes is None:
            scores[batch] = law.outcome_law(part.coded, part.weights).below(part.y)
            continue
        p = membership(law, probabilities(predict(law, part.coded, level=None)))
        own = part.y.astype(np.int64)
        known = np.flatnonzero(own < p.shape[1])
        scores[batch.start + known] = p[known, own[known]]
    return np.clip(scores, 0.0, 1.0)


def subgroups_of(law: Law, coded: Coded, subgroups: Sequence[Subgroup]) -> NDArray[np.uint64]:
    """Return the named subgroups of rows as bits, uint64 [row].

    Raises DataError where the rows came without a column by which they belong to subgroups.
    """
    if coded.subgroups is not None:
        return coded.subgroups
    if coded.num_rows:
        known = {*law.schema.kinds}
        check_columns(subgroups, known if {*columns_of(subgroups)} - known else ())
    return np.zeros(coded.num_rows, np.uint64)


def check_columns(subgroups: Sequence[Subgroup], names: Collection[str]) -> None:
    """Raise DataError where rows with these columns lack some by which they belong to subgroups."""
    detail = "calibrated intervals hold in subgroups by this column: send it, with empty cells where unknown"
    problems = [DataProblem(name, None, detail) for name in columns_of(subgroups) if name not in names]
    if problems:
        raise DataError(problems)


def least_probabilities(law: Law, coded: Any, level: CalibratedLevel) -> Floats:
    """Return the least probability of a class in a set, float64 [row or 1, class or 1]; raises DataError."""
    if level.cells is None:
        return np.full((1, 1), level.least_probability or 0.0)
    least = level.cells.of_rows(subgroups_of(law, coded, level.cells.subgroups))
    count = len(law.classes or ())
    lacking = count - least.shape[1]  # classes that no calibration row has; others are not the model's
    return least if least.shape[1] == 1 else np.pad(least, ((0, 0), (0, max(lacking, 0))))[:, :count]


def _predict_in_subgroups(
    law: Law, coded: Coded, levels: Sequence[CalibratedLevel], num_draws: int | None
) -> Prediction:
    """Predict rows of numbers with ends by the subgroups of each: those of one cell together."""
    claimed = [each.cells for each in levels if each.cells is not None]
    bits, part = np.unique(subgroups_of(law, coded, claimed[0].subgroups), return_inverse=True)
    different = np.concatenate([cells.of_rows(bits) for cells in claimed], axis=1)
    is_finite = (different > FARTHEST) & (different < 1 - FARTHEST)
    asked = np.where(is_finite, different, 0.5) if len(different) else np.full((1, 2 * len(levels)), 0.5)
    prediction = predict_by_row(law, coded, asked, part, num_draws)
    bounds = [quantile.values for quantile in prediction.quantiles]
    for j, values in enumerate(bounds):
        values[~is_finite[part, j]] = np.inf if j % 2 else -np.inf
    intervals = [Interval(each.level, *bounds[2 * i : 2 * i + 2]) for i, each in enumerate(levels)]
    warnings = list(prediction.warnings)
    if endless := int(np.count_nonzero(~is_finite[part].any(axis=1))):
        rows = counted(endless, "row")
        warnings.append(f"{rows}: too few calibration rows tell of their subgroups for finite intervals")
    figures = replace(prediction, interval="calibrated", quantiles=[], claims=list(levels))
    return replace(figures, intervals=intervals, warnings=warnings)


def probabilities(prediction: Prediction) -> Floats:
    """Arrange the mean probabilities of classes as [row, class], also of two."""
    mean = prediction.mean
    return mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)


def membership(law: Law, p: Floats) -> Floats:
    """Return by which figure of [row, class] sets have the classes with the highest: the probability.

    Of ordered classes it is the smaller of the largest probabilities on either side, so that sets are runs
    of neighbouring classes: a class between two members is one itself.
    """
    if not FAMILIES[law.draws.family].has_order:
        return p
    from_below = np.maximum.accumulate(p, axis=1)
    from_above = np.maximum.accumulate(p[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.minimum(from_below, from_above))


def levels_to_claim(
    law: Law,
    level: float | Sequence[float] | None,
    quantiles: Any = None,
    num_draws: int | None = None,
) -> list[CalibratedLevel]:
    """Return what calibrated predictions of these levels are and promise.

    Raises SettingsError for a model that has none, with figures that have none (quantiles, fewer draws), and
    for levels that need more calibration rows.
    """
    table = law.draws.header.calibration
    if table is None:
        raise SettingsError(
            "the model has no calibrated intervals: fit it with calibrate, or use posterior.calibrate",
            field="interval",
            code="unavailable",
        )
    if quantiles is not None and np.size(quantiles):
        raise SettingsError(
            'quantiles are not calibrated: ask for them with interval="predictive"',
            field="quantiles",
            code="not_applicable",
        )
    if num_draws is not None and num_draws != table.draws:
        raise SettingsError(
            f"the intervals are calibrated for all {table.draws} draws per chain, not for {num_draws}: leave "
            "the number of draws out",
            field="num_draws",
            code="not_applicable",
        )
    return [table.at(each) for each in Request.check(level, "predictive", None).levels]


def predict_calibrated(
    law: Law,
    X: Any,
    levels: Sequence[CalibratedLevel],
    num_draws: int | None = None,
    *,
    ignore_extra: bool = False,
) -> Prediction:
    """Predict rows with intervals of these levels, or of classes with prediction sets.

    An end is infinite where no finite one can be claimed. A set always has the most probable class.
    """
    law = law.before_recalibration
    own = next((each.cells.subgroups for each in levels if each.cells is not None), None)
    if own is not None and not isinstance(X, Coded):
        X = law.draws.encode(X, ignore_extra=ignore_extra, subgroups=own)
    if law.classes is not None:
        prediction = predict(law, X, None, "credible", None, num_draws, ignore_extra=ignore_extra)
        p = membership(law, probabilities(prediction))
        best = p == p.max(axis=1, keepdims=True)
        sets = [PredictionSet(each.level, (p >= least_probabilities(law, X, each)) | best) for each in levels]
        return replace(prediction, interval="calibrated", sets=sets, claims=list(levels))
    if own is not None:
        return _predict_in_subgroups(law, X, levels, num_draws)
    ends = [end for each in levels for end in each.ends or (0.0, 1.0)]
    finite = sorted({end for end in ends if FARTHEST < end < 1 - FARTHEST})
    prediction = predict(law, X, None, "predictive", finite or None, num_draws, ignore_extra=ignore_extra)
    infinite = np.full(len(prediction.mean), np.inf)
    values = {quantile.q: quantile.values for quantile in prediction.quantiles}
    bounds = [values.get(end, -infinite if end < 0.5 else infinite) for end in ends]
    intervals = [Interval(each.level, *bounds[2 * i : 2 * i + 2]) for i, each in enumerate(levels)]
    return replace(prediction, interval="calibrated", intervals=intervals, quantiles=[], claims=list(levels))
