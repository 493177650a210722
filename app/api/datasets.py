"""Datasets over HTTP."""

from datetime import datetime
from itertools import repeat
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from app.services import datasets
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.readers.options import Format
from app.web.dependencies import Deleting, Owner, Reading, TheEngine, TheSettings, TheTransactions
from app.web.errors import responses
from app.web.idempotency import IdempotencyKey, of_file, render
from app.web.paging import Cursor, Limit
from app.web.read_options import UploadQuery
from app.web.scopes import ANY_UPLOAD, GuardedRoute, needs
from app.web.uploads import OPENAPI, Upload
from sampler.host.data import DateOrder

router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=GuardedRoute)


class ColumnView(BaseModel):
    """Summary of a column."""

    model_config = ConfigDict(extra="ignore")

    name: str
    kind: str = Field(description="number, boolean, category, text (over 50 levels), date or unusable.")
    missing: int = Field(description="Rows without a value.")
    distinct: int
    min: float | str | None = Field(description="The smallest number; dates as ISO 8601 text.")
    max: float | str | None
    levels: list[str] = Field(description="The levels of a category.")
    order: list[str] = Field(
        default=[],
        description="Levels from the lowest to the highest, of an ordered dictionary of Arrow or Parquet.",
    )
    note: str = Field(description="A possible problem with the column; empty if there is none.")


class HistogramView(BaseModel):
    """Counts of values between edges; the last bin includes its upper edge."""

    edges: list[float] | list[str] = Field(description="One more than the counts; dates as ISO 8601 text.")
    counts: list[int]


class FrequentView(BaseModel):
    """One value and its number of rows."""

    value: bool | float | str = Field(description="Dates as ISO 8601 text; long texts end in three dots.")
    count: int


class ProfileView(BaseModel):
    """Distribution of a column, computed at upload."""

    mean: float | None = Field(description="The mean of numbers; for booleans the share of true values.")
    sd: float | None = Field(description="The standard deviation of numbers.")
    quantiles: dict[str, float | str] = Field(
        description="Quantiles of numbers and dates, by level (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)."
    )
    histogram: HistogramView | None = Field(description="For numbers and dates.")
    top: list[FrequentView] = Field(description="The ten most frequent values, most frequent first.")
    missing_codes: list[FrequentView] = Field(
        default=[],
        description="Values that probably mean missing: a few texts among numbers, or numbers such as -999 "
        "far from all others. POST /datasets/{id}/amend reads them as missing.",
    )


class ProfiledColumnView(ColumnView):
    """Summary and distribution of a column."""

    profile: ProfileView | None = Field(description="Null for datasets uploaded before profiles existed.")


class MissingView(BaseModel):
    """A spelling of a missing value found in the file."""

    text: str
    count: int


class WideView(BaseModel):
    """Columns that are named by times in equal steps, of a table with a column for each time."""

    columns: int
    first: str
    last: str
    step: str = Field(description="For example: a month.")


class ReadAsView(BaseModel):
    """Report of how the file was read; fields for delimited files are null for other formats."""

    summary: str = Field(
        description="One line, such as: read as: semicolons, UTF-8, 3 columns (3 numbers), 40 rows."
    )
    format: Format
    compression: Literal["gzip", "zip"] | None = Field(description="A zip archive has a single file.")
    sheet: str | None = Field(None, description="The sheet of a workbook that was read.")
    sheets: list[str] | None = Field(None, description="All sheets of a workbook; ?sheet= reads another.")
    encoding: str | None = None
    encoding_guessed: bool | None = Field(
        None, description="Whether the encoding is uncertain: check some words."
    )
    separator: str | None = Field(None, description="Null also for a single column.")
    quoting: str | None = Field(
        None,
        validation_alias=AliasChoices("quote", "quoting"),
        description="The quote character: double, single or none.",
    )
    escape: str | None = Field(
        None, description="How a quote within quotes is written: doubled or backslash."
    )
    header: bool | None = None
    header_line: int | None = Field(None, description="The line of the header, counted from 1.")
    decimal: Literal["point", "comma"] | None = Field(None, description="Null if no column reveals it.")
    decimal_guessed: bool | None = Field(
        None, description="Whether the decimal point is uncertain: 1.234 may be a thousand."
    )
    dates: DateOrder | None = Field(
        None, description="The order of day and month, if a column has such dates."
    )
    missing: list[MissingView] | None = Field(None, description="At most twenty, most frequent first.")
    spellings: list[str] | None = Field(
        None, description="Spellings of missing values that the upload named; null: the usual ones."
    )
    units: dict[str, str] | None = Field(
        None,
        description='Units of numbers that stand beside them in the file, such as "EUR", "%" or "h" (times '
        "read as hours), by column; null where there are none.",
    )
    codes: dict[str, list[str]] | None = Field(
        None, description="Values that an amendment read as missing, by column."
    )
    wide: WideView | None = Field(
        None,
        description="Columns that `wide=long`, or POST /datasets/{id}/amend, makes rows of; null where there "
        "are none.",
    )


