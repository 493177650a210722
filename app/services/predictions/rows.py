"""New rows in JSON, by row or by column, converted to columns of plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from app.services.errors import (
    ENOUGH,
    Fault,
    InvalidRequestError,
    TooLargeError,
    UnusableDataError,
    enough,
)
from app.services.readers.options import Options

Columns = dict[str, list[Any]]
PLAIN = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class SentRows:
    """Rows of a request: objects, lists of values by column, or a file with options for reading it.

    `keep` names columns of the file that tables repeat; the model need not know them.
    """

    rows: Any = None
    columns: Any = None
    file: tuple[BinaryIO, Options] | None = None
    keep: Sequence[str] = ()


def columns_of(rows: Any, columns: Any, max_rows: int) -> Columns:
    """Return the columns of a request that gives rows or columns.

    Raises
    ------
    InvalidRequestError
        Neither or both are given, or there are no rows.
    TooLargeError
        There are more than `max_rows`.
    UnusableDataError
        A row lacks a value that others have, columns differ in length, or a value is not a scalar; names
        column and row.
    """
    if (rows is None) == (columns is None):
        raise InvalidRequestError("Send either rows, a list of objects, or columns, an object of lists.")
    if rows is not None:
        check_count(len(rows), max_rows)
        converted = _from_rows(rows)
    else:
        converted = _checked(columns)
        check_count(len(next(iter(converted.values()), ())), max_rows)
    _check_cells(converted)
    return converted


def columns_if_any(rows: Any, columns: Any, max_rows: int) -> Columns | None:
    """Check rows as `columns_of` does; None where a request has neither rows nor columns."""
    return None if rows is None and columns is None else columns_of(rows, columns, max_rows)


def check_count(count: int, max_rows: int) -> None:
    """Raise InvalidRequestError for no rows, TooLargeError for more than `max_rows`."""
    if count == 0:
        raise InvalidRequestError("There are no rows to predict.")
    if count > max_rows:
        raise TooLargeError(f"{count} rows are too many for one request: send at most {max_rows} at once.")


def _from_rows(rows: list[Any]) -> Columns:
    if not all(isinstance(row, dict) for row in rows):
        message = "a row is an object of values by the columns' names"
        others = (Fault(None, i + 1, message) for i, row in enumerate(rows) if not isinstance(row, dict))
        raise UnusableDataError(errors=enough(others))
    names = rows[0].keys()
    if any(row.keys() != names for row in rows):
        _refuse_uneven(rows)
    return {name: [row[name] for row in rows] for name in names}


def _refuse_uneven(rows: list[dict[str, Any]]) -> None:
    names = dict.fromkeys(name for row in rows for name in row)
    message = "this row lacks the column, which other rows have; send null for an unknown value"
    absent = (Fault(name, i + 1, message) for i, row in enumerate(rows) for name in names if name not in row)
    raise UnusableDataError(errors=enough(absent))


def _checked(columns: dict[str, Any]) -> Columns:
    lists = _lists(columns)
    if len({len(values) for values in lists.values()}) > 1:
        faults = [Fault(name, None, f"it has {len(values)} values") for name, values in lists.items()]
        raise UnusableDataError("The columns differ in length.", faults)
    return lists


def lists_of(columns: dict[str, Any]) -> Columns:
    """Return lists of plain values by name, which may differ in length; raises as `columns_of`."""
    lists = _lists(columns)
    _check_cells(lists)
    return lists


def _lists(columns: dict[str, Any]) -> Columns:
    message = "a column is a list of values"
    if faults := enough(Fault(name, None, message) for name, v in columns.items() if not isinstance(v, list)):
        raise UnusableDataError(errors=faults)
    return columns


def _check_cells(columns: Columns) -> None:
    faults: list[Fault] = []
    for name, values in columns.items():
        if {type(value) for value in values} <= PLAIN:
            continue
        message = "a value is a number, text, true, false or null"
        faults += enough(
            Fault(name, i + 1, message) for i, value in enumerate(values) if type(value) not in PLAIN
        )
        if len(faults) >= ENOUGH:
            break
    if faults:
        raise UnusableDataError(errors=faults)
