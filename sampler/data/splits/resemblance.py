"""Rows that resemble each other: columns whose new values random held-out rows say little about.

Rows of one subject, or neighbours in time, often have outcomes that are nearer to each other than the
features say. Scores and calibration by random rows then are of other rows of the same subjects
(docs/validity.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, ndtr, ndtri

from sampler.array_types import Floats
from sampler.data.convert import read_as_dates, to_labels
from sampler.data.splits.calendar_parts import tells_calendar
from sampler.data.table import RawColumn, Table
from sampler.definitions.new_rows import LIKE_TRAINING, NewRows

MOST_CELLS = 4_000_000  # of a stored table that is read for it: a tenth of a second
MOST_ROWS = 20_000
MOST_FEATURES = 200  # in the regression whose residuals are compared
FEWEST_GROUPS = 20  # values of a column that may be an identity, which is no feature of the regression
KNOTS = np.arange(1, 10) / 10  # quantiles of a number at which its effect may bend
MOST_BENDS = 6  # of a number, chosen by so many rows
ROWS_OF_BENDS = 2_000
ROWS_A_BEND, GROUPS_A_BEND = 8, 3
PENALTY = 1e-3
CHANCE = 1e-3  # of a false alarm, shared by the columns of groups
CHANCE_IN_TIME = 5e-4
LEAST_CORRELATION = 0.12  # 90% intervals that know the groups hold 88% of the rows of new ones
LEAST_OF_NUMBERS = 0.25
LEAST_UNLIKE = (
    0.5  # difference of neighbouring numbers' means, beside that of any two: less is a smooth effect
)
LEAST_IN_TIME = 0.1
LEAST_IN_ORDER = 0.3  # of neighbouring rows, where no column explains it
TREND = 0.5  # rank correlation with the row number in tables that were sorted
FEWEST_ROWS = 30
MOST_NAMED = 3  # columns that are warned of


@dataclass(frozen=True)
class Resemblance:
    """A column whose rows of equal or neighbouring values resemble each other beyond the features.

    Attributes
    ----------
    kind
        "groups" (equal values), "later" (neighbours in time) or "order" (neighbouring rows, of no column).
    column
        Its name.
    values
        Number of distinct values.

    """

    kind: Literal["groups", "later", "order"]
    column: Annotated[str, "Empty for the order of the rows."]
    correlation: Annotated[float, "Of rows of one value, or of neighbouring ones."]
    values: int
    rows: Annotated[float, "Rows of a value, on average."]

    @property
    def text(self) -> Annotated[str, "What it means, and what to do."]:
        """The meaning in a sentence, with what to do."""
        alike = f"resemble each other (correlation {self.correlation:.2f})"
        if self.kind == "groups":
            return (
                f"{self.column}: {self.values} values, {self.rows:.3g} rows each, rows of one value {alike}. "
                "Random held-out rows and calibration then say how well other rows of these values are "
                f'predicted. If new rows have other values, say new_rows={{"groups": "{self.column}"}}: '
                "coverage there is probably lower."
            )
        if self.kind == "later":
            return (
                f"{self.column}: outcomes next to each other in time {alike} beyond the features. Random "
                "held-out rows and calibration then say how well rows between these are predicted. If new "
                f'rows are later, say new_rows={{"later": "{self.column}"}}: coverage there is probably '
                "lower."
            )
        return (
            f"Neighbouring rows {alike} beyond the features. If rows come in groups or in the order of time, "
            "give the column that says so, and say new_rows: coverage of new ones is probably lower than "
            "random held-out rows show."
        )


def find_resemblances(
    table: Table, features: Collection[str], outcome: Floats, taken: Collection[str] = ()
) -> list[Resemblance]:
    """Find columns whose rows resemble each other.

    Parameters
    ----------
    table
        The rows, n of them, with all columns that may tell groups or times apart.
    features
        Names of the features.
    taken
        Names of columns with another role, which are not looked at.
    outcome
        float64 [n]; of classes the number of each row's class. NaN where there is none.

    Returns
    -------
    list
        Those found: groups whose rows resemble each other most first, at most one time, and the order of
        rows where nothing else was found. A number that is a function of groups found, such as the tax of a
        town, is not among them. Of tables of independent rows, fewer than 5 of 1,000 have any.

    """
    rows = np.flatnonzero(np.isfinite(outcome))
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.int64))]
    if len(rows) < FEWEST_ROWS or np.ptp(outcome[rows]) == 0:
        return []
    table = table.part(rows)
    columns = [read_as_dates(table.column(name)) for name in table.names if name not in taken]
    usable = [each for each in columns if each.type != "other"]
    regression = _Regression(
        [each for each in usable if each.name in features], _normal_scores(outcome[rows])
    )
    groups = _groups(regression, usable)
    later = _later(regression, usable)
    if groups or later:
        return [*groups, *later]
    numbers = [outcome[rows], *(each.numbers for each in usable if each.numbers is not None)]
    return _in_order(regression.residuals(), numbers)


def undeclared(
    table: Table,
    outcome: RawColumn,
    *,
    has_classes: bool,
    features: Collection[str],
    taken: Collection[str],
    groups: Collection[str] = (),
    new_rows: NewRows = LIKE_TRAINING,
) -> list[Resemblance]:
    """Find the resemblances by which new rows aren't declared to differ, at most three.

    Parameters
    ----------
    table, features, taken
        As for `find_resemblances`; `table` has the columns that are left out too.
    outcome
        The outcomes; of classes the most frequent one is compared with the others.
    has_classes
        Whether they are classes.
    groups
        Columns with intercepts, which allow for new values.
    new_rows
        Declared differences.

    Returns
    -------
    list
        Those to warn of.

    """
    y = outcome.numbers
    if has_classes:
        seen = ~outcome.is_missing
        place = outcome.labelled[0] if y is None else np.unique(y, return_inverse=True)[1]
        y = np.where(seen, place == np.bincount(place[seen]).argmax(), np.nan) if seen.any() else None
    if y is None:
        return []
    found = find_resemblances(table, features, y, [*taken, *groups, *new_rows.columns])
    if groups or not new_rows.are_like_these:  # which explain the order of rows
        found = [each for each in found if each.kind != "order"]
    return found[:MOST_NAMED]


class _Regression:
    """Ridge regression of an outcome on features: lines, and those bends that they lack most."""

    def __init__(self, features: Sequence[RawColumn], outcome: Floats) -> None:
        lines = [(column, values) for column in features for values in _lines(column)][:MOST_FEATURES]
        self._names = np.array([column.name for column, _ in lines], object)
        self._are_numbers = [column.numbers is not None for column, _ in lines]
        self._lines = np.array([values for _, values in lines]).reshape(-1, len(outcome))
        self._outcome = outcome - outcome.mean()

    def residuals(self, without: str = "", groups: int = 0) -> Floats:
        """Return normal scores of the residuals, float64 [row].

        Without the columns that stem from a feature. Bends that are as many as there are `groups` would
        explain all that these differ by.
        """
        most = min(len(self._outcome) // ROWS_A_BEND, groups // GROUPS_A_BEND, MOST_FEATURES)
        lines = self._lines[self._names != without]
        bends = [_hinge(self._lines[k], knot) for k, knot in self._bends[:most]] if most else []
        return _normal_scores(
            _left(np.array([*lines, *bends]).reshape(-1, len(self._outcome)), self._outcome)
        )

    @cached_property
    def _bends(self) -> list[tuple[int, float]]:
        """Places of lines and knots: in turn, for every number that which is lacked most by a few rows."""
        few = slice(None, None, -(-len(self._outcome) // ROWS_OF_BENDS))
        outcome, lines = self._outcome[few], self._lines[:, few]
        numbers = np.flatnonzero(self._are_numbers)
        knots = {k: np.unique(np.quantile(self._lines[k], KNOTS)) for k in numbers}
        chosen: list[tuple[int, float]] = []
        for _ in range(MOST_BENDS if len(numbers) else 0):
            left = _left(np.array([*lines, *(_hinge(lines[k], knot) for k, knot in chosen)]), outcome)
            found = []
            for k in numbers:
                hinges = [_hinge(lines[k], knot) for knot in knots[k]]
                lacked = [abs(float(left @ each)) / max(float(np.linalg.norm(each)), 1e-9) for each in hinges]
                found.append((max(lacked), int(k), float(knots[k][int(np.argmax(lacked))])))
            chosen += [(k, knot) for _, k, knot in sorted(found, reverse=True)]
            if len(chosen) >= MOST_FEATURES:
                break
        return chosen


def _left(design: Floats, outcome: Floats) -> Floats:
    """Return the residuals of a ridge regression on columns, float64 [column, row]."""
    penalty = PENALTY * len(outcome) * np.eye(len(design))
    left: Floats = outcome - np.linalg.solve(design @ design.T + penalty, design @ outcome) @ design
    return left


def _hinge(line: Floats, knot: float) -> Floats:
    hinge = np.maximum(line - knot, 0)
    centred: Floats = hinge - hinge.mean()
    return centred


def _ranks(values: Floats) -> Floats:
    """Rank values from 1 on; equal ones get the mean of their ranks."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[index.reshape(-1)]
    return ranks