class DatasetView(BaseModel):
    """A dataset and its inferred schema."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    num_rows: int
    columns: list[ColumnView]
    read_as: ReadAsView | None = Field(
        description="How the file was read; null for datasets uploaded before this was stored."
    )
    warnings: list[str]
    num_bytes: int = Field(description="The stored size.")
    created_at: datetime


class ProfiledDatasetView(DatasetView):
    """A dataset, its inferred schema, and the distribution of each column."""

    columns: list[ProfiledColumnView]  # type: ignore[assignment]

    @classmethod
    def of(cls, dataset: Any) -> Self:
        """Make the view of a stored dataset whose profiles are loaded."""
        profiles = dataset.profiles or repeat(None)
        columns = [
            {**column, "profile": profile} for column, profile in zip(dataset.columns, profiles, strict=False)
        ]
        return cls.model_validate({**DatasetView.model_validate(dataset).model_dump(), "columns": columns})


class DatasetPage(BaseModel):
    """A page of datasets, newest first."""

    model_config = ConfigDict(from_attributes=True)

    items: list[DatasetView]
    next_cursor: str | None = Field(description="The cursor of the next page; null on the last page.")


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
    key: IdempotencyKey = None,
) -> Response:
    """Upload a table: CSV or similar, a workbook (.xlsx, .xls, .ods), JSON records, Parquet, or Arrow.

    Send it as the raw body or as a multipart file, perhaps compressed with gzip or alone in a zip archive;
    what it is, is recognised by its content. Of a workbook the first sheet with a table is read, or `sheet`.
    The format of a delimited file (separator, quotes, encoding, decimal sign, spellings of missing values) is
    detected and reported in `read_as`; each can be set by a parameter instead. 422 names the column and row
    of unusable data.
    """
    called = datasets.name_for(received.name if query.name is None else query.name, received.filename)
    options = query.options(received.promised)
    claims = (received.name, received.filename, str(received.promised))
    idempotent = of_file(request, owner, key, received.file, *claims)

    def make() -> StoredResponse:
        # The file is read before the transaction begins, which stays short.
        with (
            datasets.parse_upload(received.file, options, settings.max_body_bytes) as parsed,
            transactions() as session,
        ):
            dataset = datasets.save(session, owner, parsed, called)
            view = ProfiledDatasetView.of(dataset).model_dump_json().encode()
            answer = StoredResponse(201, {"Location": f"/datasets/{dataset.id}"}, view)
            idempotent.remember(session, answer)
            return answer

    return render(once(engine, idempotent, make))


@router.get("", responses=responses())
@needs(READ)
def list_datasets(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> DatasetPage:
    """List your datasets, newest first."""
    return DatasetPage.model_validate(datasets.list_page(session, owner, limit, cursor))


@router.get("/{dataset_id}", responses=responses())
@needs(READ)
def get_dataset(dataset_id: str, session: Reading, owner: Owner) -> ProfiledDatasetView:
    """Return a dataset, its inferred schema, and the distribution of each column."""
    return ProfiledDatasetView.of(datasets.get(session, owner, dataset_id, profiles=True))


@router.get("/{dataset_id}/preview", responses=responses())
@needs(READ)
def preview_dataset(
    dataset_id: str,
    session: Reading,
    owner: Owner,
    rows: Annotated[int, Query(ge=1, le=1000, description="The number of rows.")] = 20,
) -> Preview:
    """Return the first rows."""
    return Preview(rows=datasets.preview(session, owner, dataset_id, rows))


@router.delete("/{dataset_id}", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_dataset(dataset_id: str, session: Deleting, owner: Owner) -> None:
    """Delete a dataset; 409 while a model was or is being fitted to it."""
    datasets.delete(session, owner, dataset_id)
