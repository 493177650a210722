"""Outcomes of predicted rows over HTTP: reports, the watch on intervals, recalibration and refit."""

from datetime import date
from tempfile import TemporaryFile
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Match
from starlette.types import Scope

from app.api.models import TheAcceptance
from app.services import health, views
from app.services.access.idempotency import IdempotentRequest, StoredResponse, once
from app.services.access.keys import PREDICT, READ, TRAIN
from app.services.errors import Fault, InvalidRequestError
from app.services.fits import creation
from app.services.fits.models import ModelView
from app.services.outcomes import recalibration, refit, reports, summary
from app.services.outcomes.recalibration import RecalibrationView
from app.services.outcomes.reports import AcceptedReportView
from app.services.outcomes.rows import OutcomesRequest, Repeated
from app.services.outcomes.summary import OutcomesView
from app.services.predictions.predict_rows import Predictor
from app.services.request_bodies import ColumnsInBody, RowsInBody
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheEngine,
    TheGate,
    ThePredictor,
    TheSettings,
    TheTransactions,
    Transactions,
)
from app.web.errors import responses
from app.web.idempotency import TheIdempotentRequest, render
from app.web.json_body import StrictRoute
from app.web.negotiation import content_type
from app.web.read_options import BINARY, FILES, ReadingQuery
from app.web.scopes import needs
from app.web.uploads import check_coding

Name = Annotated[str, Field(min_length=1, max_length=1000)]


class _Json(StrictRoute):
    instead = f", or a file with one of these: {', '.join(FILES)}"


class _File(StrictRoute):
    """Route for the same path with the content type of a file."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only requests with a file."""
        if scope["type"] == "http" and content_type(scope) not in FILES:
            return Match.NONE, {}
        return super().matches(scope)


router = APIRouter(prefix="/models", tags=["outcomes"], route_class=_Json)
files = APIRouter(prefix="/models", tags=["outcomes"], route_class=_File)


class OutcomeOptions(BaseModel):
    """Meaning of the columns of a report."""

    key: Name | None = Field(
        None,
        description="The column with a name for each row, by which it is known again. With prediction_id and "
        "without row, a column of the predicted dataset, by which its rows are found.",
    )
    at: Name | None = Field(
        None, description="The column with the time of each row, which decides about its week; default: now."
    )
    prediction_id: Name | None = Field(
        None,
        description="A background prediction of this model: the rows are its rows, and their features come "
        "from its dataset.",
    )
    row: Name | None = Field(
        None, description="The column with the numbers, from 1, of the rows in that prediction."
    )
    repeated: Repeated = Field(
        "refuse",
        description="What happens to a row whose key has an outcome: refuse the report (409), replace the "
        "outcome, or skip the row. Rows without a key are never repeated.",
    )

    def outcomes_request(self, **data: Any) -> OutcomesRequest:
        """Convert to the service's request."""
        options = {name: getattr(self, name) for name in OutcomeOptions.model_fields}
        return OutcomesRequest(**data, **options)


