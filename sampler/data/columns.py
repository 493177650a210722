"""Summaries of the columns of a table: kind, range, levels, and likely problems."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sampler.data.scalars import BEYOND, days_to_text, text_to_days
from sampler.data.table import RawColumn, read

ColumnKind = Literal["number", "boolean", "category", "text", "date", "unusable"]
LARGEST_ID = 2.0**64  # larger numbers are measurements rather than identifiers
MAX_LEVELS = 50  # text with more levels is probably a name or an identifier, and is left out unless requested

FEWEST_OF_LEVEL = 3  # rows whose mean tells something of others

DATE_FORMS = tuple(
    re.compile(f"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{time}")
    for time in ("", "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?")
)

KIND_OF_TYPE: dict[str, ColumnKind] = {
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "mixed": "unusable",
    "other": "unusable",
}


@dataclass(frozen=True)
class ColumnSummary:
    """Summary of one column of a table.

    Attributes
    ----------
    name
        Name of the column.
    kind
        "category" for text with at most 50 levels, "text" for more; "unusable" for types that can't be a
        feature.
    missing
        Number of missing cells.
    distinct
        Number of distinct values; 0 where they were not counted.
    min, max
        Numbers, or ISO 8601 text for dates; None for other kinds and for columns without values.
    levels
        Levels of a category, sorted.
    note
        A sentence on what may be wrong with the column, or "".
    order
        Levels of a category whose type puts them in order (an ordered `Categorical` of pandas, an `Enum` of
        polars, an ordered dictionary of Arrow), from the lowest to the highest; empty for any other.
    repeated
        Of text, rows in levels of three rows or more; 0 where they were not counted.

    """

    name: str
    kind: ColumnKind
    missing: int
    distinct: int
    min: float | str | None = None
    max: float | str | None = None
    levels: tuple[str, ...] = ()
    note: str = ""
    order: tuple[str, ...] = ()
    repeated: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        fields = asdict(self) | {"levels": list(self.levels)}
        del fields["order"], fields["repeated"]
        fields |= {"order": list(self.order)} if self.order else {}
        return fields | ({"repeated": self.repeated} if self.repeated else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ColumnSummary:
        """Read the dict that `to_json` returned."""
        lists = {name: tuple(data.get(name, ())) for name in ("levels", "order")}
        return cls(**{**data, **lists})


def describe(table: Any) -> list[ColumnSummary]:
    """Summarise every column of a table; raise DataError for an unsupported or malformed table."""
    table = read(table)
    return [summarise(table.column(name)) for name in table.names]


def infer_kind(column: RawColumn) -> ColumnKind:
    """Infer the kind of a column from its type, its number of levels, and whether its text spells dates."""
    if column.type == "text":
        if spells_dates(column):
            return "date"
        return "text" if len({*(column.cells or ())} - {None}) > MAX_LEVELS else "category"
    return KIND_OF_TYPE[column.type]


def spells_dates(column: RawColumn) -> bool:
    """Tell whether all text of a column, whose type gives no levels, is dates of one form of ISO 8601."""
    if column.type != "text" or column.levels:
        return False
    cells = {cell for cell in column.cells or () if cell is not None}
    first = next(iter(cells), "")
    form = next((each for each in DATE_FORMS if each.fullmatch(first)), None)
    return form is not None and all(form.fullmatch(cell) and is_date(cell) for cell in cells)


def summarise(column: RawColumn, *, count_distinct: bool = True) -> ColumnSummary:
    """Summarise one column.

    Without `count_distinct`, `distinct` is 0 for numbers and dates, but where they may number the rows.
    """
    kind, missing = infer_kind(column), column.missing
    if kind == "date" and column.numbers is None:
        days = [math.nan if cell is None else text_to_days(cell) for cell in column.cells or ()]
        column = RawColumn(column.name, "date", np.array(days))
    if column.numbers is None:
        cells = [cell for cell in column.cells or () if cell is not None]
        counts = Counter(map(str, cells))
        levels = {*counts}
        return ColumnSummary(
            name=column.name,
            kind=kind,
            missing=missing,
            distinct=len(levels),
            levels=sort_levels(levels) if kind == "category" else (),
            note=_note(column),
            order=column.levels if kind == "category" else (),
            repeated=repeated_rows(counts.values()) if kind == "text" else 0,
        )
    present = column.numbers[~np.isnan(column.numbers)]
    low, high = (float(present.min()), float(present.max())) if len(present) else (None, None)
    is_date = kind == "date" and low is not None and high is not None
    return ColumnSummary(
        name=column.name,
        kind=kind,
        missing=missing,
        distinct=len(np.unique(present)) if count_distinct or (low, high) == (1.0, len(present)) else 0,
        min=days_to_text(low) if is_date and low is not None else low,
        max=days_to_text(high) if is_date and high is not None else high,
        note=note_on_rounding(present) if column.type == "number" else "",
    )


def repeated_rows(counts: Iterable[int]) -> int:
    """Count the rows of levels of three or more, by the rows of each level."""
    return sum(count for count in counts if count >= FEWEST_OF_LEVEL)


def sort_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Sort levels by value where all are numbers, else by spelling."""
    levels = sorted(levels)
    if all(is_number(level) for level in levels):
        levels.sort(key=_value)
    return tuple(levels)


