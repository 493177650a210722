"""A new fit to a model's dataset, with the rows appended whose outcomes became known."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from math import ceil
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
from sqlalchemy import Engine

from app.services import datasets
from app.services.datasets import Parsed
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError, UnusableDataError
from app.services.explanations.guard import check_succeeded
from app.services.fits import models
from app.services.fits.requests import FitRequest, request_like
from app.services.outcomes.rows import storable
from app.services.outcomes.summary import week_since
from app.services.readers.options import Options
from app.services.readers.values.typing_text import Typing
from app.store import datasets as dataset_store
from app.store import models as model_store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from app.store.outcomes import reports as store
from app.store.outcomes import watches
from app.store.tables import Dataset
from sampler.host.data import FileDialect, read_column
from sampler.host.forecasts import history_of
from sampler.host.settings import every_feature

if TYPE_CHECKING:
    from sampler import DataProblem

LONGEST_NAME = 150


@dataclass(frozen=True)
class GrownDataset:
    """A new dataset of a model's rows and its outcomes, and the request for a fit to it."""

    dataset_id: str
    rows: int  # number of appended rows
    request: FitRequest


@contextmanager
def grown(
    engine: Engine,
    owner: str,
    name: str,
    *,
    called: str | None = None,
    holdout: float | None = None,
    since: date | None = None,
    promote: str | None = None,
    max_bytes: int,
) -> Iterator[GrownDataset]:
    """Store the dataset of a model with its outcomes appended; it is deleted if the block fails.

    Parameters
    ----------
    name
        Id or name of the model, whose settings the new fit has.
    called
        Name of the new model; None: that of the old.
    holdout
        Share of the rows held out; None: as of the old model.
    since
        Date from whose week on outcomes count; None: all.
    promote
        Whether the name moves to the new model (`worker.fits.promotion`); None: in any case, uncompared.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or has not finished.
    ConflictError
        It was imported, so that its dataset isn't here, or has no outcomes.
    InvalidRequestError
        `since` is given for a forecaster, which is fitted again to its whole history.
    UnusableDataError
        An outcome's value doesn't fit its column of the dataset.
    QuotaError
        The owner's quota of stored bytes is exhausted.
    """
    with session_scope(engine, read_only=True) as session:
        model = models.get(session, owner, name)
        check_succeeded(model)
        begun = watches.get(session, model.id)
        week = None if since is None else week_since(session, model, begun, since)
        header = model_store.header(session, model.id) if model.settings.get("time") else None
    if header is not None and since is not None:
        message = "a forecaster is fitted again to its whole history: leave it out"
        raise InvalidRequestError(errors=[Fault("since", None, message, "not_applicable")])
    share = float(model.settings.get("holdout") or 0.0) if holdout is None else holdout
    request = request_like(engine, owner, model.id, holdout=share, name=called, promote=promote)
    with session_scope(engine, read_only=True) as session:
        dataset = datasets.get(session, owner, request.dataset_id)
        tables = list(store.tables(session, model.id, week)) if header is None else []
    rows = sum(table.num_rows for table in tables)
    if header is not None:
        tables = [pa.table(history_of(header).rows())]
        rows = tables[0].num_rows - dataset.num_rows
    if rows <= 0:
        raise ConflictError(
            "The model has no outcomes to fit again with: POST /models/{id}/outcomes reports them."
        )
    reading = _reading_of_ignored(dataset, request)
    typed = [_typed(table, reading) for table in tables]
    extended = _saved(engine, owner, dataset, typed, max_bytes, whole=header is not None)
    try:
        yield GrownDataset(extended.id, rows, replace(request, dataset_id=extended.id))
    except BaseException:
        with session_scope(engine) as session:
            datasets.delete(session, owner, extended.id)
        raise