def _normal_scores(values: Floats) -> Floats:
    scores: Floats = ndtri((_ranks(values) - 0.5) / len(values))
    return scores


def _lines(column: RawColumn) -> Iterable[Floats]:
    """Give a feature's columns of a regression: its numbers, or one for each of its few levels."""
    if column.numbers is not None:
        known = np.isfinite(column.numbers)
        sd = float(column.numbers[known].std()) if known.any() else 0.0
        if 0 < sd < np.inf:
            yield np.where(
                known, (np.where(known, column.numbers, 0) - column.numbers[known].mean()) / sd, 0.0
            )
        return
    index, count = _levels(column)
    if count < FEWEST_GROUPS:
        for level in range(count):
            own = (index == level).astype(np.float64)
            yield own - own.mean()


def _levels(column: RawColumn) -> tuple[NDArray[np.intp], int]:
    """Return each row's level, -1 for none, and their number, 0 where the column can't have any."""
    problems: list[object] = []
    labels = to_labels(column, problems)  # type: ignore[arg-type]
    return (labels.index, 0 if problems else len(labels.names))


def _is_whole(column: RawColumn) -> bool:
    if column.numbers is None or column.type != "number":
        return False
    known = column.numbers[np.isfinite(column.numbers)]
    return bool(np.all(known == np.round(known)))


