"""Amended copies of datasets over HTTP."""

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from app.api.datasets import ProfiledDatasetView
from app.services import amendments, datasets
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import TRAIN
from app.services.amendments import ColumnChangeRequest, MissingValue
from app.services.readers.options import Options
from app.services.request_bodies import StrictBody
from app.web.dependencies import Owner, TheEngine, TheSettings, TheTransactions
from app.web.errors import responses
from app.web.idempotency import TheIdempotentRequest, render
from app.web.json_body import StrictRoute
from app.web.scopes import needs
from sampler.host.data import DateOrder, Decimal

router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=StrictRoute)


class AmendRequest(StrictBody):
    """Changes of a dataset, by column."""

    columns: Annotated[dict[str, ColumnChangeRequest], Field(fail_fast=True)] = Field(
        default={}, description="Changes by column."
    )
    missing: Annotated[list[MissingValue], Field(max_length=100)] = Field(
        default=[], description="Values that mean missing in every column of text or numbers."
    )
    decimal: Decimal | None = Field(
        None, description="The decimal sign of texts that become numbers, where the file shows none."
    )
    dates: DateOrder | None = Field(
        None, description="The order of texts that become dates, where the file shows none."
    )
    wide: Literal["long"] | None = Field(
        None,
        description="`long` makes a row of each cell of the columns that are named by times, with columns "
        "time and value; it is the only change of its request.",
    )
    name: str | None = Field(None, description="The name of the new dataset; defaults to that of the old.")


@router.post(
    "/{dataset_id}/amend",
    status_code=201,
    response_model=ProfiledDatasetView,
    responses=responses(409, 413, 415),
)
@needs(TRAIN)
def amend_dataset(
    dataset_id: str,
    body: AmendRequest,
    engine: TheEngine,
    transactions: TheTransactions,
    owner: Owner,
    settings: TheSettings,
    idempotent: TheIdempotentRequest,
) -> Response:
    """Copy a dataset with other kinds, values read as missing, or made long; no second upload is needed.

    Texts become numbers, booleans or dates by the rules of an upload; 422 names the column and row of a
    value that doesn't. The old dataset stays as it is.
    """
    called = None if body.name is None else datasets.name_for(body.name, None)

    def make() -> StoredResponse:
        with (
            amendments.amended(
                engine,
                owner,
                dataset_id,
                body.columns,
                [str(value) for value in body.missing],
                Options(decimal=body.decimal, dates=body.dates, wide=body.wide),
                max_bytes=settings.max_body_bytes,
            ) as (old, parsed),
            transactions() as session,
        ):
            dataset = datasets.save(session, owner, parsed, called or old.name)
            view = ProfiledDatasetView.of(dataset).model_dump_json().encode()
            answer = StoredResponse(201, {"Location": f"/datasets/{dataset.id}"}, view)
            idempotent.remember(session, answer)
            return answer

    return render(once(engine, idempotent, make))
