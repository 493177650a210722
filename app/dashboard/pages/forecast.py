"""Pages of a forecaster: the forecast of a series with totals over a lead time, and the plan to fill in."""

from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.pages.models import Frame, framed_as
from app.dashboard.studio import prepare_to_draw
from app.services import datasets
from app.services.access.keys import PREDICT, READ
from app.services.predictions import forecasts
from app.services.predictions.csv_tables import to_csv
from app.services.predictions.forecasts import ForecastBody
from app.web.dependencies import Owner, Reading, TheGate, ThePredictor
from app.web.negotiation import CSV
from app.web.scopes import GuardedRoute, needs

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)
LEVELS = (0.5, 0.8, 0.9, 0.95)
PLANS = 200  # newest datasets among which plans are found


@router.get("/{model_id}/forecast")
@needs(PREDICT, of_kept_rows=True)
async def show(
    request: Request,
    frame: Annotated[Frame, framed_as("forecast")],
    session: Reading,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    row: Annotated[int, Query(alias="of", ge=0)] = 0,
    lead: Annotated[int | None, Query(ge=1)] = None,
    level: Annotated[float, Query(gt=0, lt=1)] = 0.9,
    known: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show the fan of a series' next steps, its total over a lead time, and rehearsals."""
    found = None

    def work() -> forecasts.ShownForecast:
        body = ForecastBody(known=known or None, level=level)
        return forecasts.shown(predictor, owner, model_id, row, body)

    if frame["model"].verdict:
        found = await gate.run(work)
    listed = datasets.list_page(session, owner, PLANS, None).items if found and found.needed else []
    asked = {"known": known or "ROWS_OF_THE_PLAN"} if found and found.needed else {}
    error = found and found.refused
    horizon = found.horizon if found else 1
    lead = min(lead or horizon, horizon)
    body = asked | {"level": level, "totals": [{"steps": [1, lead]}]}
    call = snippets.call("forecast", model_id, *asked.values(), level=level)
    return render.render(
        request.scope,
        "model_forecast.html",
        status=200 if error is None else 422,
        **frame,
        found=found,
        error=error,
        row=row,
        lead=lead,
        level=level,
        levels=LEVELS,
        known=known,
        plans=[
            each
            for each in listed
            if found is not None and {*found.needed} <= {column["name"] for column in each.columns}
        ],
        checksum=(frame["model"].diagnostics or {}).get("checksum", ""),
        snippets=snippets.ask(request, f"/models/{model_id}/forecast", call, method="POST", body=body),
    )


@router.get("/{model_id}/plan.csv")
@needs(READ)
async def plan_to_fill_in(predictor: ThePredictor, gate: TheGate, owner: Owner, model_id: str) -> Response:
    """Return the times and series of a plan, with empty columns of what is known ahead, as CSV."""
    plan = await gate.run(lambda: forecasts.template(predictor, owner, model_id))
    headers = {"Content-Disposition": 'attachment; filename="plan.csv"', "Cache-Control": "no-store"}
    return Response(to_csv(pa.table(plan.columns)), media_type=CSV, headers=headers)
