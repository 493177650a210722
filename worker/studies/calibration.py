"""A part of a study "calibration": scores of the rows of one fold by a fit to the others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sqlalchemy.orm import Session

from app.store import models
from app.store.outcomes import watches
from app.store.tables import Json, Study
from sampler.host.assessment import LabelledRows, conformity
from sampler.host.data import FOLDS, Rows
from sampler.host.fits import members_of, run_fit
from sampler.host.posteriors import total_scores
from sampler.host.settings import LIMITS, SETTINGS
from sampler.host.storage import (
    MAX_ROWS_OF_SUBGROUPS,
    ConformalTable,
    Header,
    Membership,
    kept_rows,
    with_calibration,
)
from worker.fits.fit_spec import Spec, plan_of, prepare_problem

MOST_OF_A_FOLD = 2_000  # scored rows, so that all folds have at most as many as a table keeps


def settings_of(_request: Json, spec: Spec, _number: int = 0) -> Json:
    """Return the settings of the fits: the model's."""
    return {name: spec.settings[name] for name in SETTINGS if spec.settings.get(name) is not None}


def run(_request: Json, spec: Spec, rows: Rows, number: int, tell: Callable[[int], None]) -> Json:
    """Fit to all rows but those of a fold, and score these; `tell` is as in `selection.run`."""
    plan = plan_of(spec, rows)
    splits = plan.folds(FOLDS)
    train, held = splits[number]
    problem = prepare_problem(as_long_as(spec), rows.take(train))
    judged, schema = rows.take(np.concatenate([each.test for each in splits])), problem.schema
    members = members_of(spec.subgroups, judged, rows, schema.kinds, schema.target)
    posterior = run_fit(problem, num_threads=1, report=lambda chain, _: tell(chain))
    kept = kept_rows(len(held), MOST_OF_A_FOLD if members is None else MAX_ROWS_OF_SUBGROUPS // FOLDS)
    chosen = held[kept]
    scores = conformity(posterior.law, LabelledRows.of(posterior.law, rows.take(chosen))).tolist()
    found: Json = {"scores": scores}
    if plan.new_rows.groups is not None:
        found["unit"] = plan.unit[chosen].tolist()
        of_fold = LabelledRows.of(posterior.law, rows.take(held))
        totals = None if plan.time is not None else total_scores(posterior.law, of_fold, plan.unit[held])
        found["totals"] = [] if totals is None else totals.tolist()
    elif plan.time is not None:
        found["unit"] = [number] * len(scores)
    if members is not None:
        earlier = sum(len(each.test) for each in splits[:number])
        found["subgroups"] = members.take(earlier + kept).to_json()
    return found


def as_long_as(spec: Spec) -> Spec:
    """Return the settings of a fit that burns in for as long as the model did, discarded draws included."""
    settings = spec.settings
    before = int(settings.get("discarded", 0)) * int(settings["thin"])
    num_burnin = min(int(settings["num_burnin"]) + before, LIMITS["num_burnin"][1])
    return replace(spec, settings=settings | {"num_burnin": num_burnin, "discarded": 0})


def table_of(
    request: Json, spec: Spec, header: bytes, statistics: list[Json], before: Callable[[], None]
) -> ConformalTable:
    """Make the table of the scores of all folds; `before` is called while the ends of subgroups are found."""
    classes = Header.from_bytes(header).schema.target.levels
    units = [unit for part in statistics for unit in part.get("unit", ())]
    parts = [part["subgroups"] for part in statistics if "subgroups" in part]
    return ConformalTable.of(
        "folds",
        int(request["draws"]),
        np.array([score for part in statistics for score in part["scores"]]),
        of_classes=bool(classes),
        new_rows=spec.new_rows,
        unit=np.array(units, np.int32) if units else None,
        members=Membership.of_parts(parts, classes) if parts else None,
        totals=np.array([total for part in statistics for total in part.get("totals", ())]),
        before=before,
    )


def conclude(session: Session, study: Study, table: ConformalTable) -> None:
    """Calibrate the model by the scores of all folds, if it still has the draws of the study's request."""
    header = models.header(session, study.model_id)
    if header is None:
        return
    calibrated = with_calibration(header, table)
    if models.calibrate(session, study.model_id, table.draws, calibrated, table.summary()):
        watches.begin_era(session, study.model_id)
