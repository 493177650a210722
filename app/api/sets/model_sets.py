"""Sets of models over HTTP: creating, viewing, predicting, deleting them."""

from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from app.api.forecasts import as_table, tables
from app.api.predict import (
    TABLES,
    FiguresByRow,
    FormOfAnswer,
    IntervalView,
    LevelsInQuery,
    QuantileView,
    RowsQuery,
    SetView,
    check_form,
    rendered,
)
from app.services import health
from app.services.access.idempotency import StoredResponse
from app.services.access.keys import PREDICT, READ, TRAIN
from app.services.model_sets import forecasting, predicting, stored
from app.services.model_sets.forecasting import (
    SeriesOfGroups,
    SetForecastBody,
    SetForecastView,
    SetPredictionsView,
)
from app.services.model_sets.predicting import SetOptions, SetPredictBody
from app.services.model_sets.stored import ModelSetPage, ModelSetRequest, ModelSetView, SetModelPage
from app.services.predictions.file_rows import RowsReadAsView
from app.services.predictions.rows import SentRows
from app.services.request_bodies import StrictBody
from app.services.views import State
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
from app.web.json_body import StrictRoute
from app.web.json_pieces import written
from app.web.negotiation import JSON, MediaType
from app.web.paging import Cursor, Limit
from app.web.rows_route import OPENAPI, FileRequest, RowsRoute, refuse_misplaced
from app.web.scopes import MAX_JSON_BYTES, needs

router = APIRouter(prefix="/model-sets", tags=["sets"], route_class=StrictRoute)
rows_router = APIRouter(prefix="/model-sets", tags=["sets"], route_class=RowsRoute)
LOOK_AGAIN = "5"  # Retry-After in seconds for the state of a new set


class SetPredictionsBody(StrictBody):
    """A question to the models of a set, answered in the background."""

    forecast: SeriesOfGroups = Field(description="The next steps of series, by the forecasters of a set.")


class SetPredictQuery(SetOptions, RowsQuery):
    """Requested figures and reading options as query parameters, for rows in a file."""

    level: LevelsInQuery = Field([0.9])


class FlagInSetView(BaseModel):
    """One unusual cell of a row."""

    column: str
    flag: Literal["outside_range", "unseen_level", "missing", "few_draws", "unknown_group"] = Field(
        description="As of predictions by one model; unknown_group: no model has these rows."
    )


class RoutedPredictionView(BaseModel):
    """Predictions, in the order of the rows, each by the model of its row's group."""

    set_id: str
    model_ids: list[str | None] = Field(description="By row; null where no model has its group.")
    draws: int = Field(description="Kept draws used per chain, of the model that has fewest.")
    interval: Literal["credible", "predictive", "calibrated"]
    classes: list[str] | None = Field(description="As of predictions by one model.")
    mean: FiguresByRow
    sd: FiguresByRow
    intervals: list[IntervalView]
    quantiles: list[QuantileView]
    sets: list[SetView] | None = Field(None, description="Prediction sets of classes, by level.")
    flags: list[list[FlagInSetView]] = Field(description="Unusual cells of each row, at most ten per row.")
    warnings: list[str]
    read_as: RowsReadAsView | None = Field(None, description="How a file was read; absent for JSON rows.")