def _value(level: str) -> float:
    """Convert the text of a number; integers are exact at any size."""
    try:
        return int(level)
    except ValueError:
        return float(level)


def is_number(text: str) -> bool:
    """Tell whether text spells a finite number."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def is_date(text: str) -> bool:
    """Tell whether text spells a date or time in ISO 8601."""
    try:
        text_to_days(text)
    except ValueError:
        return False
    return True


def is_beyond(summary: ColumnSummary) -> bool:
    """Tell whether a numeric column reaches 2^53, from where float64 merges neighbouring integers."""
    return any(isinstance(end, float) and abs(end) >= BEYOND for end in (summary.min, summary.max))


def note_on_rounding(numbers: NDArray[np.float64]) -> str:
    """Describe whole numbers too large for float64 to tell apart (likely identifiers); "" if none."""
    size = np.abs(numbers)
    if not len(size) or not BEYOND <= size.max() <= LARGEST_ID or np.any(numbers != np.rint(numbers)):
        return ""
    return (
        "whole numbers of 2^53 or more count as rounded to 53 bits: if they are identifiers, read the column "
        "as text (at upload ?kind=NAME:category)"
    )


def _note(column: RawColumn) -> str:
    if column.type == "other":
        return f"columns of type {column.dtype} can't be used" if column.dtype else "its values can't be used"
    if column.type == "mixed":
        types = Counter(type(cell).__name__ for cell in column.cells or () if cell is not None)
        return "its values are of several types: " + ", ".join(
            f"{n} {name}" for name, n in types.most_common()
        )
    cells = column.cells or []
    return _note_on_text(column.name, cells) or _note_on_numbers(cells)


def _note_on_text(name: str, cells: list[Any]) -> str:
    """Describe text of many levels that all spell numbers or dates; "" otherwise."""
    levels = {*cells} - {None}
    if len(levels) <= MAX_LEVELS:
        return ""
    for kind, spells in (("number", is_number), ("date", is_date)):
        if all(map(spells, levels)):
            return f"all are {kind}s: read them as such by columns={{{name!r}: {kind!r}}}"
    return ""


def _note_on_numbers(cells: list[Any]) -> str:
    """Describe text that is mostly numbers and probably spells missing values in words; "" otherwise."""
    numeric = {cell: is_number(cell) for cell in set(cells) - {None}}
    others = [row for row, cell in enumerate(cells, 1) if cell is not None and not numeric[cell]]
    present = sum(cell is not None for cell in cells)
    if not others or len(others) * 2 > present:
        return ""
    return (
        f"{present - len(others)} of its {present} values are numbers, but {cells[others[0] - 1]!r} in row "
        f"{others[0]} is not: leave such cells empty to use the column as numbers"
    )
