"""Datasets: from a file to a stored table with its schema, and back."""

from dataclasses import dataclass
from datetime import datetime, time
from pathlib import PurePath
from typing import Any, BinaryIO

from sqlalchemy.orm import Session

from app.services import audit, pages, quotas
from app.services.delimited import read_delimited
from app.services.errors import Fault, InUseError, InvalidRequestError, NotFoundError
from app.services.files.profile import summarise
from app.services.pages import Page, is_id
from app.services.typing_text import type_columns
from app.store import datasets as store
from app.store.errors import DatasetGoneError, StillNeededError
from app.store.tables import Dataset
from sampler import ColumnSummary

MAX_NAME = 200
MAX_CELL = 1_000  # letters of a text shown in a preview


@dataclass(frozen=True)
class Parsed:
    """A file as a table ready to be stored, and what is known of it."""

    encoded: store.Encoded
    columns: list[dict[str, Any]]
    profiles: list[dict[str, Any]]
    warnings: list[str]


def parse(file: BinaryIO) -> Parsed:
    """Read and describe an uploaded file; needs no database.

    Raises
    ------
    UnusableDataError
        It can't be read as a table; names column, row and what to do.
    """
    table = type_columns(read_delimited(file))
    described = [summarise(name, table.column(name)) for name in table.column_names]
    warnings = [note for summary, _ in described if (note := _note(summary))]
    columns = [summary.to_json() for summary, _ in described]
    return Parsed(store.encode(table), columns, [profile for _, profile in described], warnings)


def save(session: Session, owner: str, parsed: Parsed, name: str) -> Dataset:
    """Store what `parse` gave; raises QuotaError when it is more than the owner may have."""
    quotas.check_stored(session, owner, parsed.encoded.num_bytes)
    made = store.save(
        session,
        parsed.encoded,
        owner=owner,
        name=name,
        columns=parsed.columns,
        warnings=parsed.warnings,
        profiles=parsed.profiles,
    )
    audit.record(session, owner, "dataset.created", made.id)
    return made


def name_for(given: str | None, filename: str | None) -> str:
    """The name a dataset gets: the one given, else the file's, else a plain one.

    Raises
    ------
    InvalidRequestError
        The given one is empty, too long or not printable.
    """
    if given is not None:
        return check_name(given, MAX_NAME)
    stem = PurePath((filename or "").replace("\\", "/")).stem.strip()
    return stem if stem.isprintable() and 0 < len(stem) <= MAX_NAME else "dataset"


def check_name(name: str, longest: int) -> str:
    """A name as it is kept, without blanks around it; raises InvalidRequestError."""
    name = name.strip()
    if not name or len(name) > longest or not name.isprintable():
        told = f"a name has 1 to {longest} printable characters"
        raise InvalidRequestError(errors=[Fault("name", None, told)])
    return name


def get(session: Session, owner: str, dataset_id: str, *, profiles: bool = False) -> Dataset:
    """The owner's dataset of that id, its `profiles` only when asked for; raises NotFoundError."""
    found = store.get(session, owner, dataset_id, profiles=profiles) if is_id(dataset_id) else None
    if found is None:
        raise NotFoundError("There is no dataset of this id: GET /datasets lists yours.")
    return found


def list_page(session: Session, owner: str, limit: int, cursor: str | None) -> Page[Dataset]:
    """A page of the owner's datasets, newest first."""
    return pages.cut(store.list_page(session, owner, limit + 1, pages.after(cursor)), limit)


def preview(session: Session, owner: str, dataset_id: str, num_rows: int) -> list[dict[str, Any]]:
    """The first rows as JSON values: null for missing, dates as ISO 8601 text."""
    dataset = get(session, owner, dataset_id)
    try:
        rows = store.head(session, dataset.id, num_rows).to_pylist()
    except DatasetGoneError as error:
        raise NotFoundError(str(error)) from None
    return [{name: _plain(cell) for name, cell in row.items()} for row in rows]


def delete(session: Session, owner: str, dataset_id: str) -> None:
    """Remove a dataset; raises NotFoundError, and InUseError while a model needs it."""
    get(session, owner, dataset_id)
    try:
        store.delete(session, owner, dataset_id)
    except StillNeededError as error:
        raise InUseError(str(error)) from None
    audit.record(session, owner, "dataset.deleted", dataset_id)


def summaries_of(dataset: Dataset) -> list[ColumnSummary]:
    """The columns' summaries as the sampler made them."""
    return [
        ColumnSummary(**{**column, "levels": tuple(column["levels"])})  # as `to_json` gave them
        for column in dataset.columns
    ]


def _note(summary: ColumnSummary) -> str:
    told = f": {summary.note}" if summary.note else ""
    if summary.kind == "text":
        return (
            f"{summary.name} is text with {summary.distinct} levels: models leave it out "
            f"unless features names it{told}"
        )
    return f"{summary.name}{told}" if told else ""


def _plain(cell: Any) -> Any:
    """A cell as a JSON value; a date without a time of day shows none."""
    if isinstance(cell, str) and len(cell) > MAX_CELL:
        return f"{cell[:MAX_CELL]}..."
    if not isinstance(cell, datetime):
        return cell
    whole_day = cell.tzinfo is None and cell.time() == time()
    return cell.date().isoformat() if whole_day else cell.isoformat()
