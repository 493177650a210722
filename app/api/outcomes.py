"""Outcomes of predicted rows over HTTP: reports, the watch on intervals, recalibration and refit."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from app.api.model_restarts import Promote
from app.api.models import TheAcceptance
from app.services import health
from app.services.access.idempotency import StoredResponse
from app.services.access.keys import PREDICT, READ, TRAIN
from app.services.fits import creation, models
from app.services.fits.models import ModelView
from app.services.outcomes import recalibration, refit, reports, schedules, summary, weekly
from app.services.outcomes.observed import observe
from app.services.outcomes.recalibration import RecalibrationView
from app.services.outcomes.reports import AcceptedReportView
from app.services.outcomes.rows import OutcomeOptions, OutcomesBody
from app.services.outcomes.schedules import ScheduleBody, ScheduleView
from app.services.outcomes.summary import OutcomesView
from app.services.outcomes.weekly import ModelPolicyView, Policy
from app.services.predictions.rows import SentRows
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheGate,
    ThePredictor,
    TheSettings,
    Writing,
)
from app.web.errors import responses
from app.web.idempotency import TheChange
from app.web.read_options import ReadingQuery
from app.web.rows_route import OPENAPI, FileRequest, RowsRoute, refuse_misplaced
from app.web.scopes import MAX_JSON_BYTES, needs

router = APIRouter(prefix="/models", tags=["outcomes"], route_class=RowsRoute)


class OutcomesQuery(OutcomeOptions, ReadingQuery):
    """Meaning of the columns and reading options as query parameters, for rows in a file."""

    model_config = ConfigDict(extra="forbid")


class SinceBody(BaseModel):
    """The outcomes to use."""

    model_config = ConfigDict(extra="forbid")

    since: date | None = Field(
        None,
        description="Use the outcomes from this date's week on. Default: all; for a calibration during an "
        "alarm, those since the intervals no longer hold.",
    )


class PolicyBody(BaseModel):
    """Policy for reported outcomes."""

    model_config = ConfigDict(extra="forbid")

    recalibrate: Policy = Field(
        description="weekly: outcomes of ended weeks move the calibrated intervals; off: nobody but you "
        "recalibrates."
    )


class OutcomesRefitBody(SinceBody):
    """Differences of the new fit from the old."""

    name: str | None = Field(None, description="The name of the new model; defaults to that of the old.")
    holdout: float | None = Field(
        None, ge=0, le=0.9, description="The fraction of rows held out; default: as of the old."
    )
    promote: Promote = None


@router.post(
    "/{model_id}/outcomes",
    status_code=201,
    response_model=AcceptedReportView,
    responses=responses(409, 413, 415),
    openapi_extra=OPENAPI,
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def report_outcomes(
    model_id: str,
    request: Request,
    body: OutcomesBody,
    query: Annotated[OutcomesQuery, Query()],
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Report what happened: rows with the target's column. If `model_id` is a name, its newest model scores.

    The model predicts each row on arrival and the outcome is compared with its intervals; the row is kept,
    for a recalibration or a refit. Rows are the model's columns with the target; or, with `prediction_id`,
    the target beside row numbers or keys of a background prediction. Send at most as many rows as to
    predict, as JSON, CSV, Parquet or Arrow; for files the options are query parameters. Rows for a forecaster
    are scored by its forecasts of them, at each step ahead, and become its history, from whose end it then
    forecasts; those that it has already are skipped.
    """

    def done(session: Session, view: AcceptedReportView) -> StoredResponse:
        return change.done(session, view, 201, {"Location": f"/models/{view.model_id}/outcomes"})

    def report(options: OutcomeOptions, sent: SentRows) -> Response:
        def make() -> StoredResponse:
            if models.is_forecaster(predictor.engine, owner, model_id):
                answers: list[StoredResponse] = []

                def remember(session: Session, view: AcceptedReportView) -> None:
                    answers.append(done(session, view))

                observe(predictor, owner, model_id, options, sent, remember)
                return answers[-1]
            scored = reports.scored(predictor, owner, model_id, options, sent)
            with change.transactions() as session:
                return done(session, reports.accept(session, owner, scored))

        return change.once(make)

    if not isinstance(request, FileRequest):
        refuse_misplaced(query)
        return await gate.run(lambda: report(body, SentRows(body.rows, body.columns)))
    reading = query.options(request.promised)
    return await gate.run(await request.reading(lambda file: report(query, SentRows(file=(file, reading)))))


