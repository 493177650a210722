"""Datasets: from an uploaded file to a stored table with its schema, and back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, time
from pathlib import PurePath
from typing import Any, BinaryIO

from sqlalchemy.orm import Session

from app.services import cursors
from app.services.access import audit, quotas
from app.services.cursors import Page
from app.services.errors import Fault, InUseError, InvalidRequestError, NotFoundError
from app.services.readers.options import KINDS, Options, ReaderLimits
from app.services.readers.process.confined import readers
from app.store import datasets as store
from app.store.errors import DatasetGoneError, StillNeededError, is_id
from app.store.tables import Dataset
from sampler import ColumnSummary

MAX_NAME = 200
MAX_CELL = 1_000  # characters of a text shown in a preview


@dataclass(frozen=True)
class Parsed:
    """A file parsed into a table ready to be stored, with its schema and warnings."""

    encoded: store.Encoded
    columns: list[dict[str, Any]]
    profiles: list[dict[str, Any]]
    warnings: list[str]
    read_as: dict[str, Any]


@contextmanager
def parse_upload(file: BinaryIO, options: Options, max_bytes: int = ReaderLimits.bytes) -> Iterator[Parsed]:
    """Parse and summarise an uploaded file in a process of its own; needs no database.

    The encoded blocks are on disk while the context lasts.

    Raises
    ------
    UnusableDataError, TooLargeError, InvalidRequestError
        The file can't be read as a table, or not with the given options; names column, row and remedy.
    BusyError
        Too many files are being read.
    """
    limits = ReaderLimits.of_uploads(max_bytes)
    task = {"options": options.to_json(), "block_rows": store.BLOCK_ROWS}
    report, blocks = readers.run("dataset", file, limits, task)
    with blocks:
        columns = report["columns"]
        encoded = store.Encoded(
            names=[column["name"] for column in columns],
            num_rows=report["num_rows"],
            blocks=_blocks(blocks, report["blocks"]),
            num_bytes=sum(length for _, _, length, _ in report["blocks"]),
            sha256=report["sha256"],
            spellings=report["spellings"],
        )
        warnings = [*report["warnings"], *notes_on(columns)]
        yield Parsed(encoded, columns, report["profiles"], warnings, report["read_as"])


def _blocks(file: BinaryIO, index: list[tuple[int, int, int, str]]) -> Iterator[store.ColumnBlock]:
    for column, seq, length, checksum in index:
        yield store.ColumnBlock(column, seq, file.read(length), checksum)


def reported_as(dataset: Dataset, copy: Parsed) -> Parsed:
    """Return a changed copy of a dataset with the report of how its file was read."""
    if dataset.read_as is None:
        return copy
    before = dataset.read_as["summary"].partition(f", {len(dataset.columns)} column")
    now = copy.read_as["summary"].partition(f", {len(copy.columns)} column")
    return replace(copy, read_as=dataset.read_as | {"summary": "".join((before[0], *now[1:]))})


def kinds_of(entries: Sequence[str]) -> dict[str, str]:
    """Parse the column kinds that a request gives as NAME:KIND; raises InvalidRequestError."""
    kinds: dict[str, str] = {}
    for entry in entries:
        name, colon, kind = entry.rpartition(":")
        if not colon or kind not in KINDS:
            message = f"a kind is given as NAME:KIND, where KIND is one of {', '.join(KINDS)}"
            raise InvalidRequestError(errors=[Fault("kind", None, message)])
        if kinds.setdefault(name, kind) != kind:
            message = f"column {name} is given two kinds, {kinds[name]} and {kind}"
            raise InvalidRequestError(errors=[Fault("kind", None, message)])
    return kinds


def save(session: Session, owner: str, parsed: Parsed, name: str) -> Dataset:
    """Store a parsed file; raises QuotaError when it exceeds the owner's quota."""
    quotas.check_stored(session, owner, parsed.encoded.num_bytes)
    dataset = store.save(
        session,
        parsed.encoded,
        owner=owner,
        name=name,
        columns=parsed.columns,
        warnings=parsed.warnings,
        profiles=parsed.profiles,
        read_as=parsed.read_as,
    )
    audit.record(session, owner, "dataset.created", dataset.id)
    return dataset


def name_for(name: str | None, filename: str | None) -> str:
    """Return the dataset's name: the given one, else the file's without its extension, else "dataset".

    Raises
    ------
    InvalidRequestError
        The given name is empty, too long or not printable.
    """
    if name is not None:
        return check_name(name, MAX_NAME)
    stem = PurePath((filename or "").replace("\\", "/")).stem.strip()
    return stem if stem.isprintable() and 0 < len(stem) <= MAX_NAME else "dataset"


def check_name(name: str, longest: int) -> str:
    """Return a name without surrounding whitespace; raises InvalidRequestError for an invalid one."""
    name = name.strip()
    if not name or len(name) > longest or not name.isprintable():
        message = f"a name has 1 to {longest} printable characters"
        raise InvalidRequestError(errors=[Fault("name", None, message)])
    return name


def get(session: Session, owner: str, dataset_id: str, *, profiles: bool = False) -> Dataset:
    """Return the owner's dataset with this id, its `profiles` only on request; raises NotFoundError."""
    dataset = store.get(session, owner, dataset_id, profiles=profiles) if is_id(dataset_id) else None
    if dataset is None:
        raise NotFoundError("There is no dataset with this id: GET /datasets lists yours.")
    return dataset


def list_page(session: Session, owner: str, limit: int, cursor: str | None) -> Page[Dataset]:
    """Return a page of the owner's datasets, newest first."""
    return cursors.cut(store.list_page(session, owner, limit + 1, cursors.after(cursor)), limit)


def preview(session: Session, owner: str, dataset_id: str, num_rows: int) -> list[dict[str, Any]]:
    """Return the first rows as JSON values: null for missing values, dates as ISO 8601 text."""
    dataset = get(session, owner, dataset_id)
    try:
        rows = store.head(session, dataset.id, num_rows).to_pylist()
    except DatasetGoneError as error:
        raise NotFoundError(str(error)) from None
    return [{name: _plain(cell) for name, cell in row.items()} for row in rows]


def delete(session: Session, owner: str, dataset_id: str) -> None:
    """Delete a dataset; raises NotFoundError, and InUseError while a model needs it."""
    get(session, owner, dataset_id)
    try:
        store.delete(session, owner, dataset_id)
    except StillNeededError as error:
        raise InUseError(str(error)) from None
    audit.record(session, owner, "dataset.deleted", dataset_id)


def summaries_of(dataset: Dataset) -> list[ColumnSummary]:
    """Return the column summaries that the sampler made at upload."""
    return [ColumnSummary.from_json(column) for column in dataset.columns]


def notes_on(columns: Sequence[dict[str, Any]]) -> list[str]:
    """Return the warnings about single columns."""
    return [note for column in columns if (note := _note(column))]


def _note(column: dict[str, Any]) -> str:
    note = f": {column['note']}" if column["note"] else ""
    if column["kind"] == "text":
        return (
            f"{column['name']} is text with {column['distinct']} different values: models don't learn from "
            f"it unless it is chosen as a feature{note}"
        )
    return f"{column['name']}{note}" if note else ""


def _plain(cell: Any) -> Any:
    """Convert a cell to a JSON value; a date without a time of day is shown as a date."""
    if isinstance(cell, str) and len(cell) > MAX_CELL:
        return f"{cell[:MAX_CELL]}..."
    if not isinstance(cell, datetime):
        return cell
    whole_day = cell.tzinfo is None and cell.time() == time()
    return cell.date().isoformat() if whole_day else cell.isoformat()