def _groups(regression: _Regression, columns: Sequence[RawColumn]) -> list[Resemblance]:
    candidates: list[tuple[RawColumn, NDArray[np.intp], int]] = []
    days = next((each.numbers for each in columns if each.type == "date"), None)
    for column in columns:
        if column.type not in ("text", "mixed") and not _is_whole(column):
            continue
        index, count = _levels(column)
        sizes = np.bincount(index[index >= 0], minlength=count)
        if FEWEST_GROUPS <= count <= len(index) / 2 and sizes[sizes >= 2].sum() >= 0.8 * len(index):
            if tells_calendar(column, index, days):
                continue  # no new values are to come but those of a later time
            candidates.append((column, index, count))
    found: list[tuple[Resemblance, NDArray[np.intp]]] = []
    for column, index, count in candidates:
        are_numbers = column.numbers is not None
        compare, least = (
            (_unlike_neighbours, LEAST_OF_NUMBERS) if are_numbers else (_within_groups, LEAST_CORRELATION)
        )
        correlation, p = compare(regression.residuals(groups=count), index, count)
        if p < CHANCE / len(candidates) and correlation >= least:
            found.append((Resemblance("groups", column.name, correlation, count, len(index) / count), index))
    found.sort(key=lambda each: (-each[0].values, -each[0].correlation))
    numbers = {column.name for column, _, _ in candidates if column.numbers is not None}
    kept = [
        own
        for k, (own, index) in enumerate(found)
        if not any(
            _tells(finer, index) and (own.column in numbers or other.values == own.values)
            for other, finer in found[:k]
        )
    ]
    return sorted(kept, key=lambda each: -each.correlation)


