"""A part of a study "tuning": scores of the rows of one fold under one candidate."""

import math
from collections.abc import Callable
from dataclasses import asdict, replace

from app.store.tables import Json
from sampler import Settings, SettingsError
from sampler.host.data import Rows
from sampler.host.studies import merged, of_fold, score_fold
from worker.fits.fit_spec import Spec, plan_of


def settings_of(request: Json, spec: Spec, number: int) -> Json:
    """Return the settings of the unit's fit; the defaults where they contradict each other (see `run`)."""
    chosen = of_fold(_settings(request, number), request["seed"])
    chosen.pop("prior", None)
    if spec.others:  # of the first of them
        chosen["family"] = spec.settings["family"]
    try:
        Settings.resolve(**chosen)
    except SettingsError:
        return {}
    return chosen


def run(request: Json, spec: Spec, rows: Rows, number: int, tell: Callable[[int], None]) -> Json:
    """Fit candidate number // folds to all rows but those of fold number % folds, and score these.

    The scores, or why the candidate can't be fitted to these rows. `tell` is as in `selection.run`.
    """
    plan = replace(plan_of(spec, rows), seed=request["seed"])
    splits = plan.folds(request["folds"])  # of few groups or periods fewer, which then count again
    split = splits[number % request["folds"] % len(splits)]
    try:
        settings = _settings(request, number) | spec.features
        scores = score_fold(rows, split, request["seed"], settings, lambda chain, _: tell(chain))
    except SettingsError as error:
        return {"refused": str(error)}
    finite = [value if math.isfinite(value) else None for value in scores.log_score]  # JSON has no infinity
    return asdict(scores) | {"log_score": finite}


def _settings(request: Json, number: int) -> Json:
    return merged(request["common"], request["candidates"][number // request["folds"]])
