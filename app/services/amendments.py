"""Amended copies of stored datasets: other kinds of columns, and values that mean missing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pyarrow as pa
from sqlalchemy import Engine

from app.services import datasets
from app.services.datasets import Parsed
from app.services.errors import Fault, InvalidRequestError, NotFoundError
from app.services.readers.options import Options
from app.services.readers.values.missing import MissingValues
from app.store import datasets as store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from app.store.tables import Dataset


@dataclass(frozen=True)
class ColumnChange:
    """Change of a column; None and an empty sequence change nothing.

    `missing` are the values that mean missing: texts as stored, or numbers as text.
    """

    kind: str | None = None
    missing: Sequence[str] = ()


@contextmanager
def amended(
    engine: Engine,
    owner: str,
    dataset_id: str,
    changes: Mapping[str, ColumnChange],
    missing: Sequence[str] = (),
    *,
    max_bytes: int,
) -> Iterator[tuple[Dataset, Parsed]]:
    """Read a stored dataset again with changed columns; yield it, and the result to be saved as a new one.

    Text becomes numbers, booleans or dates by the rules of an upload. The other columns stay as they are.
    `missing` are values that mean missing in every column of text or numbers.

    Raises
    ------
    NotFoundError
        The dataset doesn't exist.
    InvalidRequestError, UnusableDataError
        Nothing changes, there is no such column, or values don't have the kind; names column and row.
    """
    with session_scope(engine, read_only=True) as session:
        dataset = datasets.get(session, owner, dataset_id, profiles=True)
    known = {column["name"]: column for column in dataset.columns}
    changes = dict(changes)
    for name, column in known.items():
        if codes := [value for value in missing if _may_have(column["kind"], value)]:
            change = changes.get(name, ColumnChange())
            changes[name] = replace(change, missing=[*change.missing, *codes])
    changes = {name: change for name, change in changes.items() if _changes(change, known.get(name))}
    faults = [Fault(name, None, "the dataset has no such column") for name in changes if name not in known]
    if not changes and not faults:
        faults = [Fault("columns", None, "nothing changes: give another kind, or values that mean missing")]
    if faults:
        raise InvalidRequestError(errors=faults)
    kinds = {name: change.kind for name, change in changes.items() if change.kind is not None}
    read_as = dataset.read_as or {}
    decimal: Any = None if read_as.get("decimal_guessed") else read_as.get("decimal")
    with TemporaryFile() as file:
        _write(engine, dataset, changes, file)
        file.seek(0)
        options = Options(format="arrow", kinds=kinds, decimal=decimal)
        with datasets.parse_upload(file, options, max_bytes) as parsed:
            yield dataset, _merged(dataset, changes, parsed)


def _may_have(kind: str, value: str) -> bool:
    return kind in {"text", "category"} or (kind == "number" and bool(MissingValues((), [value]).numbers))


def _changes(change: ColumnChange, column: Mapping[str, Any] | None) -> bool:
    return column is None or bool(change.missing) or change.kind not in {None, column["kind"]}


def _write(engine: Engine, dataset: Dataset, changes: Mapping[str, ColumnChange], file: BinaryIO) -> None:
    """Write the table as an Arrow stream block by block, without the values that mean missing."""
    names = [column["name"] for column in dataset.columns]
    writer = None
    for seq in range(max(ceil(dataset.num_rows / store.BLOCK_ROWS), 1)):
        try:
            with session_scope(engine, read_only=True) as session:
                table = store.read_block(session, dataset.id, names, seq)
        except (KeyError, DatasetGoneError) as error:
            raise NotFoundError(str(error)) from None
        for name, change in changes.items():
            if change.missing:
                at = names.index(name)
                table = table.set_column(at, name, _without(table.column(name), name, change.missing))
        if writer is None:
            writer = pa.ipc.new_stream(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _without(column: pa.ChunkedArray, name: str, missing: Sequence[str]) -> pa.ChunkedArray:
    """Return a column with null for the given values."""
    values = MissingValues((), [value.strip() for value in missing])
    if pa.types.is_floating(column.type):
        if len(values.numbers) < len(values.codes):
            message = f"{', '.join(missing)[:100]}: the column has numbers, so give numbers"
            raise InvalidRequestError(errors=[Fault(name, None, message)])
    elif not pa.types.is_string(column.type):
        message = "only text and numbers can have values that mean missing"
        raise InvalidRequestError(errors=[Fault(name, None, message)])
    return values.removed(column)[0]


def _merged(dataset: Dataset, changes: Mapping[str, ColumnChange], parsed: Parsed) -> Parsed:
    """Keep the descriptions of the columns that don't change, and how the file was read."""
    old = {column["name"]: column for column in dataset.columns if column["name"] not in changes}
    columns = [old.get(column["name"], column) for column in parsed.columns]
    notes = set(datasets.notes_on(dataset.columns))
    warnings = [warning for warning in dataset.warnings if warning not in notes]
    read_as = datasets.reported_as(dataset, parsed).read_as
    if codes := _codes(changes, read_as.get("codes") or {}):
        read_as = read_as | {"codes": codes}
    return replace(
        parsed,
        columns=columns,
        warnings=[*warnings, *datasets.notes_on(columns)],
        read_as=read_as,
    )


def _codes(changes: Mapping[str, ColumnChange], old: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the values that mean missing, by column, the new ones after those of earlier amendments."""
    new = {name: [value.strip() for value in change.missing] for name, change in changes.items()}
    both = {name: list(dict.fromkeys([*old.get(name, ()), *new.get(name, ())])) for name in {**old, **new}}
    return {name: codes for name, codes in both.items() if codes}
