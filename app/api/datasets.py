"""Datasets over HTTP."""

from datetime import datetime
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from app.services import datasets
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.readers.options import DateOrder
from app.web.dependencies import Deleting, Owner, Reading, TheEngine, TheSettings, TheTransactions
from app.web.errors import responses
from app.web.idempotency import Key, of_file, render
from app.web.paging import Cursor, Limit
from app.web.read_options import UploadQuery
from app.web.scopes import ANY_UPLOAD, GuardedRoute, needs
from app.web.uploads import OPENAPI, Upload

if TYPE_CHECKING:
    from app.store.tables import Dataset

router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=GuardedRoute)


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


class HistogramView(BaseModel):
    """How often values lie between edges; the last bin holds its upper edge too."""

    edges: list[float] | list[str] = Field(description="One more than counts; of dates as ISO 8601 text.")
    counts: list[int]


class FrequentView(BaseModel):
    """One value and the rows that have it."""

    value: bool | float | str = Field(description="Dates as ISO 8601 text; long texts end in three dots.")
    count: int


class ProfileView(BaseModel):
    """A column in more figures, made at its upload."""

    mean: float | None = Field(description="Of numbers; of booleans the share of true ones.")
    sd: float | None = Field(description="Of numbers.")
    quantiles: dict[str, float | str] = Field(
        description="Of numbers and dates, by level (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)."
    )
    histogram: HistogramView | None = Field(description="Of numbers and dates.")
    top: list[FrequentView] = Field(description="The ten most frequent values, most frequent first.")


class ProfiledColumnView(ColumnView):
    """What a column holds, in more figures."""

    profile: ProfileView | None = Field(description="null for what was uploaded before there were any.")


class MissingView(BaseModel):
    """A spelling of a missing value that the file has."""

    text: str
    count: int


class ReadAsView(BaseModel):
    """How the file was understood; what belongs to delimited files is null for others."""

    summary: str = Field(
        description="In a line, as: read as: semicolons, UTF-8, 3 columns (3 numbers), 40 rows."
    )
    format: Literal["csv", "parquet", "arrow"]
    compression: Literal["gzip"] | None
    encoding: str | None = None
    encoding_guessed: bool | None = Field(None, description="It might be another: look at the letters.")
    separator: str | None = Field(None, description="Also null for a single column.")
    quoting: str | None = Field(
        None,
        validation_alias=AliasChoices("quote", "quoting"),
        description="What encloses values: double, single or none.",
    )
    escape: str | None = Field(
        None, description="How a quote is written within quotes: doubled or backslash."
    )
    header: bool | None = None
    header_line: int | None = Field(None, description="Where the header stands, counted from 1.")
    decimal: Literal["point", "comma"] | None = Field(None, description="null where nothing tells.")
    dates: DateOrder | None = Field(None, description="The order of dates, where some have it.")
    missing: list[MissingView] | None = Field(None, description="At most twenty, most frequent first.")


class DatasetView(BaseModel):
    """A dataset and its inferred schema."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    num_rows: int
    columns: list[ColumnView]
    read_as: ReadAsView | None = Field(
        description="How the file was understood; null for what was uploaded before this was kept."
    )
    warnings: list[str]
    num_bytes: int = Field(description="As stored.")
    created_at: datetime


class ProfiledDatasetView(DatasetView):
    """A dataset, its inferred schema, and the figures of each column."""

    columns: list[ProfiledColumnView]  # type: ignore[assignment]

    @classmethod
    def of(cls, dataset: "Dataset") -> Self:
        """The view of a dataset whose profiles were read."""
        profiles = dataset.profiles or repeat(None)
        columns = [
            {**column, "profile": profile} for column, profile in zip(dataset.columns, profiles, strict=False)
        ]
        return cls.model_validate({**DatasetView.model_validate(dataset).model_dump(), "columns": columns})


class DatasetPage(BaseModel):
    """Some datasets, newest first."""

    model_config = ConfigDict(from_attributes=True)

    items: list[DatasetView]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


class Preview(BaseModel):
    """The first rows."""

    rows: list[dict[str, Any]]


@router.post(
    "",
    status_code=201,
    response_model=ProfiledDatasetView,
    openapi_extra=OPENAPI,
    responses=responses(400, 409, 413, 415),
)
@needs(TRAIN, body=ANY_UPLOAD)
def upload_dataset(
    request: Request,
    received: Upload,
    engine: TheEngine,
    transactions: TheTransactions,
    owner: Owner,
    settings: TheSettings,
    query: Annotated[UploadQuery, Query()],
    key: Key = None,
) -> Response:
    """Upload a table: CSV and its like, Parquet, or an Arrow stream or file, also compressed with gzip.

    As the raw body, or as a multipart file. How a delimited file is written (its separator, quotes, encoding,
    decimal sign, spellings of missing values) is found by itself and told in `read_as`; each can be said as a
    parameter instead. 422 names the column and row of what can't be used.
    """
    called = datasets.name_for(received.name if query.name is None else query.name, received.filename)
    options = query.options(received.promised)
    told = (received.name, received.filename, str(received.promised))
    asked = of_file(request, owner, key, received.file, *told)

    def make() -> StoredResponse:
        # The file is read before the transaction begins: none waits for it.
        with (
            datasets.parsed(received.file, options, settings.max_body_bytes) as parsed,
            transactions() as session,
        ):
            dataset = datasets.save(session, owner, parsed, called)
            view = ProfiledDatasetView.of(dataset).model_dump_json().encode()
            answer = StoredResponse(201, {"Location": f"/datasets/{dataset.id}"}, view)
            asked.remember(session, answer)
            return answer

    return render(once(engine, asked, make))


@router.get("", responses=responses())
@needs(READ)
def list_datasets(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> DatasetPage:
    """Your datasets, newest first."""
    return DatasetPage.model_validate(datasets.list_page(session, owner, limit, cursor))


@router.get("/{dataset_id}", responses=responses())
@needs(READ)
def get_dataset(dataset_id: str, session: Reading, owner: Owner) -> ProfiledDatasetView:
    """A dataset, its inferred schema, and the figures of each column."""
    return ProfiledDatasetView.of(datasets.get(session, owner, dataset_id, profiles=True))


@router.get("/{dataset_id}/preview", responses=responses())
@needs(READ)
def preview_dataset(
    dataset_id: str,
    session: Reading,
    owner: Owner,
    rows: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 20,
) -> Preview:
    """The first rows."""
    return Preview(rows=datasets.preview(session, owner, dataset_id, rows))


@router.delete("/{dataset_id}", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_dataset(dataset_id: str, session: Deleting, owner: Owner) -> None:
    """Remove a dataset; 409 while a model was or is being fitted to it."""
    datasets.delete(session, owner, dataset_id)