@router.post("", status_code=202, response_model=ModelSetView, responses=responses(409, 413, 415))
@needs(TRAIN)
def create_model_set(
    body: ModelSetRequest,
    settings: TheSettings,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Fit a model to each group of a dataset's rows in the background; `Location` is the URL of the set.

    Each model is that of `POST /models` for the group's rows alone, with the same settings and seed. A group
    whose fit is refused or fails is listed with the reason, and the others go on. The request is refused
    where the first groups are.
    """

    def make() -> StoredResponse:
        engine = change.engine
        planned = stored.plan(engine, owner, body, slots=health.slots_now(engine, settings))
        with change.transactions() as session:
            made = stored.accept(session, owner, planned)
            return change.queued(session, made, "/model-sets", look_again=LOOK_AGAIN)

    return change.once(make)


@router.get("", responses=responses())
@needs(READ)
def list_model_sets(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> ModelSetPage:
    """List your sets of models, newest first."""
    return stored.list_page(session, owner, limit, cursor)


@router.get("/{set_id}", responses=responses())
@needs(READ)
def get_model_set(set_id: str, session: Reading, owner: Owner) -> ModelSetView:
    """Return a set of models with its progress."""
    return stored.view(session, owner, set_id)


@router.get("/{set_id}/models", responses=responses())
@needs(READ)
def list_models_of_set(
    set_id: str,
    session: Reading,
    owner: Owner,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: Annotated[
        str | None, Query(max_length=200, description="A part of the group's name, in any case.")
    ] = None,
    state: Annotated[State | None, Query(description="Of the models.")] = None,
) -> SetModelPage:
    """List the models of a set by group, in the order in which the groups come in the dataset.

    Each is a model like others, at `/models/{model_id}`; those of sets are listed here alone.
    """
    return stored.models_page(session, owner, set_id, limit, cursor, search=search, state=state)


@rows_router.post(
    "/{set_id}/predict",
    response_model=RoutedPredictionView,
    responses={**responses(406, 409, 413, 415), **TABLES},
    openapi_extra=OPENAPI,
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def predict_by_group(
    set_id: str,
    request: Request,
    body: SetPredictBody,
    query: Annotated[SetPredictQuery, Query()],
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    form: FormOfAnswer,
) -> Response:
    """Predict new rows, each by the model of its group, which columns of the rows tell.

    Groups are found by any spelling of their values: 3, 3.0 and "3" are one. Rows of at most 1,000 groups.
    Rows may also come as CSV, Parquet or an Arrow stream, with the options as query parameters, and answers
    as tables, as for one model.
    """

    def answered(options: SetOptions, sent: SentRows, form: MediaType) -> Response:
        routed = predicting.predict(predictor, owner, set_id, options, sent)
        if form == JSON:
            return Response(written(routed.to_json()), media_type=JSON)
        return rendered(routed.answer, form, options)

    if not isinstance(request, FileRequest):
        refuse_misplaced(query)
        of_answer = check_form(body, form)
        return await gate.run(lambda: answered(body, SentRows(body.rows, body.columns), of_answer))
    options = query.options(request.promised)
    of_answer = check_form(query, form, query.keep)

    def work(file: BinaryIO) -> Response:
        return answered(query, SentRows(file=(file, options), keep=query.keep), of_answer)

    return await gate.run(await request.reading(work))


@router.post(
    "/{set_id}/forecast",
    response_model=SetForecastView,
    responses={**responses(406, 409, 413, 415), **tables("JSON or, by `Accept`, one table of all groups.")},
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def forecast_by_group(
    set_id: str,
    body: SetForecastBody,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    form: FormOfAnswer,
) -> Response:
    """Forecast the series of groups, each by the forecaster of its group.

    A plan has the columns that tell a row's group too. Totals are of a group each.
    """

    def work() -> Response:
        answer = forecasting.forecast(predictor, owner, set_id, body)
        if form == JSON:
            return Response(written(answer.view()), media_type=JSON)
        headers = {"Bartserve-Set-Id": answer.set_id}
        return as_table(answer.table(), form, "forecast", headers)

    return await gate.run(work)


@router.post(
    "/{set_id}/predictions",
    status_code=202,
    response_model=SetPredictionsView,
    responses=responses(409, 413, 415),
)
@needs(PREDICT)
def create_predictions_of_set(
    set_id: str,
    body: SetPredictionsBody,
    predictor: ThePredictor,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Forecast any number of series of groups in the background, each by the forecaster of its group.

    The plan is a dataset with the columns that tell a row's group too. Each group is a prediction of its own,
    with a result of its own (GET /predictions/{prediction_id}/result).
    """

    def make() -> StoredResponse:
        of, plans = forecasting.plan_all(predictor, owner, set_id, body.forecast)
        with change.transactions() as session:
            view = forecasting.accept_all(session, owner, of, plans)
            return change.queued(session, view, None, units=len(plans), look_again=LOOK_AGAIN)

    return change.once(make)


@router.get(
    "/{set_id}/forecast/template",
    response_model=dict[str, list[Any]],
    responses={**responses(406, 409, 413), **tables("Columns by name or, by `Accept`, a table.")},
)
@needs(READ)
async def get_template_of_set(
    set_id: str, predictor: ThePredictor, gate: TheGate, owner: Owner, form: FormOfAnswer
) -> Response:
    """Return the rows of a plan for the forecasters of a set, with the columns that tell a group."""

    def work() -> Response:
        plan = forecasting.template(predictor, owner, set_id)
        if form == JSON:
            return Response(written(plan.to_pydict()), media_type=JSON)
        return as_table(plan, form, "plan", {})

    return await gate.run(work)


@router.post("/{set_id}/cancel", responses=responses(409))
@needs(TRAIN)
def cancel_model_set(set_id: str, session: Writing, owner: Owner) -> ModelSetView:
    """Cancel a set: no further models are made, queued ones end, and running ones stop at their next slice.

    Models that have succeeded stay, and answer for their groups.
    """
    return stored.cancel(session, owner, set_id)


@router.delete("/{set_id}", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_model_set(set_id: str, session: Deleting, predictor: ThePredictor, owner: Owner) -> None:
    """Delete a set with all its models, whatever their state; running fits stop.

    409 for a name that several sets share.
    """
    for model_id in stored.delete(session, owner, set_id):
        predictor.cache.drop(model_id)
