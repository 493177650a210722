"""Columns of text as what they hold: numbers, booleans, dates, or text; missing values become null."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from app.services.errors import Fault, UnusableDataError

# How files spell a missing value, in any case of letters.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "?", "-", "--", ".")
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
INFINITE = r"^[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?$"
BOOLEANS = ("true", "false")
DATE = r"^\d{4}-\d{2}-\d{2}"
TIME = r"([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?"
ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)"
NAMED = 10  # bad cells of a column named one by one


def type_columns(table: pa.Table) -> pa.Table:
    """A table of text columns as float64, bool, timestamp[us] and string columns, missing values null.

    Raises
    ------
    UnusableDataError
        A column of numbers holds infinite ones; names the column and the rows.
    """
    faults: list[Fault] = []
    columns = [_typed(name, table.column(name), faults) for name in table.column_names]
    if faults:
        raise UnusableDataError(errors=faults)
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _typed(name: str, column: pa.ChunkedArray, faults: list[Fault]) -> pa.ChunkedArray:
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING))
    text = pc.if_else(missing, pa.scalar(None, pa.string()), text)
    if text.null_count == len(text):
        return pa.chunked_array([pa.nulls(len(text), pa.float64())])
    if _all(text, NUMBER) or _all(text, f"{NUMBER}|{INFINITE}"):
        return _numbers(name, text, faults)
    if pc.all(pc.is_in(pc.utf8_lower(text.drop_null()), value_set=pa.array(BOOLEANS))).as_py():
        return pc.equal(pc.utf8_lower(text), "true")
    dates = _dates(text)
    return text if dates is None else dates


def _all(text: pa.ChunkedArray, pattern: str) -> bool:
    """Whether every value that is present matches; most columns of text are told by their first value."""
    present = text.drop_null()
    if not re.match(pattern, present[0].as_py()):
        return False
    return bool(pc.all(pc.match_substring_regex(present, pattern)).as_py())


def _numbers(name: str, text: pa.ChunkedArray, faults: list[Fault]) -> pa.ChunkedArray:
    numbers = pc.cast(text, pa.float64())
    infinite = pc.indices_nonzero(pc.fill_null(pc.is_inf(numbers), fill_value=False)).to_pylist()
    faults += [Fault(name, row + 1, "the value is infinite") for row in infinite[:NAMED]]
    if len(infinite) > NAMED:
        faults.append(Fault(name, None, f"{len(infinite) - NAMED} more values are infinite"))
    return numbers


def _dates(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if _all(text, f"{DATE}{TIME}$"):
        kind = pa.timestamp("us")
    elif _all(text, f"{DATE}{TIME}{ZONE}$"):
        kind = pa.timestamp("us", "UTC")
    else:
        return None
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return None  # no such day (2026-02-30): then it is text
