"""Forecasts over HTTP: POST /models/{id}/forecast, the template of its plan, and what rehearsals showed."""

from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Response

from app.api.predict import FormOfAnswer
from app.services.access.keys import PREDICT, READ
from app.services.predictions import forecasts
from app.services.predictions.answers import to_arrow, to_parquet
from app.services.predictions.csv_tables import to_csv
from app.services.predictions.forecasts import ForecastBody, ForecastView, Level, RehearsalsView
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.json_pieces import written
from app.web.negotiation import ARROW, CSV, JSON, PARQUET, MediaType
from app.web.scopes import MAX_JSON_BYTES, needs

router = APIRouter(prefix="/models", tags=["forecasts"], route_class=StrictRoute)


def tables(what: str) -> dict[int | str, dict[str, Any]]:
    """Describe an answer that is JSON or a table."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    described = {"description": what, "content": dict.fromkeys((CSV, ARROW, PARQUET), binary)}
    return {200: described}


@router.post(
    "/{model_id}/forecast",
    response_model=ForecastView,
    responses={
        **responses(406, 409, 413, 415),
        **tables("JSON or, by `Accept`, a table: of the totals if any are asked for, else of the steps."),
    },
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def forecast(
    model_id: str,
    body: ForecastBody,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    form: FormOfAnswer,
) -> Response:
    """Forecast the next steps of series, each after its newest outcome, and totals over them.

    For models fitted with time and horizon. Of a name its newest succeeded model answers. A plan that lacks a
    step is a 422 that names the first. Totals have intervals of their own: those of steps must not be added.
    """

    def work() -> Response:
        answer = forecasts.forecast(predictor, owner, model_id, body)
        if form == JSON:
            return Response(written(answer.view()), media_type=JSON)
        headers = {"Bartserve-Model-Id": answer.model_id, "Bartserve-Claims": answer.claim}
        return as_table(answer.table(), form, "forecast", headers)

    return await gate.run(work)


@router.get(
    "/{model_id}/forecast/template",
    response_model=dict[str, list[Any]],
    responses={**responses(406, 409), **tables("Columns by name or, by `Accept`, a table.")},
)
@needs(READ)
async def get_plan_template(
    model_id: str, predictor: ThePredictor, gate: TheGate, owner: Owner, form: FormOfAnswer
) -> Response:
    """Return the rows of a plan for a forecast: series and times, with the columns known ahead to fill in."""

    def work() -> Response:
        plan = forecasts.template(predictor, owner, model_id)
        if form == JSON:
            return Response(written(plan.columns), media_type=JSON)
        return as_table(pa.table(plan.columns), form, "plan", {"Bartserve-Model-Id": plan.model_id})

    return await gate.run(work)


@router.get("/{model_id}/forecast/rehearsals", responses=responses(409))
@needs(READ)
def get_rehearsals(
    model_id: str, predictor: ThePredictor, owner: Owner, level: Annotated[Level, Query()] = 0.9
) -> RehearsalsView:
    """Return what a forecaster's rehearsals forecast and what came, by origin and step."""
    return forecasts.rehearsals(predictor, owner, model_id, level)


def as_table(table: pa.Table, form: MediaType, name: str, headers: dict[str, str]) -> Response:
    """Return a table in the form that is asked for."""
    if form == ARROW:
        return Response(to_arrow(table), media_type=ARROW, headers=headers)
    if form == PARQUET:
        return Response(to_parquet(table), media_type=PARQUET, headers=headers)
    disposition = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(to_csv(table), media_type=CSV, headers=headers | disposition)
