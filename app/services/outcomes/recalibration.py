"""Recalibration of a model's intervals by the outcomes that were reported."""

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Annotated

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from app.services.access import audit
from app.services.errors import ConflictError, NotFoundError
from app.services.explanations.guard import check_succeeded
from app.services.fits import models
from app.services.fits.forecasts import refuse_forecaster
from app.services.fits.models import ClaimView
from app.services.outcomes.reports import has_classes
from app.services.outcomes.summary import week_since
from app.store import events
from app.store import models as model_store
from app.store.errors import ModelGoneError
from app.store.outcomes import reports as store
from app.store.outcomes import watches
from sampler.host.settings import NewRows
from sampler.host.storage import MAX_CALIBRATION_ROWS as MAX_ROWS
from sampler.host.storage import USUAL_LEVEL, ConformalTable, rows_needed, with_calibration

RECALIBRATED = "recalibrated"  # the event


@dataclass(frozen=True, kw_only=True)
class RecalibrationView:
    """A new calibration of a model's intervals."""

    model_id: str
    rows: Annotated[int, Field(description="Outcomes used, at most 10,000, the newest.")]
    first: datetime | None
    last: datetime | None
    claims: Annotated[list[ClaimView], Field(description="What calibrated intervals now promise, by level.")]


def recalibrate(session: Session, owner: str, name: str, since: date | None = None) -> RecalibrationView:
    """Calibrate a model's intervals, or prediction sets, by its outcomes; monitoring starts afresh.

    Parameters
    ----------
    since
        Date from whose week on outcomes count. None: all, or while the watch alarms those from the week on
        since which the intervals no longer hold.

    Raises
    ------
    NotFoundError
        The model doesn't exist.
    ConflictError
        It hasn't succeeded, is of censored outcomes, or has too few outcomes for 90% intervals; or it is
        recalibrated weekly.
    """
    model = models.get(session, owner, name)
    check_succeeded(model)
    refuse_forecaster(model.settings, "its intervals rest on rehearsals: outcomes are scored, and fitted to")
    try:
        begun = watches.lock(session, owner, model.id)
    except ModelGoneError as error:
        raise NotFoundError(str(error)) from None
    if any(model.settings.get(role) for role in ("event", "lower", "upper")):
        raise ConflictError(
            "Intervals can't be calibrated by outcomes that may be censored: fit again with them "
            "(POST /models/{id}/outcomes/refit)."
        )
    if begun is not None and begun.weekly_from is not None:
        raise ConflictError(
            "The model is recalibrated weekly, from the calibration that it had: set that policy to off "
            "(POST /models/{id}/outcomes/policy) before you recalibrate by hand."
        )
    week = week_since(session, model, begun, since)
    draws = model_store.common_draws(session, model.id) or 0
    groups = replace(NewRows.read(model.settings.get("new_rows")), later=None, horizon=None, gap=0.0)
    of_groups = groups.groups is not None
    outcomes = store.newest_scores(session, model.id, draws, week, MAX_ROWS, of_groups=of_groups)
    unit = np.unique(np.array([each or b"" for each in outcomes.units]), return_inverse=True)[1]
    count = len(np.unique(unit)) if of_groups else len(outcomes.scores)
    if count < (least := rows_needed(USUAL_LEVEL)):
        noun = f"values of {groups.groups} with outcomes" if of_groups else "outcomes"
        which = "" if week is None else " of these weeks"
        raise ConflictError(
            f"{count} {noun}{which} were scored by the model as it is: {least} are needed "
            f"for {USUAL_LEVEL:.0%} intervals."
        )
    header = model_store.header(session, model.id)
    assert header is not None, "a model that has succeeded has its header"
    scores = np.array(outcomes.scores)
    chosen = since is None and week is not None  # by the outcomes
    table = ConformalTable.of(
        "outcomes",
        draws,
        scores,
        of_classes=has_classes(model),
        since_change=chosen,
        new_rows=groups,
        unit=unit.astype(np.int32) if of_groups else None,
    )
    summary = table.summary()
    if not model_store.calibrate(session, model.id, draws, with_calibration(header, table), summary):
        raise ConflictError("The model has changed meanwhile: repeat the request.")
    watches.begin_era(session, model.id)
    events.append(session, model.id, RECALIBRATED, {"rows": table.rows})
    audit.record(session, owner, "model.recalibrated", model.id)
    return RecalibrationView(
        model_id=model.id,
        rows=table.rows,
        first=outcomes.first,
        last=outcomes.last,
        claims=summary["claims"],
    )
