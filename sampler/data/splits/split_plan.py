"""The plan of rows: which are held out, which fits judge which rows, and what counts once.

It follows from how new rows will differ (`sampler.definitions.new_rows`), and is a pure function, so that
every process and every part of a model chooses the same rows (docs/validity.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Longs
from sampler.data.columns import sort_levels
from sampler.data.convert import NAMED_CELLS, read_as_dates, to_labels
from sampler.data.groupings import group_names
from sampler.data.periods import EXAMPLES
from sampler.data.rows import Rows
from sampler.data.scalars import GAP, counted, days_to_text, number_to_text
from sampler.data.splits.holdout import holdout_rows, random_words
from sampler.data.table import RawColumn
from sampler.definitions.new_rows import NewRows
from sampler.errors import DataError, DataProblem, SettingsError

FOLDS = 5  # parts of the rows by which a calibration judges all of them
FEWEST_GROUPS = 3  # with two, a fit without one of them has seen a single other
FEW_GROUPS = 10  # with fewer, each is a fold of its own
ORIGINS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # shares of the rows that are past where rehearsals begin
FEWEST_IN_REHEARSAL = 30  # rows
FEWEST_WHOLE = 2  # rehearsals that reach a declared horizon: by one alone nobody sees how much they differ
NEWEST = 0.1  # share of the newest rows whose span is the usual horizon
_FOLDS_STREAM = 2


class Split(NamedTuple):
    """Rows of a fit and rows that judge it, each in ascending order; some rows may be in neither."""

    train: Longs
    test: Longs


@dataclass(frozen=True)
class SplitPlan:
    """Rows by what new rows will be like.

    Attributes
    ----------
    new_rows
        The declaration.
    num_rows
        Number of rows, n.
    unit
        int32 [n], the group of each row, numbered in the order of the levels; where new rows aren't of other
        groups, exact copies of a row have one number (`sampler.data.splits.copies`), others their own.
    time
        float64 [n], of dates and periods in days since 1970, or None without `later`.
    is_date
        Whether the time is one of dates or periods.

    """

    new_rows: NewRows
    num_rows: int
    seed: int
    unit: NDArray[np.int32]
    time: NDArray[np.float64] | None = None
    is_date: bool = False

    @classmethod
    def of(
        cls,
        new_rows: NewRows,
        column: Callable[[str], RawColumn],
        num_rows: int,
        seed: int,
        copies: NDArray[np.int32] | None = None,
    ) -> SplitPlan:
        """Read the columns that the declaration names.

        Parameters
        ----------
        new_rows
            How new rows will differ.
        column
            Reader of a column of that many rows, by name.
        num_rows
            Number of rows.
        seed
            Seed of the model.
        copies
            int32 [row], equal where rows are copies, as `copied_rows` gives them; None for no copies.

        Returns
        -------
        SplitPlan
            The plan.

        Raises
        ------
        DataError
            For rows without a group or a time, and for columns that can't be either.
        SettingsError
            For fewer than three groups.

        """
        unit = np.arange(num_rows, dtype=np.int32) if copies is None else copies
        if new_rows.groups is not None:
            unit = _units(column(new_rows.groups))
            if (count := int(unit.max(initial=-1)) + 1) < FEWEST_GROUPS:
                raise SettingsError(
                    f"new_rows: {new_rows.groups} has {count} {'value' if count == 1 else 'values'}, and of "
                    f"new ones nothing can be said by fewer than {FEWEST_GROUPS}: leave new_rows out",
                    field="new_rows.groups",
                    code="out_of_range",
                )
        time, is_date = (None, False) if new_rows.later is None else _times(column(new_rows.later))
        return cls(new_rows, num_rows, seed, unit, time, is_date)

    @property
    def num_units(self) -> int:
        """Number of groups, or of rows where new rows aren't of other groups."""
        return int(self.unit.max(initial=-1)) + 1

    def take(self, rows: Longs) -> SplitPlan:
        """Plan for some of the rows alone."""
        unit = np.unique(self.unit[rows], return_inverse=True)[1].astype(np.int32)
        time = None if self.time is None else self.time[rows]
        return replace(self, num_rows=len(rows), unit=unit, time=time)

    def holdout(self, fraction: float | None) -> Split:
        """Choose the rows held out.

        Copies of a row are held out together, and one of them is tested. Of groups that share of all groups,
        whole; of times the newest rows that are at most that share, with
        as many before them unused as `gap` says. Of both, the newest rows of the chosen groups are judged by
        a fit to the older rows of the others.
        """
        everything = np.arange(self.num_rows, dtype=np.int64)
        if not fraction:
            return Split(everything, np.zeros(0, np.int64))
        if self.new_rows.are_like_these:
            if self.num_units == self.num_rows:
                test = holdout_rows(self.num_rows, fraction, self.seed)
                return Split(np.setdiff1d(everything, test), test)
            part = np.zeros(self.num_units, np.int64)
            part[holdout_rows(self.num_units, fraction, self.seed)] = 1
            return self._without_copies(part[self.unit], 1)
        train, test_mask = np.ones(self.num_rows, bool), np.ones(self.num_rows, bool)
        if self.new_rows.groups is not None:
            held = np.zeros(self.num_units, bool)
            held[holdout_rows(self.num_units, fraction, self.seed, 1)] = True
            train, test_mask = ~held[self.unit], held[self.unit]
        if self.time is not None:
            start = self._newest(fraction)
            train, test_mask = (
                train & (self.time < start - self.new_rows.gap),
                test_mask & (self.time >= start),
            )
        return Split(np.flatnonzero(train), np.flatnonzero(test_mask))

    def judged_by(self, test: Longs) -> str:
        """Say by which rows a fit is judged, and for which new rows that tells."""
        rows, column, later = counted(len(test), "row"), self.new_rows.groups, self.new_rows.later
        seen, told = f"{rows} held out at random", "new rows like these"
        if column is not None:
            held, told = len(np.unique(self.unit[test])), "rows of new values"
            seen = f"{held} of {self.num_units} values of {column} ({rows}) that the fit did not see"
        if self.time is None or not len(test):
            return f"Judged by {seen}: for {told}."
        first, last = self.time[test].min(), self.time[test].max()
        ends = [days_to_text(end) if self.is_date else number_to_text(end) for end in (first, last)]
        declared = self.new_rows.horizon
        reach = number_to_text(
            float(declared if declared and self._reaches(first, declared) else last - first)
        )
        if column is None:
            seen, told = f"the newest {rows}", "rows"
        unit = "days" if self.is_date else f"of {later}"
        return (
            f"Judged by {seen}, {' to '.join(ends)}, of a fit to those before: for {told} up to {reach} "
            f"{unit} later, if change goes on as it did. The model has not "
            "learnt from these rows: fit again without a hold-out before use."
        )

    def folds(self, count: int) -> list[Split]:
        """Part the rows into fits and the rows that judge them.

        Rows at random in `count` parts of equal sizes; groups whole, to the part with the fewest rows so far,
        in a random order (each its own part where they are fewer than ten); times in rehearsals, each of
        which predicts the rows up to the horizon after its origin by those before it; of both, each rehearsal
        predicts other groups by the rest.

        Raises
        ------
        SettingsError
            For too few rows, groups or periods.

        """
        if self.time is not None:
            return self._rehearsals()
        if self.new_rows.groups is not None:
            parts = self._parts_of_groups(self.num_units if self.num_units < FEW_GROUPS else count)
            return [
                Split(np.flatnonzero(parts != k), np.flatnonzero(parts == k)) for k in range(parts.max() + 1)
            ]
        if self.num_units == self.num_rows:
            return folds_of(self.num_rows, count, self.seed)
        part = self._parts_of_groups(count)
        return [self._without_copies(part, k) for k in range(count)]

    def _without_copies(self, part: NDArray[np.int64], number: int) -> Split:
        """Test the rows of a part, int64 [row], each copy once, by a fit to the other parts."""
        once = np.zeros(self.num_rows, bool)
        once[np.unique(self.unit, return_index=True)[1]] = True
        return Split(np.flatnonzero(part != number), np.flatnonzero((part == number) & once))

    def judged(self, splits: Sequence[Split]) -> tuple[NDArray[np.intp], NDArray[np.int32] | None]:
        """Order the rows that splits tested as the rows are, and tell what of them counts once.

        Returns
        -------
        tuple
            Positions among the tested rows, one split after another, in the order of the rows; and in that
            order the group of each or, of later rows, the number of its split, int32; None where each row
            counts.

        """
        order = np.argsort(np.concatenate([each.test for each in splits]), kind="stable")
        if self.new_rows.groups is not None:
            return order, self.unit[np.concatenate([each.test for each in splits])[order]]
        if self.time is not None and len(splits) > 1:
            numbers = np.repeat(np.arange(len(splits), dtype=np.int32), [len(each.test) for each in splits])
            return order, numbers[order]
        return order, None

    def _newest(self, fraction: float) -> float:
        """Find the smallest time that at most this share of the rows have reached; ties are not parted."""
        assert self.time is not None
        times, counts = np.unique(self.time, return_counts=True)
        reached = np.cumsum(counts[::-1])[::-1]  # rows at or after each time
        few = np.flatnonzero(reached <= fraction * self.num_rows + 1e-9)
        if not len(few) or few[0] == 0:
            raise _too_few_times(self.new_rows.later)
        return float(times[few[0]])

    def _parts_of_groups(self, count: int) -> NDArray[np.int64]:
        """Give each row the number of its part, int64 [row]."""
        order = np.argsort(random_words(self.num_units, self.seed, _FOLDS_STREAM, count), kind="stable")
        sizes = np.bincount(self.unit, minlength=self.num_units)
        part, filled = np.zeros(self.num_units, np.int64), np.zeros(count, np.int64)
        for group in order:
            part[group] = np.argmin(filled)
            filled[part[group]] += sizes[group]
        return part[self.unit]

    def horizon(self) -> float:
        """Return the horizon: as declared, or the span of the newest tenth of the rows."""
        assert self.time is not None
        if self.new_rows.horizon is not None:
            return self.new_rows.horizon
        ordered = np.sort(self.time)
        span = float(ordered[-1] - ordered[int((1 - NEWEST) * (self.num_rows - 1))])
        return span or float(ordered[-1] - ordered[0])

    def _reaches(self, start: float, horizon: float) -> bool:
        """Tell whether there are times up to the end of a horizon from `start`, but for a usual step."""
        assert self.time is not None
        times = np.unique(self.time)
        step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
        return bool(start + horizon <= times[-1] + step)

    def _rehearsals(self) -> list[Split]:
        assert self.time is not None
        ordered, horizon = np.sort(self.time), self.horizon()
        part = None if self.new_rows.groups is None else self._parts_of_groups(len(ORIGINS))
        splits, origins = [], []
        for j, share in enumerate(ORIGINS):
            origin = ordered[min(int(share * self.num_rows + 1e-9), self.num_rows - 1)]
            train = self.time < origin - self.new_rows.gap
            test = (self.time >= origin) & (self.time < origin + horizon)
            if part is not None:
                train, test = train & (part != j), test & (part == j)
            if np.count_nonzero(train) > 1 and np.any(test):
                splits.append(Split(np.flatnonzero(train), np.flatnonzero(test)))
                origins.append(float(origin))
        if not splits or sum(len(each.test) for each in splits) < FEWEST_IN_REHEARSAL:
            raise _too_few_times(self.new_rows.later)
        last = origins[:FEWEST_WHOLE][-1]  # of those that have to be whole
        if self.new_rows.horizon is not None and not self._reaches(last, horizon):
            span, reach = (number_to_text(ordered[-1] - start) for start in (ordered[0], last))
            raise SettingsError(
                f"new_rows: the rows span {span} of {self.new_rows.later}, in which a horizon of "
                f"{number_to_text(horizon)} can't be rehearsed: declare at most {reach}",
                field="new_rows.horizon",
                code="out_of_range",
            )
        return splits


