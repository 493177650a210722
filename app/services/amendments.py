"""Amended copies of stored datasets: other kinds of columns, and values that mean missing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, Literal

import pyarrow as pa
from pydantic import Field
from sqlalchemy import Engine

from app.services import datasets
from app.services.datasets import Parsed
from app.services.errors import Fault, InvalidRequestError, NotFoundError
from app.services.readers.options import LONG, TYPED, Options
from app.services.readers.values.missing import MissingValues
from app.services.request_bodies import StrictBody
from app.store import datasets as store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from app.store.tables import Dataset
from sampler.host.wide import wide_times

MissingValue = Annotated[str, Field(max_length=1000)] | float


class ColumnChangeRequest(StrictBody):
    """Change of a column."""

    kind: Literal["number", "boolean", "date", "category", "text"] | None = Field(
        default=None, description="The kind of its values."
    )
    missing: Annotated[list[MissingValue], Field(max_length=100)] = Field(
        default=[], description='Values that mean missing, such as "k.A." or -999.'
    )

    @property
    def codes(self) -> list[str]:
        """The values that mean missing: texts as stored, or numbers as text."""
        return [str(value) for value in self.missing]


@contextmanager
def amended(
    engine: Engine,
    owner: str,
    dataset_id: str,
    changes: Mapping[str, ColumnChangeRequest],
    missing: Sequence[str] = (),
    given: Options | None = None,
    *,
    max_bytes: int,
) -> Iterator[tuple[Dataset, Parsed]]:
    """Read a stored dataset again with changed columns; yield it, and the result to be saved as a new one.

    Text becomes numbers, booleans or dates by the rules of an upload. The other columns stay as they are.
    `missing` are values that mean missing in every column of text or numbers; `given` may have a decimal sign
    and an order of dates, for a file that shows none.

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
            change = changes.get(name, ColumnChangeRequest())
            more = [*change.missing, *codes]
            changes[name] = ColumnChangeRequest(kind=change.kind, missing=more)
    changes = {name: change for name, change in changes.items() if _changes(change, known.get(name))}
    faults = [Fault(name, None, "the dataset has no such column") for name in changes if name not in known]
    is_long = given is not None and given.wide is not None
    if is_long and changes:
        faults += [
            Fault("wide", None, "a table is made long by itself: send the other changes before or after")
        ]
    if not changes and not faults and not is_long:
        faults = [Fault("columns", None, "nothing changes: give another kind, or values that mean missing")]
    faults = faults or [
        fault for name, change in changes.items() if (fault := _unfit(name, change, known[name]))
    ]
    if faults:
        raise InvalidRequestError(errors=faults)
    with TemporaryFile() as file:
        options = _reading(dataset, changes, given or Options())
        _write(engine, dataset, changes, options.as_text, file)
        file.seek(0)
        with datasets.parse_upload(file, options, max_bytes) as parsed:
            yield dataset, (_as_long if is_long else _merged)(dataset, changes, parsed)


def _reading(dataset: Dataset, changes: Mapping[str, ColumnChangeRequest], given: Options) -> Options:
    """Return how the columns are read: as their file was, with the changes, or made long.

    The text of the file is read where it was kept and a column changes, or its values don't give it back.
    """
    report, spellings = dataset.read_as or {}, dataset.spellings
    old = {each["name"]: each["kind"] for each in dataset.columns}
    changed = {name: change.kind for name, change in changes.items() if change.kind is not None}
    as_text = set[str]()
    if spellings is not None and report.get("format") not in TYPED:
        # True and false are numbers as values, not as text.
        as_numbers = {name for name, kind in changed.items() if (old[name], kind) == ("boolean", "number")}
        as_text = {*changes, *spellings} - as_numbers
    if given.wide is not None:  # the values of all columns of times are read together
        wide = wide_times([*old])
        as_text -= {*(wide.columns if wide else ())}
    kinds = {name: kind for name, kind in old.items() if name in as_text} | changed
    codes = {name: tuple(codes) for name, codes in _codes(changes, report.get("codes") or {}).items()}
    return Options(
        format="arrow",
        kinds=kinds,
        decimal=given.decimal or (None if report.get("decimal_guessed") else report.get("decimal")),
        dates=given.dates or report.get("dates"),
        missing=tuple(report.get("spellings") or ()) or None,
        codes={name: codes[name] for name in codes if name in as_text},
        as_text=tuple(as_text),
        wide=given.wide,
    )


def _may_have(kind: str, value: str) -> bool:
    return kind in {"text", "category"} or (kind == "number" and bool(MissingValues((), [value]).numbers))


