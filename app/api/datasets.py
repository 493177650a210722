"""Datasets over HTTP."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.deps import Owner, Reading, Writing
from app.api.problems import responses
from app.api.uploads import OPENAPI, Upload
from app.services import datasets
from app.services.pages import MAX_LIMIT

router = APIRouter(prefix="/datasets", tags=["datasets"])

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items on a page.")]
Cursor = Annotated[
    str | None, Query(max_length=500, description="`next_cursor` of the page before; none: the newest.")
]


class ColumnView(BaseModel):
    """What a column holds."""

    model_config = ConfigDict(extra="ignore")

    name: str
    kind: str = Field(description="number, boolean, category, text (over 50 levels), date or unusable.")
    missing: int = Field(description="Rows without a value.")
    distinct: int
    min: float | str | None = Field(description="Of numbers; dates as ISO 8601 text.")
    max: float | str | None
    levels: list[str] = Field(description="Of a category.")
    note: str = Field(description="What may be wrong with it; empty when nothing is.")


class DatasetView(BaseModel):
    """A dataset and its inferred schema."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    num_rows: int
    columns: list[ColumnView]
    warnings: list[str]
    num_bytes: int = Field(description="As stored.")
    created_at: datetime


class DatasetPage(BaseModel):
    """Some datasets, newest first."""

    model_config = ConfigDict(from_attributes=True)

    items: list[DatasetView]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


class Preview(BaseModel):
    """The first rows."""

    rows: list[dict[str, Any]]


@router.post("", status_code=201, openapi_extra=OPENAPI, responses=responses(400, 413, 415))
def upload(
    received: Upload,
    session: Writing,
    owner: Owner,
    response: Response,
    name: Annotated[str | None, Query(description="What to call it; else the file's name.")] = None,
) -> DatasetView:
    """Upload a CSV file with a header: as the raw body (text/csv) or as a multipart file.

    The delimiter (comma, semicolon, tab or bar) is found by itself. Empty cells, NA, N/A, NaN, null, None, ?
    and the like are missing values. 422 names the column and row of what can't be used.
    """
    called = datasets.name_for(received.name if name is None else name, received.filename)
    parsed = datasets.parse(received.file)  # before the session is used: no transaction waits for this
    dataset = datasets.save(session, owner, parsed, called)
    response.headers["Location"] = f"/datasets/{dataset.id}"
    return DatasetView.model_validate(dataset)


@router.get("", responses=responses())
def list_datasets(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> DatasetPage:
    """Your datasets, newest first."""
    return DatasetPage.model_validate(datasets.list_page(session, owner, limit, cursor))


@router.get("/{dataset_id}", responses=responses())
def get_dataset(dataset_id: str, session: Reading, owner: Owner) -> DatasetView:
    """A dataset and its inferred schema."""
    return DatasetView.model_validate(datasets.get(session, owner, dataset_id))


@router.get("/{dataset_id}/preview", responses=responses())
def preview(
    dataset_id: str,
    session: Reading,
    owner: Owner,
    rows: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 20,
) -> Preview:
    """The first rows."""
    return Preview(rows=datasets.preview(session, owner, dataset_id, rows))


@router.delete("/{dataset_id}", status_code=204, responses=responses(409))
def delete_dataset(dataset_id: str, session: Writing, owner: Owner) -> None:
    """Remove a dataset; 409 while a model was or is being fitted to it."""
    datasets.delete(session, owner, dataset_id)