def folds_of(num_rows: int, folds: int, seed: int) -> list[Split]:
    """Part the rows at random into folds whose sizes differ by at most one, each judged by the others."""
    if num_rows < 2 * folds:
        raise SettingsError(
            f"{folds} folds need {2 * folds} rows or more; there are {num_rows}",
            field="folds",
            code="out_of_range",
        )
    order = np.random.default_rng([seed, folds]).permutation(num_rows)
    held = [np.sort(order[fold::folds]) for fold in range(folds)]
    return [Split(np.setdiff1d(order, test), test) for test in held]


def without_new_groups(rows: Rows, new_rows: NewRows, settings: Mapping[str, Any]) -> Rows:
    """Take the column of new groups out of the features: of a value never seen it says nothing.

    It stays a column of groups (`groups=`). Raises SettingsError where it is named as a feature.
    """
    name = new_rows.groups
    if name is None or name in group_names(settings.get("groups")):
        return rows
    if name in (settings.get("features") or ()):
        raise SettingsError(
            f"new_rows: new rows have other values of {name!r}, of which a fit can't learn: leave it out of "
            "the features, or give it as groups",
            field="features",
            code="contradiction",
        )
    why = "new rows have other values of it (new_rows), of which nothing can be learnt"
    return replace(rows, copies={**rows.copies, name: why})


