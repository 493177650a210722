"""Dates and times as people write them: ISO 8601, or day, month and year in an order that is certain.

"31/12/2026" can only begin with the day, "12/31/2026" only with the month; where every day of a column is
below 13 the other columns decide, or the caller; else it stays text, and is told. Years have four digits.
"""

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.scalars import all_match, shown

Order = Literal["day-first", "month-first"]
_TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)"
_ISO = rf"^\d{{4}}-\d{{2}}-\d{{2}}{_TIME}"
_REST = r"(?P<t>(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?)$"
_YEAR_FIRST = rf"^(?P<y>\d{{4}})[/.-](?P<m>\d{{1,2}})[/.-](?P<d>\d{{1,2}}){_REST}"
_DAY_FIRST = rf"^(?P<d>\d{{1,2}})[/.-](?P<m>\d{{1,2}})[/.-](?P<y>\d{{4}}){_REST}"
_MONTH_FIRST = _DAY_FIRST.replace("<d>", "<x>").replace("<m>", "<d>").replace("<x>", "<m>")
_DOTTED = r"^\d{1,2}\.\d{1,2}\.\d{4}"
_MONTH = r"(?P<m>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[a-zA-Z]{0,6}\.?"
_NAMED = (
    rf"^(?P<d>\d{{1,2}})[ -]{_MONTH}[ -](?P<y>\d{{4}}){_REST}",
    rf"^{_MONTH} (?P<d>\d{{1,2}}),? (?P<y>\d{{4}}){_REST}",
)
_SHORT = r"^\d{1,2}[/. -](\d{1,2}|[A-Za-z]{3,9})[/. -]\d{2}$"
_MONTHS = pa.array(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])


def iso(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """ISO 8601 text as timestamp[us], of UTC where it has a zone; None when a cell is no such day."""
    if all_match(text, f"{_ISO}$"):
        return _cast(text, pa.timestamp("us"))
    return _cast(text, pa.timestamp("us", "UTC")) if all_match(text, f"{_ISO}{_ZONE}$") else None


def other(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Dates whose order is plain: the year first with any sign, or a month by its English name."""
    for pattern in (_YEAR_FIRST, *_NAMED):
        if all_match(text, pattern):
            return _ordered(text, pattern)
    return None


def note(text: pa.ChunkedArray) -> str:
    """Why a column that looks like dates is none."""
    present = text.drop_null()
    if len(present) and all_match(present, _SHORT):
        return (
            "years of two digits are not read as dates, since the century is not certain: write four digits"
        )
    alike = pc.sum(look_like(present)).as_py() or 0
    if alike * 2 <= len(present):
        return ""
    odd = _first_odd(present)
    row = pc.indices_nonzero(pc.is_valid(text))[odd].as_py() + 1
    which = "its values" if alike == len(present) else f"{alike} of its {len(present)} values"
    cell = shown(present[odd].as_py())
    return (
        f"{which} look like dates, but {cell} in row {row} is no such day, or is written otherwise: correct "
        "it, or leave it empty, to use the column as dates"
    )


def _first_odd(text: pa.ChunkedArray) -> int:
    """The first cell that can't be read as a date together with those before it, which there must be."""
    low, high = 0, len(text)  # so many cells can be read, and can't
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _readable(text.slice(0, middle)) else (low, middle)
    return low


def _readable(text: pa.ChunkedArray) -> bool:
    return iso(text) is not None or other(text) is not None or bool(orders(text))


def look_like(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which cells are written as a date may be, whatever the others are."""
    patterns = (f"{_ISO}{_ZONE}?$", _YEAR_FIRST, _DAY_FIRST, *_NAMED)
    unnamed = (re.sub("[?]P<.>", "", pattern) for pattern in patterns)
    return pc.match_substring_regex(text, "|".join(f"(?:{pattern})" for pattern in unnamed))


def orders(text: pa.ChunkedArray) -> dict[Order, pa.ChunkedArray]:
    """The readings of dates that end with the year, by order; those with points begin with the day."""
    if not all_match(text, _DAY_FIRST):
        return {}
    found: dict[Order, pa.ChunkedArray | None] = {"day-first": _ordered(text, _DAY_FIRST)}
    if found["day-first"] is None or not all_match(text, _DOTTED):
        found["month-first"] = _ordered(text, _MONTH_FIRST)
    return {order: dates for order, dates in found.items() if dates is not None}


def _ordered(text: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray | None:
    """The cells rewritten as ISO 8601 and read."""
    parts = pa.chunked_array([pc.extract_regex(chunk, pattern) for chunk in text.chunks])
    year, month, day, time = (pc.struct_field(parts, part) for part in "ymdt")
    if not all_match(month, r"^\d"):
        month = pc.cast(pc.add(pc.index_in(pc.utf8_lower(month), value_set=_MONTHS), 1), pa.string())
    date = pc.binary_join_element_wise(year, pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0"), "-")
    return _cast(pc.binary_join_element_wise(date, time, ""), pa.timestamp("us"))


def _cast(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    # An hour of one digit is written with two.
    text = pc.replace_substring_regex(text, r"[T ](\d:)", r" 0\1")
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return None  # no such day (2026-02-30)
