"""Parsing of dates and times: ISO 8601, or day, month and year in an order that is certain.

"31/12/2026" can only begin with the day, "12/31/2026" only with the month. Where every day of a column is
below 13, other columns or the caller decide; otherwise the column stays text, with a note. Years have four
digits. Times are read to the microsecond, a month ("2026-01") as its first day.
"""

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.values.scalars import all_match, quote_cell
from sampler.host.data import read_periods

Order = Literal["day-first", "month-first"]
YEARS = (-62_135_596_800, 253_402_300_800)  # seconds since 1970 at the beginning of the years 1 and 10000
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2})?| ?(?:UTC|GMT))"
_ISO = rf"^\d{{4}}-\d{{2}}-\d{{2}}([T ]{_CLOCK})?"
_HALF = "(?:[ \u00a0\u202f]?[AaPp]\\.?[Mm]\\.?)?"  # AM or PM
_REST = rf"(?P<t>(?:(?:T|,? ){_CLOCK}{_HALF})?)$"
_MONTH_ALONE = r"^\d{4}-(0[1-9]|1[0-2])$"
_FINER = r"(\.\d{6})\d{1,3}"  # than microseconds
_FINE = r"\.\d{6}\d*[1-9]"
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
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


_WORDS = (
    r"(?i:jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?"
    r"|nov(ember)?|dec(ember)?)\.?"
)


