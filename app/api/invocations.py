"""POST /models/{id}/invocations: predictions in the shapes of MLflow's scoring server."""

from typing import Annotated, BinaryIO

from fastapi import APIRouter, Query, Request, Response

from app.services.access.keys import PREDICT
from app.services.predictions.answers import PredictionAnswer
from app.services.predictions.invocations import InvocationBody, InvocationQuery, InvocationView
from app.services.predictions.options import PredictionOptions
from app.services.predictions.rows import SentRows
from app.services.readers.options import Options
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_pieces import written
from app.web.negotiation import JSON
from app.web.rows_route import OPENAPI, FileRequest, RowsRoute, refuse_misplaced
from app.web.scopes import MAX_JSON_BYTES, needs

router = APIRouter(prefix="/models", tags=["predictions"], route_class=RowsRoute)


@router.post(
    "/{model_id}/invocations",
    response_model=InvocationView,
    responses=responses(409, 413, 415),
    openapi_extra=OPENAPI,
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def invoke(
    model_id: str,
    request: Request,
    body: InvocationBody,
    query: Annotated[InvocationQuery, Query()],
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
) -> Response:
    """Predict rows as an MLflow model does: `dataframe_split`, `dataframe_records`, `inputs`, or a CSV file.

    `params` are `level`, `interval` and `quantiles`; figures and rules of values are those of
    `POST /models/{id}/predict`, which has more options. With a file, level and interval are query parameters.
    """
    if not isinstance(request, FileRequest):
        refuse_misplaced(query)

        def predict() -> Response:
            asked = body.to_body(predictor.max_rows)
            return _answered(predictor.predict(owner, model_id, asked, SentRows(asked.rows, asked.columns)))

        return await gate.run(predict)
    options = Options(format=request.promised)
    asked_of_file = PredictionOptions(level=query.level, interval=query.interval)

    def work(file: BinaryIO) -> Response:
        sent = SentRows(file=(file, options))
        return _answered(predictor.predict(owner, model_id, asked_of_file, sent))

    return await gate.run(await request.reading(work))


def _answered(answer: PredictionAnswer) -> Response:
    interval = answer.prediction.interval
    # A batch becomes rows in one compiled call, in which no other thread runs.
    batches = answer.to_table().to_batches(max_chunksize=1000)
    rows = [row | {"interval": interval} for batch in batches for row in batch.to_pylist()]
    headers = {"Bartserve-Model-Id": answer.model_id, "Bartserve-Verdict": answer.verdict or ""}
    return Response(written({"predictions": rows}), media_type=JSON, headers=headers)