def _saved(
    engine: Engine, owner: str, dataset: Dataset, tables: Sequence[pa.Table], max_bytes: int, *, whole: bool
) -> Dataset:
    """Save tables in the columns of a dataset: after its rows, or in their place where they are `whole`."""
    kinds = {column["name"]: column["kind"] for column in dataset.columns}
    with TemporaryFile() as file:
        _write(engine, dataset, tables, file, whole=whole)
        file.seek(0)
        with datasets.parse_upload(file, Options(format="arrow", kinds=kinds), max_bytes=max_bytes) as parsed:
            return _save(engine, owner, dataset, parsed)


def _save(engine: Engine, owner: str, dataset: Dataset, parsed: Parsed) -> Dataset:
    name = f"{dataset.name[:LONGEST_NAME]} with outcomes"
    grown = datasets.reported_as(dataset, parsed)
    grown = replace(grown, encoded=replace(parsed.encoded, spellings=None))  # outcomes have no text of a file
    with session_scope(engine) as session:
        return datasets.save(session, owner, grown, name)


def _reading_of_ignored(dataset: Dataset, request: FitRequest) -> Options | None:
    """Return how columns that the model doesn't use are read, which reports have as text.

    None for a dataset of another source than a delimited file.
    """
    report = dataset.read_as or {}
    if report.get("format") != "csv":
        return None
    used = {*request.reserved, *(every_feature(request.data.get("features")) or ())}
    kinds = {each["name"]: each["kind"] for each in dataset.columns if each["name"] not in used}
    return Options(kinds=kinds, known=tuple(kinds)).for_rows_of(FileDialect.of_report(report))


def _typed(table: pa.Table, reading: Options | None) -> pa.Table:
    """Convert text of ignored columns as at the upload of the dataset; raise UnusableDataError."""
    if reading is None:
        return table
    typing = Typing(reading)
    for at, name in enumerate(table.column_names):
        text = table.column(name)
        if name in reading.kinds and pa.types.is_string(text.type):
            typed = typing.read(name, text, last=True)
            assert typed is not None
            table = table.set_column(at, name, typed[0])
    if typing.faults:
        raise UnusableDataError(
            errors=[
                replace(each, row=None, detail=f"in the outcomes, {each.detail}") for each in typing.faults
            ]
        )
    return table


def _write(
    engine: Engine, dataset: Dataset, tables: Sequence[pa.Table], file: BinaryIO, *, whole: bool
) -> None:
    """Write the dataset block by block as an Arrow stream, then tables in its columns, or these alone."""
    names = [column["name"] for column in dataset.columns]
    with ExitStack() as stack:
        schema = writer = None
        for seq in range(max(ceil(dataset.num_rows / dataset_store.BLOCK_ROWS), 1)):
            try:
                with session_scope(engine, read_only=True) as session:
                    table = dataset_store.read_block(session, dataset.id, names, seq)
            except (KeyError, DatasetGoneError) as error:
                raise NotFoundError(str(error)) from None
            if writer is None or schema is None:
                schema = table.schema
                writer = stack.enter_context(pa.ipc.new_stream(file, schema))
            if whole:  # of the dataset its columns alone
                break
            writer.write_table(table)
        assert writer is not None
        assert schema is not None, "a dataset has a block at least"
        for table in tables:
            writer.write_table(_as(table, schema))


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Arrange a report's values in the columns of a dataset; those that it lacks are missing."""
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(_cast(table.column(field.name), field))
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.table(columns, schema=schema)


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    problems: list[DataProblem] = []
    stored = storable(read_column(values, field.name), _kind_of(field.type), problems)
    if problems:
        raise UnusableDataError(
            errors=[Fault(field.name, None, f"in the outcomes, {problem.detail}") for problem in problems]
        )
    try:
        return stored.cast(field.type, safe=not pa.types.is_float64(field.type))
    except pa.ArrowInvalid:
        message = f"outcomes have values in this column that aren't {field.type}, as the dataset's are"
        raise UnusableDataError(errors=[Fault(field.name, None, message)]) from None


def _kind_of(kind: pa.DataType) -> str:
    if pa.types.is_string(kind):
        return "category"
    if pa.types.is_temporal(kind):
        return "date"
    return "boolean" if pa.types.is_boolean(kind) else "number"
