"""Fits with calibrated intervals: by rows held out, or by fits to the other folds."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.censoring.outcomes import refuse_censoring
from sampler.data.holdout import holdout_rows
from sampler.data.rows import Rows
from sampler.data.target import family_warnings, guess_family
from sampler.definitions.data import CALIBRATE, COLUMN_ROLES, HOLDOUT
from sampler.errors import DataWarning
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.preparation import prepare_rows
from sampler.running import run
from sampler.settings import NO_TRANSFORM
from sampler.storage.conformal_table import check_held_out
from sampler.studies.folds import FOLDS, folds_of, prepare_without

USUAL_HOLDOUT = 0.2

if TYPE_CHECKING:
    from sampler.posterior.posterior import Posterior
    from sampler.prepared_fit import PreparedFit


def fit_calibrated(
    X: Any,
    y: Any,
    *,
    target_name: str | None,
    missing_target: str,
    calibrate: str,
    holdout: float | None,
    progress: bool,
    num_threads: int | None,
    **settings: Any,
) -> Posterior:
    """Fit and calibrate; the arguments are those of `sampler.fitting.fit`, which see."""
    CALIBRATE.check("calibrate", calibrate)
    refuse_censoring(settings, "calibrate")
    rows = Rows.read(X, y, {role: settings.pop(role) for role in COLUMN_ROLES}, target_name)
    rows = rows.to_fit(missing_target)
    if settings.get("family") == "auto":
        settings["family"] = guess_family(rows.outcome, str(settings.get("method") or "bart"))
        _tell(family_warnings(rows.outcome, settings["family"], guessed=True))
    seed = int(settings["seed"])

    def fitted(problem: PreparedFit) -> Posterior:
        return run(problem, progress=progress, num_threads=num_threads)

    if calibrate == "holdout":
        share = USUAL_HOLDOUT if holdout is None else HOLDOUT.check("holdout", holdout)
        held = holdout_rows(rows.num_rows, share, seed)
        check_held_out(len(held))
        _tell(prepare_rows(rows, **settings | {"transform": NO_TRANSFORM}).warnings)  # all checked
        posterior = fitted(prepare_without(rows, held, settings))
        scores = conformity(posterior.law, LabelledRows.of(posterior.law, rows.take(held)))
        return posterior.calibrated_by("holdout", scores)
    parts = folds_of(rows.num_rows, FOLDS, seed)
    problem = prepare_rows(rows, **settings)
    _tell(problem.warnings)
    posterior = fitted(problem)
    scores = np.zeros(rows.num_rows)
    for held in parts:
        apart = None if _is_cut(posterior) else fitted(prepare_without(rows, held, settings))
        if apart is None or _is_cut(apart):
            message = "the fit was interrupted: its intervals are not calibrated"
            warnings.warn(message, DataWarning, stacklevel=5)
            return posterior
        scores[held] = conformity(apart.law, LabelledRows.of(apart.law, rows.take(held)))
    return posterior.calibrated_by("folds", scores)


def _is_cut(posterior: Posterior) -> bool:
    return posterior.num_draws < int(posterior.settings["num_draws"])


def _tell(texts: list[str]) -> None:
    for warning in texts:
        warnings.warn(warning, DataWarning, stacklevel=6)