def _changes(change: ColumnChangeRequest, column: Mapping[str, Any] | None) -> bool:
    return column is None or bool(change.codes) or change.kind not in {None, column["kind"]}


def _write(
    engine: Engine,
    dataset: Dataset,
    changes: Mapping[str, ColumnChangeRequest],
    as_text: Sequence[str],
    file: BinaryIO,
) -> None:
    """Write the table as an Arrow stream block by block, without the values that mean missing."""
    names = [column["name"] for column in dataset.columns]
    writer = None
    for seq in range(max(ceil(dataset.num_rows / store.BLOCK_ROWS), 1)):
        try:
            with session_scope(engine, read_only=True) as session:
                table = store.read_block(session, dataset.id, names, seq, as_text)
        except (KeyError, DatasetGoneError) as error:
            raise NotFoundError(str(error)) from None
        for name, change in changes.items():
            if change.codes and name not in as_text:
                values = MissingValues((), [value.strip() for value in change.codes])
                table = table.set_column(names.index(name), name, values.removed(table.column(name))[0])
        if writer is None:
            writer = pa.ipc.new_stream(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _unfit(name: str, change: ColumnChangeRequest, column: Mapping[str, Any]) -> Fault | None:
    """Return why values can't mean missing in a column of this kind; None where they can."""
    if not change.codes or column["kind"] in {"text", "category"}:
        return None
    if column["kind"] != "number":
        return Fault(name, None, "only text and numbers can have values that mean missing")
    if len(MissingValues((), change.codes).numbers) == len(change.codes):
        return None
    return Fault(name, None, f"{', '.join(change.codes)[:100]}: the column has numbers, so give numbers")


def _merged(dataset: Dataset, changes: Mapping[str, ColumnChangeRequest], parsed: Parsed) -> Parsed:
    """Keep the descriptions of the columns that don't change, and how the file was read."""
    before = {column["name"]: column for column in dataset.columns}
    old = {name: column for name, column in before.items() if name not in changes}
    columns = [
        old.get(name) or _in_order(column, before[name], changes[name].codes)
        for name, column in ((column["name"], column) for column in parsed.columns)
    ]
    notes = set(datasets.notes_on(dataset.columns))
    warnings = [warning for warning in dataset.warnings if warning not in notes]
    read_as = datasets.reported_as(dataset, parsed).read_as
    units = {name: unit for name, unit in (read_as.get("units") or {}).items() if name in old}
    new_units = parsed.read_as.get("units") or {}
    units |= {name: unit for name, unit in new_units.items() if name not in old}
    codes = _codes(changes, read_as.get("codes") or {})
    read_as = read_as | {"units": units or None, "codes": codes or None}
    # Where the text of the file was not kept, it is still unknown.
    spellings = None if dataset.spellings is None else parsed.encoded.spellings
    return replace(
        parsed,
        encoded=replace(parsed.encoded, spellings=spellings),
        columns=columns,
        warnings=[*warnings, *datasets.notes_on(columns)],
        read_as=read_as,
    )


def _as_long(dataset: Dataset, _changes: Mapping[str, ColumnChangeRequest], parsed: Parsed) -> Parsed:
    """Keep how the file was read, of a table that was made long."""
    notes = {*datasets.notes_on(dataset.columns), *datasets.notes_on(parsed.columns)}
    said = [each for each in dataset.warnings if each not in notes and not each.endswith(LONG)]
    made = [each for each in parsed.warnings if each not in notes]
    own = {"wide": None, "codes": None, "units": parsed.read_as.get("units")}
    return replace(
        parsed,
        warnings=[*said, *made, *datasets.notes_on(parsed.columns)],
        read_as=datasets.reported_as(dataset, parsed).read_as | own,
    )


def _in_order(column: dict[str, Any], before: Mapping[str, Any], codes: Sequence[str]) -> dict[str, Any]:
    """Return a category's description with the order that the type of its file said, if it is still one."""
    order = [level for level in before.get("order", ()) if level not in codes]
    return column | ({"order": order} if order and column["kind"] == "category" else {})


def _codes(
    changes: Mapping[str, ColumnChangeRequest], old: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the values that mean missing, by column, the new ones after those of earlier amendments."""
    new = {name: [value.strip() for value in change.codes] for name, change in changes.items()}
    both = {name: list(dict.fromkeys([*old.get(name, ()), *new.get(name, ())])) for name in {**old, **new}}
    return {name: codes for name, codes in both.items() if codes}
