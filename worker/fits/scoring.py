"""Scores and predictions of held-out rows, in the form of the store."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.store.tables import Json
from sampler import DataError, Posterior
from sampler.host.assessment import (
    SPANS,
    LabelledRows,
    calibrating,
    calibration,
    censored_scores,
    conformity,
    linear_predictions,
    recalibrate,
    row_scores,
    scoring,
    span_of_weeks,
)
from sampler.host.data import (
    Rows,
    Split,
    SplitPlan,
    censoring_roles,
    finite_numbers,
    read_censored,
    read_outcomes,
    read_weights,
)
from sampler.host.fits import members_of
from sampler.host.posteriors import made_to_hold, permutation_importance, total_scores
from sampler.host.settings import FAMILIES, Subgroups
from sampler.host.storage import (
    MAX_CALIBRATION_ROWS,
    MAX_ROWS_OF_SUBGROUPS,
    ConformalTable,
    kept_rows,
    kept_rows_of,
)
from worker.fits.fit_spec import SplitRows

UNSEEN = "The served model was fitted without these rows."


def score(
    posterior: Posterior, training: Rows, held: Rows, plan: SplitPlan | None, beat: Callable[[], None]
) -> Json:
    """Score the posterior, fitted to the training rows, on the held-out rows, by their plan.

    `beat` is called between batches of rows. The figures are those of `Posterior.score` and baselines without
    trees: for numbers `linear_rmse` of least squares, for classes `base_log_loss`, of ordered ones also
    `base_rps`, of the class frequencies in the training rows, for censored outcomes `base_integrated_brier`
    of the training rows' Kaplan-Meier curve.
    """
    rows = _labelled(posterior, held, plan)
    scores = scoring.score(posterior.law, rows, beat, quick=True)
    beat()
    first: tuple[str, ...] = ("rows", "log_loss" if rows.classes else "rmse")  # followed by its baseline
    if rows.coded.limits is not None:
        base, first = _of_censored(rows, training, scores), ("rows", "censored", "integrated_brier")
    elif rows.classes:
        base = _of_classes(posterior, rows, training)
    else:
        base = _of_numbers(posterior, training, held)
    facts: Json = {"note": UNSEEN}
    if plan is not None and plan.time is not None:
        facts["weeks_once"] = _weeks_once(posterior, rows, plan, beat)
    return {name: scores[name] for name in first} | base | scores | facts


def recalibrated(
    posterior: Posterior, parts: SplitRows, asked: str, beat: Callable[..., None]
) -> tuple[Posterior, SplitRows, Json | None]:
    """Recalibrate the law of outcomes by held-out rows, half of them where there are many.

    Return the posterior, the rows that judge it, and what was done: all rows where there aren't many, which
    then are no evidence, or where nothing was done (None: it wasn't asked).
    """
    if asked != "auto":
        return posterior, parts, None
    rows = LabelledRows.of(posterior.law, parts.held)
    beat("recalibrating")
    plan = parts.plan
    declared = plan is not None and (plan.new_rows.groups or plan.new_rows.later) is not None
    by_rows = calibrating(len(rows.y))
    calibrate_by = rows.part(np.flatnonzero(by_rows))
    several = posterior.several is not None
    found = recalibrate(posterior.law, calibrate_by, parts.training, beat, declared=declared, several=several)
    if found.by is None:
        return posterior, parts, found.to_json()
    judging = parts if by_rows.all() else parts.part(np.flatnonzero(~by_rows))
    return posterior.recalibrated_by(found.by), judging, found.to_json()


def without_evidence(posterior: Posterior, parts: SplitRows, scores: Json, by_row: Json) -> None:
    """Replace what rows say that made intervals hold themselves, in scores and figures by row."""
    scores["intervals_verdict"] = made_to_hold(scores["recalibration"]["rows"])
    scores["coverage"] = []
    law, rows = posterior.law.before_recalibration, LabelledRows.of(posterior.law, parts.held)
    by_row["calibration"] = calibration.row_by_row(law, rows, parts.places)["calibration"]


def joint_scores(several: Any, held: Rows, beat: Callable[[], None]) -> Json:
    """Score all outcomes of the held-out rows together, of at most 2,000 of them."""
    beat()
    kept = kept_rows(held.num_rows, calibration.MAX_ROWS)
    part = held.take(kept)
    scores = vars(several.score(part.table, part.outcomes, part.roles.get("weights"), separately=False))
    return {name: value for name, value in scores.items() if name != "outcomes"}


def _weeks_once(posterior: Posterior, rows: LabelledRows, plan: SplitPlan, beat: Callable[[], None]) -> int:
    """Choose how many weeks of later outcomes count once, by the held-out rows' time; the most if unknown."""
    assert plan.time is not None
    if rows.coded.limits is not None or not plan.is_date:
        return SPANS[-1]
    kept = kept_rows(len(rows.y))
    return span_of_weeks(plan.time[kept], conformity(posterior.law, rows.part(kept), beat))


def _labelled(posterior: Posterior, held: Rows, plan: SplitPlan | None) -> LabelledRows:
    """Encode held-out rows, with their groups where new rows are declared to be of other ones."""
    rows = LabelledRows.of(posterior.law, held)
    if plan is None or plan.new_rows.groups is None:
        return rows
    return replace(rows, unit=plan.unit.astype(np.int64))


def look_at(
    posterior: Posterior,
    held: Rows,
    numbers: NDArray[np.int64],
    beat: Callable[[], None],
    *,
    judged: bool = True,
) -> Json:
    """Compare predictions of the held-out rows with their outcomes: `assessment.calibration.row_by_row`.

    ``scores`` are those of rows by which models are compared, at most 2,000, with their numbers; of rows that
    are no evidence (not `judged`), as they recalibrated the law, by the law before.
    """
    rows = LabelledRows.of(posterior.law, held)
    figures = calibration.row_by_row(posterior.law, rows, numbers, beat)
    if rows.coded.limits is not None:
        return figures
    kept = kept_rows(len(rows.y), calibration.MAX_ROWS)
    part = rows.part(kept)
    law = posterior.law if judged else posterior.law.before_recalibration
    by_row = {name: each.tolist() for name, each in row_scores(law, part, beat).items()}
    figures |= {"scores": {"row": numbers[kept].tolist(), **by_row}}
    if rows.classes is not None:
        return figures
    mean = posterior.predict(part.coded, level=None).mean
    return figures | {"pit": conformity(posterior.law, part, beat).tolist(), "predicted": mean.tolist()}


def calibrate(
    posterior: Posterior,
    training: Rows,
    held: Rows,
    plan: SplitPlan,
    declared: Subgroups,
    beat: Callable[[], None],
) -> ConformalTable | None:
    """Calibrate the posterior by the held-out rows, at most 10,000 of them, as many of each group.

    In `declared` subgroups it is by at most 4,000. Raises SettingsError for subgroups with too few rows.
    """
    schema = posterior.schema
    members = members_of(declared, held, training, schema.kinds, schema.target)
    most = MAX_CALIBRATION_ROWS if members is None else MAX_ROWS_OF_SUBGROUPS
    rows = LabelledRows.of(posterior.law, held)
    by_group = plan.new_rows.groups is not None
    kept = kept_rows_of(plan.unit, most) if by_group else kept_rows(len(rows.y), most)
    scores = conformity(posterior.law, rows.part(kept), beat)
    split = Split(np.zeros(0, np.int64), kept)
    members = None if members is None else members.take(kept)
    totals = total_scores(posterior.law, rows, plan.unit, beat) if by_group and plan.time is None else None
    calibrated = posterior.calibrated_by("holdout", scores, plan, [split], members, beat, totals)
    return calibrated.conformal_table


def importance_of(
    posterior: Posterior, held: Rows, plan: SplitPlan | None, beat: Callable[[], None]
) -> list[Json] | None:
    """Rank the features on the held-out rows, by each loss (`sampler.posterior.explanations.permutation`).

    The RMSE comes first, where there is one. `beat` is called between evaluations. None for too few rows.
    """
    rows = _labelled(posterior, held, plan)
    try:
        ranked = permutation_importance(posterior.law, rows, before=beat)
    except DataError:
        return None
    return [by_loss.to_json() for by_loss in ranked]


def _of_numbers(posterior: Posterior, training: Rows, held: Rows) -> Json:
    weights = training.roles.get("weights")
    precisions = None if weights is None else read_weights(weights, training.num_rows)
    y = finite_numbers(training.outcome)
    linear = linear_predictions(posterior.schema, training.table, y, precisions, held.table)
    return {"linear_rmse": float(np.sqrt(np.mean((linear - finite_numbers(held.outcome)) ** 2)))}


def _of_censored(rows: LabelledRows, training: Rows, scores: Json) -> Json:
    """Score the training rows' Kaplan-Meier curve, which knows no features."""
    outcome, limits = training.outcome, rows.coded.limits
    seen = read_censored(outcome, outcome.name, censoring_roles(training.roles), training.num_rows)
    events = seen.limits[0] == seen.limits[1]
    if scores["integrated_brier"] is None or limits is None or not (events | np.isinf(seen.limits[1])).all():
        return {"base_integrated_brier": None}
    at = np.array([each["time"] for each in scores["brier_by_time"]])
    curve = censored_scores.steps_at(censored_scores.kaplan_meier(seen.y, events), at)
    survival = np.broadcast_to(curve, (len(rows.y), len(at)))
    scored = censored_scores.brier(rows.y, limits[0] == limits[1], at, survival)
    return {"base_integrated_brier": float(scored.mean())}


def _of_classes(posterior: Posterior, rows: LabelledRows, training: Rows) -> Json:
    _, seen = read_outcomes(training.outcome, posterior.schema.target, training.num_rows, new_classes=True)
    y = scoring.one_hot(rows)
    shares = (seen[:, None] == np.arange(y.shape[1])).mean(axis=0)
    base = np.broadcast_to(shares, y.shape)
    ordered = FAMILIES[posterior.family].has_order
    return ({"base_rps": scoring.score_in_order(posterior.law, rows, base)} if ordered else {}) | {
        "base_log_loss": scoring.log_loss(y, base)
    }