class OutcomesBody(OutcomeOptions):
    """Rows of which the outcome is known: the model's columns and its target."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowsInBody | None = Field(
        None, description="Objects of values by column name, the target included; alternatively use columns."
    )
    columns: ColumnsInBody | None = Field(
        None, description="Lists of values by column name; alternatively use rows."
    )


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


class OutcomesRefitBody(SinceBody):
    """Differences of the new fit from the old."""

    name: str | None = Field(None, description="The name of the new model; defaults to that of the old.")
    holdout: float | None = Field(
        None, ge=0, le=0.9, description="The fraction of rows held out; default: as of the old."
    )


def _stored(
    predictor: Predictor,
    transactions: Transactions,
    owner: str,
    model_id: str,
    report: OutcomesRequest,
    idempotent: IdempotentRequest,
) -> Response:
    def make() -> StoredResponse:
        scored = reports.scored(predictor, owner, model_id, report)
        with transactions() as session:
            accepted = reports.accept(session, owner, scored)
            body = views.to_json(accepted)
            answer = StoredResponse(201, {"Location": f"/models/{accepted.model_id}/outcomes"}, body)
            idempotent.remember(session, answer)
            return answer

    return render(once(predictor.engine, idempotent, make))


# Registered before the JSON route, so that it is tried first.
@files.post("/{model_id}/outcomes", include_in_schema=False)
@needs(PREDICT)
async def report_file(
    model_id: str,
    request: Request,
    query: Annotated[OutcomesQuery, Query()],
    predictor: ThePredictor,
    transactions: TheTransactions,
    gate: TheGate,
    owner: Owner,
    idempotent: TheIdempotentRequest,
) -> Response:
    """Report outcomes of rows in a file, with options as query parameters."""
    check_coding(request)
    options = query.options(FILES[content_type(request.scope)])
    body = await request.body()

    def work() -> Response:
        with TemporaryFile() as file:
            file.write(body)
            report = query.outcomes_request(file=(file, options))
            return _stored(predictor, transactions, owner, model_id, report, idempotent)

    return await gate.run(work)


@router.post(
    "/{model_id}/outcomes",
    status_code=201,
    response_model=AcceptedReportView,
    responses=responses(409, 413, 415),
    openapi_extra={"requestBody": {"content": dict.fromkeys(FILES, BINARY)}},
)
@needs(PREDICT)
async def report_outcomes(
    model_id: str,
    body: OutcomesBody,
    of_a_file: Annotated[OutcomesQuery, Query()],
    predictor: ThePredictor,
    transactions: TheTransactions,
    gate: TheGate,
    owner: Owner,
    idempotent: TheIdempotentRequest,
) -> Response:
    """Report what happened: rows with the target's column. If `model_id` is a name, its newest model scores.

    The model predicts each row on arrival and the outcome is compared with its intervals; the row is kept,
    for a recalibration or a refit. Rows are the model's columns with the target; or, with `prediction_id`,
    the target beside row numbers or keys of a background prediction. Send at most as many rows as to
    predict, as JSON, CSV, Parquet or Arrow; for files the options are query parameters.
    """
    if misplaced := of_a_file.model_dump(exclude_defaults=True):
        message = "query parameters are for rows in a file; with JSON rows put the option into the body"
        raise InvalidRequestError(errors=[Fault(name, None, message) for name in sorted(misplaced)])
    report = body.outcomes_request(rows=body.rows, columns=body.columns)
    return await gate.run(lambda: _stored(predictor, transactions, owner, model_id, report, idempotent))


@router.get("/{model_id}/outcomes", responses=responses())
@needs(READ, PREDICT)
def get_outcomes(model_id: str, session: Reading, owner: Owner) -> OutcomesView:
    """Return what the outcomes say: coverage, PIT and log score by week, and whether the intervals hold."""
    return summary.of_model(session, owner, model_id)


@router.delete("/{model_id}/outcomes", status_code=204, responses=responses())
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
    engine: TheEngine,
    transactions: TheTransactions,
    owner: Owner,
    idempotent: TheIdempotentRequest,
) -> Response:
    """Calibrate a model's intervals by its outcomes: `interval=calibrated` then answers accordingly.

    Its draws and other answers stay as they are; monitoring starts afresh with the outcomes that follow.
    """

    def make() -> StoredResponse:
        with transactions() as session:
            view = recalibration.recalibrate(session, owner, model_id, body.since)
            answer = StoredResponse(200, {}, views.to_json(view))
            idempotent.remember(session, answer)
            return answer

    return render(once(engine, idempotent, make))


@router.post(
    "/{model_id}/outcomes/refit", status_code=202, response_model=ModelView, responses=responses(409, 415)
)
@needs(TRAIN)
def refit_with_outcomes(
    model_id: str,
    body: OutcomesRefitBody,
    engine: TheEngine,
    transactions: TheTransactions,
    settings: TheSettings,
    owner: Owner,
    acceptance: TheAcceptance,
) -> Response:
    """Fit a new model with the settings of another to its dataset and its outcomes, a new dataset.

    Without a `name` it gets that of the other, and predicts under it once it has succeeded.
    """

    def make() -> StoredResponse:
        with refit.grown(
            engine,
            owner,
            model_id,
            called=body.name,
            holdout=body.holdout,
            since=body.since,
            max_bytes=settings.max_body_bytes,
        ) as grown:
            plan = creation.plan(engine, owner, grown.request, slots=health.slots_now(engine, settings))
            with transactions() as session:
                return acceptance.of(session, creation.accept(session, owner, plan))

    return render(once(engine, acceptance.request, make))
