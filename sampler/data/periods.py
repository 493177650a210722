"""Reading of periods written as text, "2014 Q1", "1987 Jan", "2024-W05", and the writing of such text.

A period is read as its first day; an ISO week as its Monday.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import cache

import numpy as np

from sampler.array_types import Floats

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip
_TOKENS = {
    "{year}": r"(?P<year>[12]\d{3})",
    "{q}": "(?P<q>[1-4])",
    "{mm}": r"(?P<mm>0[1-9]|1[0-2])",
    "{dd}": r"(?P<dd>0[1-9]|[12]\d|3[01])",
    "{ww}": r"(?P<ww>0[1-9]|[1-4]\d|5[0-3])",
    "{w}": r"(?P<w>[1-9]|[1-4]\d|5[0-3])",
    "{mon}": f"(?P<mon>{'|'.join(name[:3] for name in MONTHS)})",
    "{month}": f"(?P<month>{'|'.join(MONTHS)})",
}
FORMS = (
    "{year} Q{q}", "{year}-Q{q}", "{year}Q{q}", "Q{q} {year}", "Q{q}-{year}", "Q{q}/{year}",
    "{year} {mon}", "{mon} {year}", "{mon}-{year}", "{year} {month}", "{month} {year}", "{year}M{mm}",
    "{year}-{mm}", "{year}/{mm}", "{mm}/{year}", "{year}-W{ww}", "{year} W{ww}", "{year}W{ww}",
    "KW {w} {year}", "KW {ww} {year}", "{year}{mm}{dd}",
)  # fmt: skip
EXAMPLES = '"2014 Q1", "1987 Jan", "2024M01", "2024-01", "2024-W05" or "20240131"'
EPOCH = date(1970, 1, 1)


def read_periods(cells: Sequence[str | None]) -> tuple[Floats, str] | None:
    """Read cells that all are periods of one form.

    Returns
    -------
    tuple or None
        The first day of each, in days since 1970, float64 [n], NaN for None, and the form, one of `FORMS`;
        None where no form fits all.

    """
    present = {cell for cell in cells if cell is not None}
    for form in FORMS:
        if present and all(_pattern(form).fullmatch(cell) for cell in present):
            try:
                known = {cell: _day(cell, form) for cell in present}
            except ValueError:  # no such day or week
                continue
            return np.array([np.nan if cell is None else known[cell] for cell in cells]), form
    return None


def periods_of(cell: str) -> dict[str, int]:
    """Return the first day, in days since 1970, of the period that a cell is, by each form that it has."""
    found = {}
    for form in FORMS:
        if _pattern(form).fullmatch(cell):
            with suppress(ValueError):
                found[form] = _day(cell, form)
    return found


def period_text(days: float, form: str) -> str:
    """Write the period that begins on a day, in days since 1970, in a form of `FORMS`."""
    day = EPOCH + timedelta(days=round(days))
    year, week, _ = day.isocalendar() if "{w" in form else (day.year, 0, 0)
    parts = {
        "{year}": f"{year:04}",
        "{q}": str((day.month + 2) // 3),
        "{mm}": f"{day.month:02}",
        "{dd}": f"{day.day:02}",
        "{ww}": f"{week:02}",
        "{w}": str(week),
        "{mon}": MONTHS[day.month - 1][:3],
        "{month}": MONTHS[day.month - 1],
    }
    return re.sub(r"\{\w+\}", lambda token: parts[token[0]], form)


@cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", lambda token: _TOKENS[token[0]], form), re.IGNORECASE)


def _day(cell: str, form: str) -> int:
    """Return the first day of a period of this form; raise ValueError where there is none."""
    found = _pattern(form).fullmatch(cell)
    parts = {} if found is None else found.groupdict()
    year = int(parts["year"])
    if week := parts.get("ww") or parts.get("w"):
        return (date.fromisocalendar(year, int(week), 1) - EPOCH).days
    month = int(parts.get("mm") or 1)
    if "q" in parts:
        month = 3 * int(parts["q"]) - 2
    elif name := parts.get("mon") or parts.get("month"):
        month = [each[:3].casefold() for each in MONTHS].index(name[:3].casefold()) + 1
    return (date(year, month, int(parts.get("dd") or 1)) - EPOCH).days