def _too_few_times(name: str | None) -> SettingsError:
    return SettingsError(
        f"new_rows: {name} has too few times to predict later rows by earlier ones: leave later out, or "
        "declare a shorter horizon and gap",
        field="new_rows.later",
        code="out_of_range",
    )


def _units(column: RawColumn) -> NDArray[np.int32]:
    """Give each row the place of its level among all; raise DataError."""
    problems: list[DataProblem] = []
    labels = to_labels(column, problems)
    _refuse_missing(column.name, labels.index < 0, "group", problems)
    place = {level: k for k, level in enumerate(sort_levels(labels.names))}
    return np.array([place[name] for name in labels.names], np.int32)[labels.index]


def _times(column: RawColumn) -> tuple[NDArray[np.float64], bool]:
    """Read the time of each row, and tell whether times are dates or periods; raise DataError."""
    problems: list[DataProblem] = []
    column = read_as_dates(column)
    if column.type not in ("date", "number") or column.numbers is None:
        what = "new_rows.later takes a column of dates or numbers, or of periods of one form such as"
        raise DataError([DataProblem(column.name, None, f"{what} {EXAMPLES}")])
    _refuse_missing(column.name, ~np.isfinite(column.numbers), "time", problems)
    if column.type == "number" and (form := _written_as(column.numbers)):
        first, last = (
            number_to_text(end).replace(GAP, "") for end in (column.numbers.min(), column.numbers.max())
        )
        detail = (
            f"{first} to {last} look like dates written as {form}, and as numbers would count too many days "
            "from one month or year to the next: write dates (2026-01-31)"
        )
        raise DataError([DataProblem(column.name, None, detail)])
    return column.numbers, column.type == "date"


def _written_as(times: NDArray[np.float64]) -> str:
    """Name the form in which all numbers would be dates, over several months or years; "" for none."""
    if not len(times) or not np.all(times == np.floor(times)):
        return ""
    for form, months in (("yyyymmdd", times // 100), ("yyyymm", times)):
        are_months = (
            (months // 100 >= 1900) & (months // 100 <= 2100) & (months % 100 >= 1) & (months % 100 <= 12)
        )
        are_days = (times % 100 >= 1) & (times % 100 <= 31) | (form == "yyyymm")
        if np.all(are_months & are_days) and np.ptp(times // 100):
            return form
    return ""


def _refuse_missing(name: str, missing: NDArray[np.bool_], noun: str, problems: list[DataProblem]) -> None:
    rows = np.flatnonzero(missing)
    message = f"the {noun} is missing, and new_rows needs it: fill it in, or leave such rows out"
    problems += [DataProblem(name, int(row) + 1, message) for row in rows[:NAMED_CELLS]]
    if len(rows) > NAMED_CELLS:
        problems.append(DataProblem.further(name, len(rows) - NAMED_CELLS, f"rows without a {noun}"))
    if problems:
        raise DataError(problems)