def iso(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Parse ISO 8601 text as timestamp[us], in UTC if it has a zone; None if a cell doesn't parse."""
    if all_match(text, f"{_ISO}$"):
        return _cast(text, pa.timestamp("us"))
    if all_match(text, _MONTH_ALONE):
        return _cast(pc.binary_join_element_wise(text, "01", "-"), pa.timestamp("us"))
    if not all_match(text, f"{_ISO}{_ZONE}$"):
        return None
    return _cast(pc.replace_substring_regex(text, " ?(UTC|GMT)$", "Z"), pa.timestamp("us", "UTC"))


def other(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Parse dates of unambiguous order (year first, or an English month name); else return None."""
    for pattern in (_YEAR_FIRST, *_NAMED):
        if all_match(text, pattern.replace(_MONTH, _WORDS)):
            return _ordered(text, pattern)
    return None


_NUMBERED = {
    "a day as yyyymmdd": r"^(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$",
    "a month as yyyymm, as its first day": r"^(19|20)\d{2}(0[1-9]|1[0-2])$",
    "seconds since 1970": r"^1\d{9}(\.\d+)?$",
    "milliseconds since 1970": r"^1\d{12}$",
    "a day number of a spreadsheet": r"^[2-6]\d{4}(\.\d+)?$",
}
_FIRST_DAY = 25_569  # number in spreadsheets of the first day of 1970


def form_of_numbers(text: pa.ChunkedArray) -> str | None:
    """Name the form in which all cells may be times, written as numbers; None without one."""
    present = text.drop_null()
    if not len(present):
        return None
    return next((form for form, pattern in _NUMBERED.items() if all_match(present, pattern)), None)


def form_of_periods(text: pa.ChunkedArray) -> str | None:
    """Name what cells such as "2014 Q1" or "2024-W05" all may be; None for other cells."""
    present = text.drop_null()
    if not len(present) or read_periods([present[0].as_py()]) is None:  # most columns, at once
        return None
    found = read_periods(present.to_pylist())
    if found is None:
        return None
    if "{w" in found[1]:
        return "a week, as its Monday"
    return f"a {'quarter' if '{q}' in found[1] else 'month'}, as its first day"


def from_periods(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Parse periods, such as quarters, months or weeks, as their first days; None for other cells."""
    found = None if form_of_periods(text) is None else read_periods(text.to_pylist())
    if found is None:
        return None
    days = pa.array(found[0], pa.float64(), from_pandas=True)
    return pa.chunked_array([pc.cast(pc.cast(days, pa.int32()), pa.date32()).cast(pa.timestamp("us"))])


def from_numbers(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Parse times that are written as numbers; None if a cell doesn't parse."""
    form, us = form_of_numbers(text), pa.timestamp("us")
    if form is None:
        return None
    if form.startswith("a day as"):
        days = pc.strptime(text, "%Y%m%d", "us", error_is_null=True)
        again = pc.equal(pc.strftime(days, "%Y%m%d"), text)  # 20260231 would be a day of March
        return days if days.null_count == text.null_count and pc.all(again, min_count=0).as_py() else None
    if form.startswith("a month"):
        return pc.strptime(pc.binary_join_element_wise(text, "01", ""), "%Y%m%d", "us")
    figures = pc.cast(text, pa.float64())
    if form.startswith("a day number"):
        figures = pc.multiply(pc.subtract(figures, _FIRST_DAY), 86_400.0)
    micro = pc.multiply(figures, 1e3 if form.startswith("milli") else 1e6)
    return pc.cast(pc.cast(pc.round(micro), pa.int64()), us)


def reading(text: pa.ChunkedArray) -> str:
    """Describe how cells are read that say less or more than a time does; empty if they say as much."""
    if all_match(text, _MONTH_ALONE):
        return f"{quote_cell(text.drop_null()[0].as_py())} is read as the first day of the month"
    finer = pc.match_substring_regex(text, _FINE)
    if not pc.any(finer, min_count=0).as_py():
        return ""
    cell = text[pc.index(finer, value=True).as_py()].as_py()
    return f"times are read to the microsecond, and {quote_cell(cell)} has more digits"


def note(text: pa.ChunkedArray) -> str:
    """Return the reason why a column that looks like dates is not read as dates; empty if it doesn't."""
    present = text.drop_null()
    if len(present) and all_match(present, _SHORT):
        return (
            "years of two digits are not read as dates, because the century is uncertain: write four digits"
        )
    alike = pc.sum(look_like(present)).as_py() or 0
    if alike * 2 <= len(present):
        return ""
    odd = _first_odd(present)
    row = pc.indices_nonzero(pc.is_valid(text))[odd].as_py() + 1
    which = "its values" if alike == len(present) else f"{alike} of its {len(present)} values"
    cell = quote_cell(present[odd].as_py())
    return (
        f"{which} look like dates, but {cell} in row {row} is not valid or has another format: correct it "
        "or leave it empty to use the column as dates"
    )


def _first_odd(text: pa.ChunkedArray) -> int:
    """Return the position of the first cell that can't be parsed together with all cells before it.

    There must be one.
    """
    low, high = 0, len(text)  # the first `low` cells can be read together, the first `high` can't
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _readable(text.slice(0, middle)) else (low, middle)
    return low


def _readable(text: pa.ChunkedArray) -> bool:
    return iso(text) is not None or other(text) is not None or bool(orders(text))


def look_like(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which cells have the form of a date, each by itself."""
    patterns = (f"{_ISO}{_ZONE}?$", _MONTH_ALONE, _YEAR_FIRST, _DAY_FIRST, *_NAMED)
    unnamed = (re.sub("[?]P<.>", "", pattern) for pattern in patterns)
    return pc.match_substring_regex(text, "|".join(f"(?:{pattern})" for pattern in unnamed))


def orders(text: pa.ChunkedArray) -> dict[Order, pa.ChunkedArray]:
    """Return the possible readings of dates that end with the year, by order; dotted ones are day first."""
    if not all_match(text, _DAY_FIRST):
        return {}
    parsed: dict[Order, pa.ChunkedArray | None] = {"day-first": _ordered(text, _DAY_FIRST)}
    if parsed["day-first"] is None or not all_match(text, _DOTTED):
        parsed["month-first"] = _ordered(text, _MONTH_FIRST)
    return {order: dates for order, dates in parsed.items() if dates is not None}


def against(text: pa.ChunkedArray, order: Order | None) -> int | None:
    """Return the row of a date that ends with the year and can't have this order; None where there is none.

    Dotted dates are day first wherever they come from.
    """
    if order is None or all_match(text, _DOTTED):
        return None
    month = 1 if order == "day-first" else 0  # the part that would be the month
    for row, cell in enumerate(text.to_pylist()):
        if cell is not None and int(re.split("[/.-]", cell)[month]) > 12:
            return row
    return None


def _ordered(text: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray | None:
    """Rewrite the cells as ISO 8601 and parse them."""
    parts = pa.chunked_array([pc.extract_regex(chunk, pattern) for chunk in text.chunks])
    year, month, day, time = (pc.struct_field(parts, part) for part in "ymdt")
    if not all_match(month, r"^\d"):
        # No array at import: pyarrow imports pandas, where it is installed, for the first one.
        months = pa.array(_MONTHS)
        month = pc.cast(pc.add(pc.index_in(pc.utf8_lower(month), value_set=months), 1), pa.string())
    date = pc.binary_join_element_wise(year, pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0"), "-")
    clock = _of_twenty_four(pc.replace_substring_regex(time, "^(T|,? )", " "))
    return None if clock is None else _cast(pc.binary_join_element_wise(date, clock, ""), pa.timestamp("us"))


def _of_twenty_four(time: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Rewrite times with AM or PM by the clock of 24 hours; None where an hour is not one of twelve."""
    halved = pc.match_substring_regex(time, "[AaPp]\\.?[Mm]\\.?$")
    if not pc.any(halved, min_count=0).as_py():
        return time
    parts = pa.chunked_array(
        [
            pc.extract_regex(chunk, r"^ (?P<hour>\d+)(?P<rest>:[\d:.]*\d).?(?P<half>[AaPp])")
            for chunk in time.chunks
        ]
    )
    hour, rest, half = (pc.struct_field(parts, name) for name in ("hour", "rest", "half"))
    hour = pc.cast(hour, pa.int64())
    if not pc.all(pc.and_(pc.greater(hour, 0), pc.less_equal(hour, 12)), min_count=0).as_py():
        return None
    afternoon = pc.if_else(pc.equal(pc.utf8_lower(half), "p"), 12, 0)
    hour = pc.add(pc.if_else(pc.equal(hour, 12), 0, hour), afternoon)
    clock = pc.binary_join_element_wise(pc.utf8_lpad(pc.cast(hour, pa.string()), 2, "0"), rest, "")
    return pc.if_else(halved, pc.binary_join_element_wise(" ", clock, ""), time)


def _cast(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    text = pc.replace_substring_regex(text, _FINER, r"\1")
    # Pad one-digit hours.
    text = pc.replace_substring_regex(text, r"[T ](\d:)", r" 0\1")
    try:
        times = pc.cast(text, kind)
    except pa.ArrowInvalid:
        return None  # an invalid date (2026-02-30)
    low, high = (end.as_py() for end in pc.min_max(times.cast(pa.int64())).values())
    return times if low is None or YEARS[0] * 10**6 <= low <= high < YEARS[1] * 10**6 else None