def _tells(index: NDArray[np.intp], other: NDArray[np.intp]) -> bool:
    """Tell whether rows of one value have one value of the other column too, as towns have one tax."""
    pairs = np.unique(np.stack([index, other]), axis=1)
    return bool(pairs.shape[1] == len(np.unique(index)))


def _within_groups(residual: Floats, index: NDArray[np.intp], count: int) -> tuple[float, float]:
    """Return the correlation within groups, and the p-value of none by a one-way analysis of variance."""
    means, sizes, within = _means(residual, index, count)
    if within <= 0:
        return 1.0, 0.0
    between = float(np.sum(sizes * (means - means @ sizes / sizes.sum()) ** 2)) / (count - 1)
    usual = (sizes.sum() - np.sum(sizes**2) / sizes.sum()) / (count - 1)
    p = float(fdtrc(count - 1, sizes.sum() - count, between / within))
    return (between - within) / (between + (usual - 1) * within), p


def _unlike_neighbours(residual: Floats, index: NDArray[np.intp], count: int) -> tuple[float, float]:
    """Return both for groups that are told apart by numbers, of which neighbours are no more alike.

    Differences of successive means (von Neumann 1941) leave out what is smooth in the number: where that is
    most of what its values differ by, they are amounts, between which new ones lie, and the correlation is 0.
    """
    means, sizes, within = _means(residual, index, count)
    if within <= 0:
        return 1.0, 0.0
    weights = 1 / (1 / sizes[1:] + 1 / sizes[:-1])
    squares = float(np.mean(weights * np.diff(means) ** 2))
    unlike = (squares / within - 1) / (2 * weights.mean())  # variance of the groups, that within is 1
    overall = _within_groups(residual, index, count)[0]
    if unlike < LEAST_UNLIKE * overall / max(1 - overall, 1e-9):
        return 0.0, 1.0
    p = float(fdtrc(2 * (count - 1) ** 2 / (3 * count - 4), sizes.sum() - count, squares / within))
    return unlike / (1 + unlike), p


def _means(residual: Floats, index: NDArray[np.intp], count: int) -> tuple[Floats, Floats, float]:
    """Return means and numbers of rows by group, float64 [group], and the variance within groups."""
    known = index >= 0
    residual, index = residual[known], index[known]
    sizes = np.bincount(index, minlength=count).astype(np.float64)
    means = np.bincount(index, residual, count) / np.maximum(sizes, 1)
    within = float(np.sum((residual - means[index]) ** 2)) / max(len(index) - count, 1)
    return means, sizes, within


def _later(regression: _Regression, columns: Sequence[RawColumn]) -> list[Resemblance]:
    column = next((each for each in columns if each.type == "date" and each.numbers is not None), None)
    if column is None or column.numbers is None:
        return []
    known = np.isfinite(column.numbers)
    times, index = np.unique(column.numbers[known], return_inverse=True)
    if len(times) < FEWEST_ROWS:
        return []
    residual = regression.residuals(without=column.name)[known]
    correlation, p = _of_neighbours(np.bincount(index, residual) / np.bincount(index))
    if p >= CHANCE_IN_TIME or correlation < LEAST_IN_TIME:
        return []
    return [Resemblance("later", column.name, correlation, len(times), len(index) / len(times))]


def _in_order(residual: Floats, numbers: Sequence[Floats]) -> list[Resemblance]:
    """Look at neighbouring rows, unless these were sorted by the outcome or by a column."""
    correlation, p = _of_neighbours(residual)
    if p >= CHANCE_IN_TIME or correlation < LEAST_IN_ORDER or any(_is_trend(each) for each in numbers):
        return []
    return [Resemblance("order", "", correlation, len(residual), 1.0)]


def _is_trend(values: Floats) -> bool:
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < 2 or np.ptp(values[known]) == 0:
        return False
    return bool(abs(np.corrcoef(_ranks(values[known]), known)[0, 1]) >= TREND)


def _of_neighbours(values: Floats) -> tuple[float, float]:
    """Return the correlation of neighbouring values, and the p-value that it is none or negative."""
    centred = values - values.mean()
    correlation = float(centred[1:] @ centred[:-1] / max(centred @ centred, 1e-300))
    return correlation, float(ndtr(-correlation * np.sqrt(len(values))))
