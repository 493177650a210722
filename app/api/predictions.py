"""Background predictions of stored datasets over HTTP."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import StreamingResponse

from app.api.predict import check_form
from app.services.access.idempotency import StoredResponse
from app.services.access.keys import PREDICT, READ
from app.services.predictions import results, stored
from app.services.predictions.options import TableOptions
from app.services.predictions.stored import BatchBody, BatchPage, BatchView
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheEngine,
    TheGate,
    ThePredictor,
    Writing,
)
from app.web.errors import responses
from app.web.idempotency import TheChange
from app.web.json_body import StrictRoute
from app.web.negotiation import ARROW, CSV, JSON, PARQUET, XLSX, MediaType, chosen_form
from app.web.paging import Cursor, Limit
from app.web.scopes import in_thread, needs

router = APIRouter(tags=["predictions"], route_class=StrictRoute)


@router.post(
    "/models/{model_id}/predictions",
    status_code=202,
    response_model=BatchView,
    responses=responses(409, 413, 415),
)
@needs(PREDICT)
def create_prediction(
    model_id: str,
    body: BatchBody,
    predictor: ThePredictor,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Predict every row of a stored dataset in the background, or forecast any number of series.

    `model_id` may be a name.

    202 means that the prediction is durably accepted; `Location` is its URL, and `Location`/result the URL of
    the result.
    """

    def make() -> StoredResponse:
        plan = stored.plan(predictor, owner, model_id, body)
        with change.transactions() as session:
            return change.queued(session, stored.accept(session, owner, plan), "/predictions")

    return change.once(make)


@router.get("/predictions", responses=responses())
@needs(READ, PREDICT)
def list_predictions(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> BatchPage:
    """List your background predictions, newest first."""
    return stored.list_page(session, owner, limit, cursor)


@router.get("/predictions/{prediction_id}", responses=responses())
@needs(READ, PREDICT)
def get_prediction(prediction_id: str, session: Reading, owner: Owner) -> BatchView:
    """Return a background prediction with its progress."""
    return stored.view(session, owner, prediction_id)


@router.post("/predictions/{prediction_id}/cancel", responses=responses(409))
@needs(PREDICT)
def cancel_prediction(prediction_id: str, session: Writing, owner: Owner) -> BatchView:
    """Cancel a background prediction; finished blocks are discarded."""
    return stored.cancel(session, owner, prediction_id)


@router.delete("/predictions/{prediction_id}", status_code=204, responses=responses())
@needs(PREDICT)
def delete_prediction(prediction_id: str, session: Deleting, owner: Owner) -> None:
    """Delete a background prediction with its result; a running one stops."""
    stored.delete(session, owner, prediction_id)


_WRITE: dict[MediaType, Callable[[results.Result], Iterator[bytes]]] = {
    JSON: results.Result.as_json,
    ARROW: results.Result.as_arrow,
    PARQUET: results.Result.as_parquet,
    XLSX: results.Result.as_workbook,
}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The response of POST /models/{model_id}/predict, without `rows_verdict` and "
        "`samples`; of a forecast its claim and `columns`, a line for each series and step. JSON or, by "
        "`Accept`, a table.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}} for kind in (CSV, ARROW, PARQUET, XLSX)
        }
        | {JSON: {"schema": {"type": "object"}}},
    }
}


@router.get(
    "/predictions/{prediction_id}/result",
    response_class=StreamingResponse,
    responses={**responses(406, 409), **_CONTENT},
)
@needs(READ, PREDICT)
async def get_prediction_result(
    prediction_id: str,
    engine: TheEngine,
    gate: TheGate,
    owner: Owner,
    form: Annotated[MediaType, Depends(chosen_form)],
    query: Annotated[TableOptions, Query()],
) -> StreamingResponse:
    """Stream the predictions, in the order of the dataset's rows."""
    form = check_form(query, form)

    def work() -> StreamingResponse:
        result = results.Result(engine, owner, prediction_id, query.digits)
        style = result.style(query.dialect)
        if form != JSON:
            result.check_tables()
        headers = {} if form == JSON else {"Bartserve-Model-Id": result.prediction.model_id}
        if form in {CSV, XLSX}:
            ending = "csv" if form == CSV else "xlsx"
            headers["Content-Disposition"] = f'attachment; filename="{result.prediction.id}.{ending}"'
        is_csv, as_written = form == CSV, query.dialect == "file"
        content = result.as_csv(style, as_written=as_written) if is_csv else _WRITE[form](result)
        return StreamingResponse(content, media_type=form, headers=headers)

    # A workbook takes a core for seconds before its first byte.
    return await (gate.run(work) if form == XLSX else in_thread(work))
