"""Fits with calibrated intervals: by rows held out, or by fits to the other folds."""

from __future__ import annotations

import warnings
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.censoring.outcomes import refuse_censoring
from sampler.data.rows import Rows
from sampler.data.schema import Schema
from sampler.data.splits.copies import copied_rows
from sampler.data.splits.split_plan import Split, SplitPlan, without_new_groups
from sampler.data.target import family_warnings, guess_family
from sampler.definitions.data import CALIBRATE, HOLDOUT
from sampler.definitions.new_rows import NewRows
from sampler.errors import DataWarning
from sampler.noise import AUTO, CONSTANT
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.recalibrating import recalibrate
from sampler.posterior.explanations.aggregates import total_scores
from sampler.posterior.posterior import Posterior
from sampler.preparation import prepare_rows, resemblance_warnings
from sampler.preparation.calibration_splits import calibration_splits, check_members, members_of
from sampler.prepared_fit import PreparedFit
from sampler.running import run
from sampler.settings import NO_TRANSFORM
from sampler.subgroups.declaration import Subgroups
from sampler.subgroups.membership import Membership

USUAL_HOLDOUT = 0.2


def fit_calibrated(
    X: Any,
    y: Any,
    *,
    target_name: str | None,
    missing_target: str,
    calibrate: str,
    holdout: float | None,
    new_rows: Any,
    subgroups: Any,
    progress: bool,
    num_threads: int | None,
    executor: Executor | None,
    **settings: Any,
) -> Posterior:
    """Fit and calibrate; the arguments are those of `sampler.fitting.fit`, which see."""
    CALIBRATE.check("calibrate", calibrate)
    refuse_censoring(settings, "calibrate")
    rows = Rows.of_arguments(X, y, settings, target_name)
    declared = NewRows.read(new_rows, rows.table.names)
    named = Subgroups.read(subgroups, rows.table.names)
    rows = without_new_groups(rows.to_fit(missing_target), declared, settings)
    if settings.get("family") == "auto":
        settings["family"] = guess_family(rows.outcome, str(settings.get("method") or "bart"))
        _tell(family_warnings(rows.outcome, settings["family"], guessed=True))
    copies = copied_rows(rows, settings.get("features"))
    plan = SplitPlan.of(declared, rows.table.column, rows.num_rows, int(settings["seed"]), copies)

    share = USUAL_HOLDOUT if holdout is None else HOLDOUT.check("holdout", holdout)
    splits = calibration_splits(plan, rows, calibrate, share)

    def fitted(problem: PreparedFit) -> Posterior:
        return run(problem, progress=progress, num_threads=num_threads, executor=executor)

    test = np.concatenate([each.test for each in splits])

    def members_by(schema: Schema) -> Membership | None:
        training = rows.take(splits[0].train) if calibrate == "holdout" else rows
        return members_of(named, rows.take(test), training, schema.kinds, schema.target)

    def scores_of(posterior: Posterior, split: Split) -> NDArray[np.float64]:
        return conformity(posterior.law, LabelledRows.of(posterior.law, rows.take(split.test)))

    def totals_of(posterior: Posterior, split: Split) -> NDArray[np.float64] | None:
        if declared.groups is None or declared.later is not None:
            return None
        judged = LabelledRows.of(posterior.law, rows.take(split.test))
        return total_scores(posterior.law, judged, plan.unit[split.test])

    if calibrate == "holdout":
        (split,) = splits
        unchosen = {"transform": NO_TRANSFORM} | (
            {"noise": CONSTANT} if settings.get("noise") == AUTO else {}
        )
        problem = prepare_rows(rows, **settings | unchosen)  # all checked
        check_members(members_by(problem.schema), "holdout", plan, splits)
        _tell([*problem.warnings, *resemblance_warnings(rows, problem, declared)])
        posterior = fitted(prepare_rows(rows.take(split.train), **settings))
        members, totals = members_by(posterior.schema), totals_of(posterior, split)
        posterior = _recalibrated(posterior, rows, split, declared)
        return posterior.calibrated_by(
            "holdout", scores_of(posterior, split), plan, splits, members, totals=totals
        )
    problem = prepare_rows(rows, **settings)
    check_members(members := members_by(problem.schema), "folds", plan, splits)
    _tell([*problem.warnings, *resemblance_warnings(rows, problem, declared)])
    posterior = fitted(problem)
    scores, parts = [], []
    for split in splits:
        apart = None if _is_cut(posterior) else fitted(prepare_rows(rows.take(split.train), **settings))
        if apart is None or _is_cut(apart):
            message = "the fit was interrupted: its intervals are not calibrated"
            warnings.warn(message, DataWarning, stacklevel=5)
            return posterior
        scores.append(scores_of(apart, split))
        parts += [own for own in [totals_of(apart, split)] if own is not None]
    totals = np.concatenate(parts) if parts else None
    return posterior.calibrated_by("folds", np.concatenate(scores), plan, splits, members, totals=totals)


def _recalibrated(posterior: Posterior, rows: Rows, split: Split, declared: NewRows) -> Posterior:
    """Change the law of outcomes to what the rows that test say of it, where it is to be."""
    if posterior.settings.get("recalibrate", "auto") != "auto":
        return posterior
    held = LabelledRows.of(posterior.law, rows.take(split.test))
    differ = declared.groups is not None or declared.later is not None
    by = recalibrate(posterior.law, held, rows.take(split.train), declared=differ).by
    return posterior if by is None else posterior.recalibrated_by(by)


def _is_cut(posterior: Posterior) -> bool:
    return posterior.num_draws < int(posterior.settings["num_draws"])


def _tell(texts: list[str]) -> None:
    for warning in texts:
        warnings.warn(warning, DataWarning, stacklevel=6)
