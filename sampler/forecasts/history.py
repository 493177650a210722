"""History of series: outcomes and known columns by series and step, and what is asked of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sampler.array_types import Bools, Floats, Longs
from sampler.data.convert import to_floats, to_labels
from sampler.data.scalars import counted, is_missing
from sampler.data.schema import why_too_large
from sampler.data.table import RawColumn, Table
from sampler.definitions.forecast import Forecasting
from sampler.errors import DataError, DataProblem, SettingsError
from sampler.forecasts.steps import Step, Times
from sampler.storage.forecast_file import MOST_CELLS

SeriesKey = tuple[str, ...]
MANY_ABSENT, MOST_ABSENT = 0.2, 0.5  # shares of steps without a row from which on gaps are asked for
ZERO = "zero"
FEW_CELLS, SPARSE = 1 << 22, 64  # series times steps that any history may have, and for each outcome


@dataclass(frozen=True)
class PanelRows:
    """Rows of series, each at a step.

    Attributes
    ----------
    keys
        Values of the columns of series, by row.
    index
        Number of the step of each row, int64 [row].
    y
        Outcomes, float64 [row], NaN where they are missing.
    known
        Columns known ahead, float64 [row] each: numbers, or positions in `levels`.
    levels
        Names of the levels of those of `known` that are categories.
    static
        Values of other columns, by row.

    """

    keys: list[SeriesKey]
    index: Longs
    y: Floats
    known: dict[str, Floats]
    levels: dict[str, list[str]]
    static: dict[str, list[Any]]


@dataclass(frozen=True)
class History:
    """Outcomes of series by step, with columns known ahead and those that don't change.

    Attributes
    ----------
    asked
        What the fit was told.
    target
        Name of the outcome.
    step
        The step between times.
    keys
        Values of the columns of series of each series, in order.
    numeric
        Whether each column of series is of numbers.
    start
        Number of the first step.
    y
        float64 [series, step], NaN where there is no outcome.
    known
        float64 [series, step] by name.
    levels
        Names of the levels of those of `known` that are categories.
    static
        A value for each series, by name: numbers or text.

    """

    asked: Forecasting
    target: str
    step: Step
    keys: tuple[SeriesKey, ...]
    numeric: tuple[bool, ...]
    start: int
    y: Floats
    known: Mapping[str, Floats]
    levels: Mapping[str, tuple[str, ...]]
    static: Mapping[str, tuple[Any, ...]]

    @classmethod
    def read(cls, table: Table, outcome: RawColumn, asked: Forecasting, features: Sequence[str]) -> Self:
        """Read the rows of a fit; `features` are the columns beside those of time and series.

        Raises
        ------
        DataError
            For cells that are no times, two rows of one series and time, and outcomes that are no numbers.
        SettingsError
            For irregular steps, gaps that must be decided, and features that aren't known ahead.

        """
        times = Times.read(table.column(asked.time))
        keys, numeric = _keys(table, asked.series)
        numbers = {key: number for number, key in enumerate(sorted({*keys}))}
        step = Step.find(times, np.array([numbers[key] for key in keys]), asked.step)
        rows = read_panel(table, outcome, asked, step, features, times)
        empty = cls(asked, outcome.name, step, (), numeric, 0, np.zeros((0, 0)), {}, {}, {})
        history = empty.with_rows(rows)
        _refuse_changing(history, rows, features)
        return history.deciding_gaps(rows)

    def with_rows(self, rows: PanelRows) -> Self:
        """Add rows; those of a series and step that are there already must say the same.

        Raises
        ------
        DataError
            For a row that says another outcome than is known, and two rows of one series and step.

        """
        name = self.asked.time
        keys = tuple(sorted({*self.keys, *rows.keys}, key=lambda key: _order(key, self.numeric)))
        place = {key: number for number, key in enumerate(keys)}
        series = np.array([place[key] for key in rows.keys], np.int64)
        self.refuse_doubled(rows, series)
        old = np.array([place[key] for key in self.keys], np.int64)
        ends = [self.start, self.start + self.y.shape[1] - 1] if self.y.size else []
        start, stop = min([*ends, *rows.index.tolist()]), max([*ends, *rows.index.tolist()])
        self._check_span(start, stop, rows, len(keys))
        there = np.zeros(len(series), bool)  # whether the outcome of a row is known

        def placed(before: Floats, own: Floats) -> Floats:
            whole = np.full((len(keys), stop - start + 1), np.nan)
            if before.size:
                first = self.start - start
                whole[old, first : first + before.shape[1]] = before
            now = whole[series, rows.index - start]
            whole[series, rows.index - start] = np.where(np.isnan(own) | there & ~np.isnan(now), now, own)
            return whole

        if self.y.size:
            before = placed(self.y, np.full(len(series), np.nan))[series, rows.index - start]
            there = ~np.isnan(before)
            differs = np.flatnonzero(there & ~np.isnan(rows.y) & (before != rows.y))
            if len(differs):
                row = int(differs[0])
                raise DataError.at(
                    self.target,
                    row + 1,
                    f"{self.named(keys, int(series[row]), int(rows.index[row]), name)} is known "
                    f"as {before[row]:g}, and {rows.y[row]:g} came: history isn't written over, so "
                    "leave the row out, or fit again",
                )
        levels = dict(self.levels) | {
            each: tuple(dict.fromkeys([*self.levels.get(each, ()), *own]))
            for each, own in rows.levels.items()
        }
        known = {}
        for each, read in rows.known.items():
            own = read
            if each in levels and rows.levels[each]:  # positions of the rows' own levels become those of all
                position = np.array([*(levels[each].index(level) for level in rows.levels[each]), np.nan])
                own = position[np.where(np.isnan(read), -1, read).astype(int)]
            known[each] = placed(self.known[each] if self.known else np.zeros((0, 0)), own)
        first_row = {key: row for row, key in reversed([*enumerate(rows.keys)])}
        old_place = {key: number for number, key in enumerate(self.keys)}
        static = {
            each: tuple(
                self.static[each][old_place[key]] if key in old_place else values[first_row[key]]
                for key in keys
            )
            for each, values in rows.static.items()
        }
        return replace(
            self, keys=keys, start=start, y=placed(self.y, rows.y), known=known, levels=levels, static=static
        )

    def _check_span(self, start: int, stop: int, rows: PanelRows, series: int) -> None:
        """Raise DataError for a time so far from others that the steps between would fill the memory."""
        outcomes = len(rows.index) + int(np.count_nonzero(~np.isnan(self.y)))
        if series * (stop - start + 1) <= min(MOST_CELLS, max(FEW_CELLS, SPARSE * outcomes)):
            return
        middle = np.median(rows.index) if not self.y.size else self.start + self.y.shape[1] / 2
        row = int(np.argmax(np.abs(rows.index - middle)))
        raise DataError.at(
            self.asked.time,
            row + 1,
            f"with this time there are {stop - start + 1:,} steps of {self.step.in_words}, for "
            f"{counted(outcomes, 'outcome')} of {series:,} series: correct the time, or sum the rows by "
            "longer steps",
        )

    def refuse_doubled(self, rows: PanelRows, series: Longs) -> None:
        """Raise DataError for two rows of one series, by its number, and step."""
        order = np.lexsort((rows.index, series))
        same = (np.diff(series[order]) == 0) & (np.diff(rows.index[order]) == 0)
        if not same.any():
            return
        row = int(order[1:][same].min())
        steps = f"{counted(int(same.sum()), 'time')} of a series have two rows"
        keys = tuple(sorted({*rows.keys}, key=lambda key: _order(key, self.numeric)))
        where = self.named(keys, keys.index(rows.keys[row]), int(rows.index[row]), self.asked.time)
        raise DataError.at(
            self.asked.time,
            row + 1,
            f"{where} has another row; {steps}: name a further column in series, or sum the rows",
        )

    def named(self, keys: Sequence[SeriesKey], series: int, index: int, time: str) -> str:
        """Name a series and a time: "week 2024-01-08 of shop 3"."""
        of = f" of {self.series_in_words(keys[series])}" if self.asked.series else ""
        return f"{time} {self.step.text(index)}{of}"

    def series_in_words(self, key: SeriesKey) -> str:
        """Name a series: "shop 3, product tea"."""
        return ", ".join(f"{name} {each}" for name, each in zip(self.asked.series, key, strict=True))

    def deciding_gaps(self, rows: PanelRows) -> Self:
        """Decide what steps without one of the rows are; raise SettingsError where that must be asked."""
        absent, present = self._absent, self.y[~np.isnan(self.y)]
        share = float(absent.sum() / max(absent.sum() + len(present), 1))
        if self.asked.gaps == ZERO:
            return self.with_zeros(rows)
        if self.asked.gaps == "auto" and share > MANY_ABSENT and _are_counts(present):
            raise SettingsError(
                f"{share:.0%} of the steps have no row, of {self.step.in_words} each: say what they are, "
                'gaps="zero" where nothing was sold then, gaps="missing" where it isn\'t known, or sum the '
                "rows by longer steps",
                field="gaps",
                code="not_accepted",
            )
        if self.asked.gaps == "auto" and share > MOST_ABSENT:
            raise SettingsError(
                f"{share:.0%} of the steps have no row, of {self.step.in_words} each: sum the outcomes by "
                'week or month before, or say gaps="missing"',
                field="gaps",
                code="not_accepted",
            )
        return self

    @property
    def _absent(self) -> Bools:
        steps = np.arange(self.y.shape[1])
        inside = (steps >= self.first[:, None]) & (steps <= self.last[:, None])
        return np.asarray(inside & np.isnan(self.y))

    def with_zeros(self, rows: PanelRows) -> Self:
        """Take steps without a row, between the first and the last outcome of a series, for 0.

        Raises DataError for rows there that have no outcome.
        """
        place = {key: number for number, key in enumerate(self.keys)}
        series = np.array([place[key] for key in rows.keys], np.int64)
        unknown = np.flatnonzero(self._absent[series, rows.index - self.start])
        if len(unknown):
            row = int(unknown[0])
            where = self.named(self.keys, int(series[row]), int(rows.index[row]), self.asked.time)
            detail = f"{where} has a row without an outcome: give it, or leave out the row where it is 0"
            raise DataError.at(self.target, row + 1, detail)
        return replace(self, y=np.where(self._absent, 0.0, self.y))

    @property
    def first(self) -> Longs:
        """Position of the first outcome of each series, int64 [series]."""
        return np.asarray(np.argmax(~np.isnan(self.y), axis=1))

    @property
    def last(self) -> Longs:
        """Position of the newest outcome of each series, int64 [series]; -1 without any."""
        known = ~np.isnan(self.y)
        return np.asarray(
            np.where(known.any(axis=1), known.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1), -1)
        )

    def until(self, position: int) -> Self:
        """Leave out outcomes after a position, and series that begin after it; known columns stay."""
        seen = self.seen(position)
        return seen.of_series(np.flatnonzero(~np.isnan(seen.y).all(axis=1)))

    def seen(self, position: int) -> Self:
        """Leave out outcomes after a position."""
        return replace(self, y=self.y[:, : position + 1])

    def of_series(self, kept: Longs) -> Self:
        """Select series by their positions."""
        return replace(
            self,
            keys=tuple(self.keys[each] for each in kept),
            y=self.y[kept],
            known={name: values[kept] for name, values in self.known.items()},
            static={name: tuple(values[each] for each in kept) for name, values in self.static.items()},
        )

    @property
    def in_words(self) -> str:
        """Description: "steps of a week, 50 series, 3 gaps, 2 series end early"."""
        known = ~np.isnan(self.y)
        gaps = int((self.last - self.first + 1 - known.sum(axis=1)).sum())
        early = int((self.last < self.last.max()).sum())
        found = [f"steps of {self.step.in_words}", f"{len(self.keys)} series"]
        found.append(counted(gaps, "gap") if gaps else "no gaps")
        if early:
            found.append(f"{early} series end{'s' * (early == 1)} early")
        return ", ".join(found)

    @property
    def are_counts(self) -> bool:
        """Whether outcomes are whole numbers from 0 up, many of which are 0 or which are small."""
        present = self.y[~np.isnan(self.y)]
        if not _are_counts(present):
            return False
        return bool(np.mean(present == 0) >= 0.3 or (present.mean() < 5 and np.any(present == 0)))

    def columns_of(self, series: Sequence[int]) -> dict[str, list[Any]]:
        """Return the columns of series with the values of some of them."""
        return {
            name: [_plain(self.keys[each][j], number=self.numeric[j]) for each in series]
            for j, name in enumerate(self.asked.series)
        }

    def rows(self) -> dict[str, list[Any]]:
        """Return the outcomes with their series, times and other columns, as the rows of a fit."""
        series, at = np.nonzero(~np.isnan(self.y))
        known = {}
        for name, values in self.known.items():
            levels = self.levels.get(name)
            known[name] = [
                None if np.isnan(each) else each if levels is None else levels[int(each)]
                for each in values[series, at].tolist()
            ]
        static = {name: [values[each] for each in series.tolist()] for name, values in self.static.items()}
        times = [self.step.text(self.start + each) for each in at.tolist()]
        named = {self.asked.time: times} | self.columns_of(series.tolist())
        return named | known | static | {self.target: self.y[series, at].tolist()}


def read_panel(
    table: Table,
    outcome: RawColumn | None,
    asked: Forecasting,
    step: Step,
    features: Sequence[str],
    times: Times | None = None,
    levels_of: Mapping[str, Any] | None = None,
) -> PanelRows:
    """Read rows with columns of time, series and features; without an outcome those of a plan.

    Of columns known ahead those of `levels_of` are categories; for None those of text are. Raises DataError
    for cells that can't be read, and times between two steps.
    """
    if not table.num_rows:
        raise DataError("there are no rows")
    times = Times.read(table.column(asked.time)) if times is None else times
    if (times.form == "number") != (step.form == "number"):
        raise DataError.at(asked.time, 1, f"times are like {step.text(0)!r} in the fit, and here not")
    index, off = step.index(times.values)
    if len(off):
        more = [DataProblem.further(asked.time, len(off) - 1, "such rows")] if len(off) > 1 else []
        detail = (
            f"{times.text(float(times.values[off[0]]))} is between two steps of {step.in_words}: correct the "
            "time, or sum the outcomes by step before"
        )
        raise DataError([DataProblem(asked.time, int(off[0]) + 1, detail), *more])
    problems: list[DataProblem] = []
    y = np.full(table.num_rows, np.nan)
    if outcome is not None:
        y = to_floats(outcome, "number", problems, read_text=True)
        present = y[~np.isnan(y)]
        if why := why_too_large(*([float(present.min()), float(present.max())] if len(present) else [0, 0])):
            problems.append(DataProblem(outcome.name, None, why))
    known: dict[str, Floats] = {}
    levels: dict[str, list[str]] = {}
    static: dict[str, list[Any]] = {}
    for name in features:
        column = table.column(name)
        if name not in asked.known:
            labels = to_labels(column, problems)
            numbers = column.numbers if column.type in ("number", "boolean") else None
            static[name] = [
                None if at < 0 else labels.names[at] if numbers is None else float(numbers[row])
                for row, at in enumerate(labels.index.tolist())
            ]
        else:
            number = column.numbers is not None if levels_of is None else name not in levels_of
            known[name], names = _known(column, problems, number=number)
            levels |= {} if number else {name: names}
    if problems:
        raise DataError(problems)
    return PanelRows(_keys(table, asked.series)[0], index, y, known, levels, static)


def _known(column: RawColumn, problems: list[DataProblem], *, number: bool) -> tuple[Floats, list[str]]:
    """Read a column known ahead: numbers, or positions of levels and their names."""
    if not number:
        labels = to_labels(column, problems)
        return np.where(labels.index < 0, np.nan, labels.index.astype(np.float64)), labels.names
    if (values := column.numbers) is None:
        return to_floats(column, "number", problems, read_text=True), []
    if (infinite := np.flatnonzero(np.isinf(values))).size:
        problems.append(DataProblem(column.name, int(infinite[0]) + 1, "the value is infinite"))
    return values, []


def _keys(table: Table, names: Sequence[str]) -> tuple[list[SeriesKey], tuple[bool, ...]]:
    """Read the values of the columns of series by row, and whether each is of numbers."""
    problems: list[DataProblem] = []
    columns, numeric = [], []
    for name in names:
        raw = table.column(name)
        labels = to_labels(raw, problems)
        if (missing := np.flatnonzero(labels.index < 0)).size:
            problems.append(DataProblem(name, int(missing[0]) + 1, "the row has no series"))
        columns.append([labels.names[at] if at >= 0 else "" for at in labels.index.tolist()])
        numeric.append(raw.numbers is not None and raw.type == "number")
    if problems:
        raise DataError(problems)
    return [*zip(*columns, strict=True)] if names else [()] * table.num_rows, tuple(numeric)


def _order(key: SeriesKey, numeric: tuple[bool, ...]) -> tuple[Any, ...]:
    """Return a key by which series are sorted: numbers by their size, before text."""
    plain = [_plain(each, number=number) for each, number in zip(key, numeric, strict=True)]
    return tuple((isinstance(each, str), each) for each in plain)


def _plain(text: str, *, number: bool) -> Any:
    """Return the value of a column of series as it was: of one of numbers what can be read as such."""
    try:
        value = float(text) if number else 0.0
    except ValueError:
        return text
    return text if not number else int(value) if value.is_integer() else value


def _are_counts(present: Floats) -> bool:
    return bool(len(present) and np.all((present >= 0) & (present == np.floor(present))))


def _refuse_changing(history: History, rows: PanelRows, features: Sequence[str]) -> None:
    """Raise SettingsError for features that change within a series and aren't known ahead."""
    changing: dict[str, str] = {}  # where each does first
    for name in (each for each in features if each not in history.asked.known):
        seen: dict[SeriesKey, Any] = {}
        for row, (key, value) in enumerate(zip(rows.keys, rows.static[name], strict=True)):
            before = seen.setdefault(key, value)
            if before != value and not (is_missing(before) and is_missing(value)):
                series = history.keys.index(key)
                changing[name] = history.named(history.keys, series, int(rows.index[row]), history.asked.time)
                break
    if changing:
        first, *more = changing
        those = f"{', '.join(changing)} aren't" if more else f"{first} isn't"
        change, them = ("change", "them") if more else ("changes", "it")
        kept = [name for name in features if name not in changing]
        raise SettingsError(
            f"{those} known for later steps, and {change} within a series ({changing[first]}): "
            f"known={[*changing]} if a plan or forecast of {them} will be sent, or leave {them} out with "
            f"features={kept}",
            field="known",
            code="not_accepted",
        )