@router.get("/{model_id}/outcomes", responses=responses(409))
@needs(READ, PREDICT)
def get_outcomes(model_id: str, session: Reading, owner: Owner) -> OutcomesView:
    """Return what the outcomes say: coverage, PIT and log score by week, and whether the intervals hold."""
    return summary.of_model(session, owner, model_id)


@router.delete("/{model_id}/outcomes", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_outcomes(model_id: str, session: Deleting, owner: Owner) -> None:
    """Delete all outcomes of a model; monitoring starts afresh, and its calibration stays."""
    reports.delete(session, owner, model_id)


@router.post(
    "/{model_id}/outcomes/recalibrate",
    response_model=RecalibrationView,
    responses=responses(409, 415),
)
@needs(TRAIN)
def recalibrate_by_outcomes(
    model_id: str,
    body: SinceBody,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Calibrate a model's intervals by its outcomes: `interval=calibrated` then answers accordingly.

    Its draws and other answers stay as they are; monitoring starts afresh with the outcomes that follow.
    """

    def make() -> StoredResponse:
        with change.transactions() as session:
            return change.done(session, recalibration.recalibrate(session, owner, model_id, body.since))

    return change.once(make)


@router.post("/{model_id}/outcomes/policy", response_model=ModelPolicyView, responses=responses(409, 415))
@needs(TRAIN)
def set_outcomes_policy(
    model_id: str,
    body: PolicyBody,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Let reported outcomes move a model's calibrated intervals each week, or end that.

    With the first report after a week's end, or this call, the outcomes of ended weeks count. A calibration
    that was in force stays known: `calibration` of a prediction names it, and `calibration` of a request
    repeats that answer.
    """

    def make() -> StoredResponse:
        with change.transactions() as session:
            return change.done(session, weekly.set_policy(session, owner, model_id, body.recalibrate))

    return change.once(make)


@router.post(
    "/{model_id}/outcomes/refit", status_code=202, response_model=ModelView, responses=responses(409, 415)
)
@needs(TRAIN)
def refit_with_outcomes(
    model_id: str,
    body: OutcomesRefitBody,
    settings: TheSettings,
    owner: Owner,
    acceptance: TheAcceptance,
) -> Response:
    """Fit a new model with the settings of another to its dataset and its outcomes, a new dataset.

    Without a `name` it gets that of the other, and predicts under it once it has succeeded.
    """
    engine = acceptance.engine

    def make() -> StoredResponse:
        with refit.grown(
            engine,
            owner,
            model_id,
            called=body.name,
            holdout=body.holdout,
            since=body.since,
            promote=body.promote,
            max_bytes=settings.max_body_bytes,
        ) as grown:
            plan = creation.plan(engine, owner, grown.request, slots=health.slots_now(engine, settings))
            with acceptance.transactions() as session:
                return acceptance.of(session, creation.accept(session, owner, plan))

    return acceptance.once(make)


@router.put("/{model_id}/schedule", responses=responses(409, 415))
@needs(TRAIN)
def set_schedule(model_id: str, body: ScheduleBody, session: Writing, owner: Owner) -> ScheduleView:
    """Fit the model of a name again every so often, or when its outcomes' alarm sounds; replaces a schedule.

    Each time to the newest dataset of the same name, or else with the outcomes that were reported; nothing
    is fitted without new data. The name moves as for a refit with `promote`.
    """
    return schedules.put(session, owner, model_id, body)


@router.get("/{model_id}/schedule", responses=responses(409))
@needs(READ)
def get_schedule(model_id: str, session: Reading, owner: Owner) -> ScheduleView:
    """Return the schedule of a model's name, and what came of its last time."""
    return schedules.get(session, owner, model_id)


@router.delete("/{model_id}/schedule", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_schedule(model_id: str, session: Deleting, owner: Owner) -> None:
    """Delete the schedule of a model's name: nothing is fitted again by itself."""
    schedules.delete(session, owner, model_id)
