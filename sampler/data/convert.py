"""Conversion of a raw column to the requested kind, with errors that name each bad cell's row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from sampler.data.columns import is_number, spells_dates
from sampler.data.periods import read_periods
from sampler.data.scalars import (
    BEYOND,
    as_float,
    as_text,
    days_to_text,
    is_rounded,
    shortened,
    text_to_days,
    type_of_cell,
)
from sampler.data.schema import FeatureKind
from sampler.data.table import RawColumn
from sampler.errors import DataProblem

PLAIN = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
)  # a number without spaces or marks between digits
NAMED_CELLS = 10  # bad cells of a column that are reported one by one
MAX_BITS = 10_000  # largest integer that may be a level
ROUNDED = "a float of 2^53 or more may stand for several integers: give levels as integers or as text"


@dataclass(frozen=True)
class Labels:
    """Text column as indices: row i holds ``names[index[i]]``, or is missing where the index is -1."""

    index: NDArray[np.intp]
    names: list[str]


def level_meant(text: str, known: Collection[str]) -> str:
    """Return the known level that a text means, or the text where it means none.

    That is the level spelled so, also without blanks around it, of the same number or truth value ("1.0" is
    1, "True" true), or of the same letters by other codes of Unicode (NFC and NFD).
    """
    if text in known:
        return text
    bare = text.strip()
    spellings = [bare]
    if PLAIN.fullmatch(bare):
        spellings.append(as_text(Decimal(bare)))
    if bare.lower() in {"true", "false"}:
        spellings.append(bare.lower())
    if not bare.isascii():
        same = normalize("NFC", bare)  # letters have several codes
        spellings += [level for level in known if normalize("NFC", level) == same]
    return next((each for each in spellings if each in known), text)


def to_labels(column: RawColumn, problems: list[DataProblem]) -> Labels:
    """Convert a column of any type to level names, spelled as a user would write them.

    Problems are appended to `problems`.
    """
    if column.numbers is not None and column.type == "number":
        _refuse_rounded(column, problems)
    if column.numbers is not None and column.cells is None:
        values, index = np.unique(column.numbers, return_inverse=True)
        spell: Callable[[float], str] = days_to_text if column.type == "date" else as_text
        if column.type == "boolean":
            names = [as_text(bool(value)) for value in values if not math.isnan(value)]
        else:
            names = [spell(float(value)) for value in values if not math.isnan(value)]
        return Labels(np.where(np.isnan(column.numbers), -1, index.reshape(-1)), names)
    if column.type == "other":
        problems.append(DataProblem(column.name, None, f"columns of type {column.dtype} can't be used"))
    return _label_cells(column, problems)


def _refuse_rounded(column: RawColumn, problems: list[DataProblem]) -> None:
    """Report floats that may stand for several integers; integers name a level exactly at any size."""
    if column.cells is not None:
        rows = [i for i, cell in enumerate(column.cells) if is_rounded(cell)]
    else:
        assert column.numbers is not None
        rows = np.flatnonzero(np.isfinite(column.numbers) & (np.abs(column.numbers) >= BEYOND)).tolist()
    _name_cells(column, rows, lambda _: ROUNDED, problems)


def _label_cells(column: RawColumn, problems: list[DataProblem]) -> Labels:
    cells = column.cells or []
    bad = [] if column.type == "text" else [i for i, cell in enumerate(cells) if _is_unusable(cell)]
    if bad:
        _name_cells(
            column, bad, lambda cell: f"a value of type {type(cell).__name__} can't be used", problems
        )
        return Labels(np.full(len(cells), -1), [])
    return Labels(*column.labelled)


def _is_unusable(cell: Any) -> bool:
    if isinstance(cell, int) and cell.bit_length() > MAX_BITS:
        return True
    return cell is not None and type_of_cell(cell) == "other"


def read_as_dates(column: RawColumn) -> RawColumn:
    """Return a column of text that spells dates or periods of one form as dates, any other as it is."""
    if spells_dates(column):
        return RawColumn(column.name, "date", to_floats(column, "date", [], read_text=True))
    found = read_periods(column.cells or ()) if column.type == "text" else None
    return column if found is None else RawColumn(column.name, "date", found[0])


def to_floats(
    column: RawColumn, kind: FeatureKind, problems: list[DataProblem], *, read_text: bool
) -> NDArray[np.float64]:
    """Convert a column to float64 [n], NaN for missing.

    Booleans become 0 and 1, dates days since 1970.

    Parameters
    ----------
    column
        The column as read.
    kind
        Kind to convert to; not "category".
    problems
        List to which cells of another kind and infinite values are appended.
    read_text
        Whether numbers and booleans may be given as text; dates always may.

    Returns
    -------
    ndarray
        The values.

    """
    if column.numbers is not None:
        values = _check_type(column, kind, problems)
    else:
        values = _parse_cells(column, kind, problems, read_text=read_text)
    infinite = np.flatnonzero(np.isinf(values))
    _name_cells(column, infinite.tolist(), lambda _: "the value is infinite", problems)
    return values


def _check_type(column: RawColumn, kind: FeatureKind, problems: list[DataProblem]) -> NDArray[np.float64]:
    assert column.numbers is not None
    values = column.numbers
    if np.all(np.isnan(values)):
        return values
    if (column.type == "date") != (kind == "date"):
        has, needs = ("dates", kind) if column.type == "date" else (f"{column.type}s", "date (2026-01-31)")
        problems.append(DataProblem(column.name, None, f"it holds {has} where a {needs} belongs"))
    if kind == "boolean":
        bad = np.flatnonzero(~np.isnan(values) & (values != 0) & (values != 1))
        _name_cells(column, bad.tolist(), lambda _: "a boolean must be true or false, or 1 or 0", problems)
    return values


def _parse_cells(
    column: RawColumn, kind: FeatureKind, problems: list[DataProblem], *, read_text: bool
) -> NDArray[np.float64]:
    cells = column.cells or []
    if column.type == "other":
        problems.append(DataProblem(column.name, None, f"columns of type {column.dtype} can't be used"))
        return np.full(len(cells), math.nan)
    values = np.full(len(cells), math.nan)
    bad: list[int] = []
    for i, cell in enumerate(cells):
        if cell is None:
            continue
        value = _parse(cell, kind, read_text=read_text)
        if value is None:
            bad.append(i)
        else:
            values[i] = value
    _name_cells(column, bad, lambda cell: _complaint(cell, kind, read_text=read_text), problems)
    return values


def _parse(cell: Any, kind: FeatureKind, *, read_text: bool) -> float | None:
    cell_type = type_of_cell(cell)
    try:
        if kind == "date":
            return text_to_days(cell) if cell_type == "text" else None
        if cell_type == "text":
            return _read_text(cell.strip(), kind) if read_text else None
    except ValueError:
        return None
    if cell_type in {"number", "boolean"} and (kind == "number" or as_float(cell) in {0, 1}):
        return as_float(cell)
    return None


def _read_text(text: str, kind: FeatureKind) -> float | None:
    if kind == "boolean":
        return {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}.get(text.lower())
    value = float(text)
    return None if math.isnan(value) else value


def _complaint(cell: Any, kind: FeatureKind, *, read_text: bool) -> str:
    form = {"number": "a number", "boolean": "true or false", "date": "a date like 2026-01-31"}.get(
        kind, kind
    )
    cell_type = type_of_cell(cell)
    if cell_type != "text":
        value = "" if cell_type == "other" else f" ({cell})"
        return f"a value of type {type(cell).__name__}{value} where {form} belongs"
    text = shortened(cell)
    if kind == "number" and not read_text and is_number(cell):
        return f"the text {text} where a number belongs: send it without quotes"
    return f"the text {text} where {form} belongs"


def _name_cells(
    column: RawColumn, rows: list[int], detail: Callable[[Any], str], problems: list[DataProblem]
) -> None:
    cells = column.cells
    problems += [
        DataProblem(column.name, row + 1, detail(None if cells is None else cells[row]))
        for row in rows[:NAMED_CELLS]
    ]
    if len(rows) > NAMED_CELLS:
        problems.append(DataProblem.further(column.name, len(rows) - NAMED_CELLS, "such cells"))
