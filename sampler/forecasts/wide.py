"""Tables with a column for each time: which columns these are, and the long table with a row for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from sampler.data.periods import EPOCH, periods_of
from sampler.data.scalars import days_to_text
from sampler.data.table import read
from sampler.definitions.forecast import Forecasting
from sampler.errors import DataError, SettingsError
from sampler.forecasts.steps import ISO, NUMBER, Step, Times

FEWEST = 4  # columns that make a table wide
_LIKELY = re.compile(r"[12]\d{3}|day|week|month|quarter|year", re.IGNORECASE)
_YEAR = re.compile(r"(1[89]|20)\d\d")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)([ T]00:00(:00)?)?")
_WRITTEN_DAY = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})")
_NUMBERED = re.compile(r"(day|week|month|quarter|year)[ _-]?(\d{1,4})", re.IGNORECASE)


@dataclass(frozen=True)
class WideTimes:
    """Columns that are named by times in equal steps.

    Attributes
    ----------
    columns
        Their names, in the table's order.
    times
        How a column of times has the time of each: as its name, or the number in it.
    step
        The step in words: "a month".

    """

    columns: tuple[str, ...]
    times: tuple[str, ...]
    step: str

    @property
    def in_words(self) -> str:
        """Name the columns: "24 columns from 2024-01 to 2025-12, a month each"."""
        return f"{len(self.columns)} columns from {self.columns[0]} to {self.columns[-1]}, {self.step} each"


def wide_times(names: Sequence[str]) -> WideTimes | None:
    """Find the columns named by times of one form in equal steps, four or more; None where there are none."""
    by_form: dict[str, list[tuple[str, str, float]]] = {}
    for name in names:
        for form, value in _readings(name.strip()) if _LIKELY.search(name) else ():
            numbered = _NUMBERED.fullmatch(name.strip())
            by_form.setdefault(form, []).append((name, numbered[2] if numbered else name.strip(), value))
    for form, found in sorted(by_form.items(), key=lambda item: -len(item[1])):
        if len(found) < FEWEST:
            break
        columns, times, values = zip(*found, strict=True)
        with suppress(SettingsError):
            read = Times(np.array(values, float), NUMBER if form.startswith("a ") else ISO)
            step = Step.find(read, np.zeros(len(values), np.int64), "auto")
            words = form if form.startswith("a ") and step.size == 1 else step.in_words
            return WideTimes(columns, times, words)
    return None


def long_names(names: Sequence[str]) -> tuple[str, str]:
    """Name the columns of times and values so that none of these others has the name."""
    time, value = (
        next(each for each in (name, *(f"{name}_{k}" for k in range(2, len(names) + 3))) if each not in names)
        for name in ("time", "value")
    )
    return time, value


def make_long(X: Any) -> dict[str, list[Any]]:
    """Make a row of each cell of the columns that are named by times, as forecasts need them.

    Parameters
    ----------
    X
        A table of any supported library with a column for each time, such as 2024-01, 2024-02, .., four or
        more in equal steps, and a row for each series.

    Returns
    -------
    dict of str to list
        The other columns, repeated, then ``time`` and ``value``, in order of the columns of times; with
        numbers at their end where another column has the name.

    Raises
    ------
    DataError
        For anything that is no table, and one without such columns.

    """
    table = read(X)
    if (wide := wide_times(table.names)) is None:
        raise DataError(
            "no four columns are named by times in equal steps, such as 2024-01, 2024-02, .. or week 1, "
            "week 2, .."
        )

    def cells(name: str) -> list[Any]:
        column = table.column(name)
        if column.type == "date" and column.numbers is not None:
            return [None if np.isnan(each) else days_to_text(each) for each in column.numbers.tolist()]
        return column.cells if column.cells is not None else np.asarray(column.numbers).tolist()

    others = [name for name in table.names if name not in wide.columns]
    long = {name: cells(name) * len(wide.columns) for name in others}
    time, value = long_names(others)
    long[time] = [each for each in wide.times for _ in range(table.num_rows)]
    long[value] = [cell for name in wide.columns for cell in cells(name)]
    return long


def read_asked(given: Mapping[str, Any], names: Sequence[str]) -> Forecasting | None:
    """Read what is asked of a table with these columns, as `Forecasting.read`; name a wide table as such."""
    try:
        return Forecasting.read(given, names)
    except SettingsError as error:
        if error.field != "time" or given.get("time") in names or (wide := wide_times(names)) is None:
            raise
        message = (
            f"{error}. The table has {wide.in_words}, and forecasts need a row for each time. Make rows of "
            "them: bartserve.make_long does, or of a dataset POST /datasets/{id}/amend with wide=long"
        )
        raise SettingsError(message, field="time", code=error.code) from None


def _readings(name: str) -> Iterator[tuple[str, float]]:
    """Yield each form of times that a name has, with the time: days since 1970, or a number ("a week")."""
    yield from periods_of(name).items()
    if _YEAR.fullmatch(name):
        yield "a year", float(name)
    if numbered := _NUMBERED.fullmatch(name):
        yield f"a {numbered[1].lower()}", float(numbered[2])
    days = []
    if found := _DAY.fullmatch(name):
        days.append(("day", found[1], found[2], found[3]))
    if found := _WRITTEN_DAY.fullmatch(name):
        days += [("day first", found[4], found[3], found[1]), ("month first", found[4], found[1], found[3])]
    for form, *parts in days:
        with suppress(ValueError):
            yield form, float((date(*map(int, parts)) - EPOCH).days)
