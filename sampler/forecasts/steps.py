"""Times of series as whole numbers of steps: reading of a column, the step between times, and text."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sampler.array_types import Floats, Longs
from sampler.data.periods import EXAMPLES, period_text, read_periods
from sampler.data.scalars import counted, days_to_text, in_zone, number_to_text, text_to_days
from sampler.data.table import RawColumn
from sampler.errors import DataError, DataProblem, SettingsError

MONTHS = {"month": 1, "quarter": 3, "year": 12}
DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0}
MULTIPLES = 0.95  # share of the differences that must be whole multiples of a step
WHOLE = 1e-3  # of a step, by which rounded decimals may be off
MILLISECONDS = 86_400_000  # of a day: steps are whole numbers of these
FARTHEST = 1 << 60  # number of a step: sums of two are whole numbers yet
TRIED = 6  # most frequent differences that may be the step
UNITS = ("month", "business day", "day", "number")
ISO, DATE, NUMBER = "iso", "date", "number"


@dataclass(frozen=True)
class Times:
    """Times of rows: days since 1970 or numbers, float64 [row], and their form, by which they are written.

    The form is "number", "date", "iso" (text) or one of `sampler.data.periods.FORMS`.
    """

    values: Floats
    form: str

    @classmethod
    def read(cls, column: RawColumn) -> Times:
        """Read a column of times; raise DataError for cells that are none, with what may be given."""
        if column.numbers is not None:
            if missing := np.flatnonzero(~np.isfinite(column.numbers)).tolist():
                raise _no_times(column.name, missing, "has no time")
            numbers = column.numbers
            if column.type == "number" and np.all((numbers >= 19_000_101) & (numbers <= 21_001_231)):
                found = read_periods([str(int(each)) for each in numbers])  # 20240131
                if found is not None:
                    return cls(*found)
            if column.type == "date" and column.zone:
                local = {each: in_zone(each, column.zone) for each in np.unique(numbers).tolist()}
                if all(len(each) == len("2026-01-31") for each in local.values()):  # midnights there are days
                    numbers = np.array([text_to_days(local[each]) for each in numbers.tolist()])
            return cls(numbers, DATE if column.type == "date" else NUMBER)
        cells = [None if cell is None else str(cell).strip() for cell in column.cells or []]
        if missing := [row for row, cell in enumerate(cells) if not cell]:
            raise _no_times(column.name, missing, "has no time")
        tried = [read_periods(cells), *(_convert(cells, form) for form in (NUMBER, ISO))]
        for found in tried:
            if found is not None and np.isfinite(found[0]).all():
                return cls(*found)
        wrong = np.flatnonzero(np.isnan(_convert(cells, ISO)[0])).tolist() or [0]
        raise _no_times(
            column.name,
            wrong,
            f"{cells[wrong[0]]!r} is no time: give dates, numbers, or periods of one form such as {EXAMPLES} "
            "(a table with a column for each step needs a row for each, as bartserve.make_long makes them)",
        )

    def text(self, value: float) -> Any:
        """Write a time in the form."""
        return written(value, self.form)


def written(value: float, form: str) -> Any:
    """Write a time, days since 1970 or a number, in a form: text, or a number."""
    if form == NUMBER:
        return int(value) if value == int(value) else float(value)
    return days_to_text(value) if form in (ISO, DATE) else period_text(value, form)


def _convert(cells: list[str | None], form: str) -> tuple[Floats, str]:
    """Read cells as numbers or ISO 8601 text, NaN where they are not."""
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        with suppress(ValueError):
            values[row] = float(cell or "") if form == NUMBER else text_to_days(cell or "")
    return values, form


def _no_times(name: str, rows: list[int], detail: str) -> DataError:
    more = [DataProblem.further(name, len(rows) - 1, "rows")] if len(rows) > 1 else []
    return DataError([DataProblem(name, rows[0] + 1, detail), *more])


@dataclass(frozen=True)
class Step:
    """Equal steps of time, of which times are whole numbers.

    Attributes
    ----------
    unit
        "month", "business day", "day" or "number".
    size
        Months, business days, days or numbers from one time to the next.
    origin
        A time: days since 1970, or a number.
    form
        How times are written (`Times.form`).
    at_end
        Whether times are the last days of months.
    any_day
        Whether times are any day of their months.

    """

    unit: str
    size: float
    origin: float
    form: str
    at_end: bool = False
    any_day: bool = False

    @classmethod
    def find(cls, times: Times, series: Longs, asked: str) -> Step:
        """Find the step of times of rows, whose series are numbered; `asked` names it, or is "auto".

        Raises
        ------
        SettingsError
            For times in no equal steps, and a step that they don't have.

        """
        values, form = times.values, times.form
        gaps = cls("", 1.0, 0.0, form).differences(values, series)
        if not len(gaps):
            raise SettingsError(
                "no series has two times: name the columns of series (series=), or give earlier rows",
                field="series",
                code="not_accepted",
            )
        candidates = [] if form == NUMBER else cls._of_calendar(times, asked)
        if asked == "auto":
            sizes, counts = np.unique(np.round(gaps, 9), return_counts=True)
            likely = {*sizes[np.argsort(-counts, kind="stable")[:TRIED]].tolist(), float(sizes[0])}
            unit = "number" if form == NUMBER else "day"
            if unit == "day":
                likely = {max(round(each * MILLISECONDS), 1) / MILLISECONDS for each in likely}
            origin = float(values.min())
            candidates += [cls(unit, size, origin, form) for size in sorted(likely, reverse=True)]
        for step in candidates:
            steps = step.differences(step.exact(values), series)
            whole = np.round(steps)
            fits = (np.abs(steps - whole) < max(WHOLE, 1e-6 / step.size)) & (whole >= 1)
            often = step.unit != "business day" or np.mean(steps < 2) > 0.5
            if len(steps) and fits.mean() >= MULTIPLES and often:
                return step.refined(values, series)
        if asked != "auto":
            message = f"the times are not in steps of a {asked}: leave step out to have it found"
        else:
            message = (
                "the times are in no equal steps, of which 95% of their differences are whole multiples: sum "
                "the outcomes by day, week or month before"
            )
        raise SettingsError(message, field="time" if asked == "auto" else "step", code="not_accepted")

    @classmethod
    def _of_calendar(cls, times: Times, asked: str) -> list[Step]:
        """List steps of months and of business days that dates may be in, or that which is asked for."""
        values, form, origin = times.values, times.form, float(times.values.min())
        if asked in DAYS:
            return [cls("day", DAYS[asked], origin, form)]
        days = _days(values)
        months = days.astype("datetime64[M]")
        last = (months + 1).astype("datetime64[D]") - days == np.timedelta64(1, "D")
        by_month = np.unique(_day_in_month(days), return_counts=True)[1].max() >= MULTIPLES * len(values)
        at_end = bool(last.mean() >= MULTIPLES and not by_month)
        found = []
        if asked in MONTHS:
            found = [cls("month", MONTHS[asked], origin, form, at_end, not (by_month or at_end))]
        elif (by_month or at_end) and asked == "auto" and len(np.unique(months)) > 1:
            found = [cls("month", size, origin, form, at_end) for size in (12, 6, 4, 3, 2, 1)]
        on_weekdays = bool(np.is_busday(days).all() and np.ptp(values) >= 14 and np.all(values % 1 == 0))
        if asked == "business day" or (asked == "auto" and on_weekdays):
            found.append(cls("business day", 1, origin, form))
        return found

    def differences(self, exact: Floats, series: Longs) -> Floats:
        """Return the differences above 0 of successive times of each series."""
        order = np.lexsort((exact, series))
        steps, same = np.diff(exact[order]), np.diff(series[order]) == 0
        return np.asarray(steps[same & (steps > 0)])

    def refined(self, values: Floats, series: Longs) -> Step:
        """Return the step with a size that long series of rounded decimals show."""
        if self.unit != "number" or self.size == int(self.size):
            return self
        order = np.lexsort((values, series))
        first = np.flatnonzero(np.diff(series[order], prepend=-1))
        lows, highs = values[order[first]], values[order[[*(first[1:] - 1), -1]]]
        longest = int(np.argmax(highs - lows))
        low, high = lows[longest], highs[longest]
        return Step(self.unit, float((high - low) / round((high - low) / self.size)), self.origin, self.form)

    def exact(self, values: Floats) -> Floats:
        """Return how many steps times are after the origin, which may be no whole numbers."""
        if self.unit == "month":
            days = _days(values)
            months = days.astype("datetime64[M]")
            start = _days(self.origin)
            first = start.astype("datetime64[M]")
            fixed = not (self.at_end or self.any_day)
            away = 0.0 if not fixed else _day_in_month(days) - float(_day_in_month(start[None])[0])
            return np.asarray(((months - first).astype(np.float64) + away / 31) / self.size)
        if self.unit == "business day":
            days, start = _days(values), _days(self.origin)
            return np.asarray(np.busday_count(start, days).astype(np.float64) + 0.5 * ~np.is_busday(days))
        return np.asarray((values - self.origin) / self.size)

    def index(self, values: Floats) -> tuple[Longs, Longs]:
        """Return the number of each time, int64 [row], and rows whose times were between two steps."""
        exact = self.exact(values)
        nearest = np.round(exact)
        off = np.flatnonzero(np.abs(exact - nearest) >= max(WHOLE, 1e-6 / self.size))
        return np.clip(nearest, -FARTHEST, FARTHEST).astype(np.int64), off

    def time(self, index: int) -> float:
        """Return the time of a number: days since 1970, or a number."""
        if self.unit == "month":
            start = _days(self.origin)
            month = start.astype("datetime64[M]") + int(index * self.size)
            length = int(((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(int))
            day = length - 1 if self.at_end else min(int(_day_in_month(start[None])[0]), length - 1)
            return float((month.astype("datetime64[D]") + day).astype(int))
        if self.unit == "business day":
            start = _days(self.origin)
            return float(np.busday_offset(start, index).astype(int))
        return self.origin + index * self.size

    def text(self, index: int) -> Any:
        """Write the time of a number as the column has it."""
        value = self.time(index)
        if self.unit == "number" and self.size != int(self.size):
            value = round(value, 6)
        return written(value, self.form)

    @property
    def in_words(self) -> str:
        """The step in words: "a month", "7 days", "0.5"."""
        if self.unit == "month":
            known = {1: "a month", 3: "a quarter", 12: "a year"}
            return known.get(int(self.size), f"{self.size:g} months")
        if self.unit == "day" and self.size < 1:
            return "an hour" if round(24 * self.size, 6) == 1 else f"{24 * self.size:g} hours"
        if self.unit == "number":
            return number_to_text(self.size)
        return {7: "a week", 1: f"a {self.unit}"}.get(int(self.size), counted(int(self.size), self.unit))

    @property
    def seasons(self) -> tuple[int, ...]:
        """Numbers of steps after which seasons return, by default; 1 for none."""
        if self.unit == "month":
            return (12 // int(self.size),) if 12 % self.size == 0 else (1,)
        if self.unit == "business day":
            return (5,)
        if self.unit == "day" and self.size >= 1:
            return {1.0: (7,), 7.0: (52,)}.get(self.size, (1,))
        each = round(1 / self.size) if self.size else 1  # in a day, or in a year of decimals
        whole = abs(each * self.size - 1) < WHOLE
        if self.unit == "number":
            return (each,) if whole and each in (4, 12, 52) else (1,)
        return (each, 7 * each) if whole and each > 1 else (1,)

    def month_of(self, index: int) -> int | None:
        """Return the month, from 0, of a daily time; None of others."""
        if self.unit not in ("day", "business day") or self.size > 1:
            return None
        return int(_days(self.time(index)).astype("datetime64[M]").astype(int) % 12)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def _days(values: Floats | float) -> Any:
    return np.floor(np.asarray(values)).astype(np.int64).astype("datetime64[D]")


def _day_in_month(days: Any) -> Floats:
    months = days.astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray((days - months).astype(np.float64))
