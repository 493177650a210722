"""Encoding: features as numeric columns, one per feature or an indicator per level, then as codes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import Grid
from sampler.data.columns import sort_levels
from sampler.data.convert import Labels, to_floats, to_labels
from sampler.data.level_means import LevelOutcomes, cross_fitted, level_means
from sampler.data.row_flags import OUTSIDE_RANGE, first_of, mark_levels, mark_numbers, unseen_in_words
from sampler.data.scalars import counted, days_to_text, has_zone, number_to_text, text_to_days
from sampler.data.schema import OF_LEVELS, Column, FeatureKind, Schema, why_too_large
from sampler.data.table import RawColumn, Table, is_array, read, read_rows
from sampler.errors import DataError, DataProblem

FEW = 16  # rows that may be encoded cell by cell
PLAIN: dict[str, tuple[type, ...]] = {"number": (float, int), "boolean": (bool,), "date": (str,)}
MAX_INDICATORS = 1_000  # per category: each takes a byte per row and a share of the split proposals
NAMED_COLUMNS = 10
ZONES = {
    True: "times without a zone are taken as UTC, and those of the training data had a zone: write it, as in "
    "2026-01-31T12:00+01:00",
    False: "times with a zone are converted to UTC, and those of the training data had none: write them "
    "without, as there",
}  # of new rows, by whether those of training had a zone


@dataclass(frozen=True)
class Copies:
    """Blocks of equal rows, one after the other, but for the values of some features.

    Attributes
    ----------
    features
        Positions of the coded columns of each of these features.
    values
        int64 [feature, block]: number of the value in each block; equal numbers are of equal values.
    divided
        Trees divided by these features, by their ensemble; may be shared with copies of other rows.
    sums
        Sums of trees at these rows that later blocks need again.

    """

    features: tuple[tuple[int, ...], ...]
    values: NDArray[np.int64]
    divided: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    sums: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Coded:
    """New rows, encoded for a model.

    Attributes
    ----------
    codes
        uint8 [coded column, row].
    warnings
        Sentences for the sender of the rows.
    marks
        uint8 [column, row], unusual cells as in `sampler.data.row_flags`, of the columns `Schema.inputs`.
    values
        float64 [coded column, row] before binning, NaN for missing; None for models that don't need them.
    groups
        int32 [column of groups, row], the row's level, -1 where it is missing, less where it is new, another
        number for each new level; None without groups.
    copies
        How rows repeat, which saves work; None if they don't.
    limits
        Limits between which known outcomes of the rows are, float64 [2, row], equal where they were observed;
        None where all were, or outcomes aren't known.
    unseen
        By column, the first levels in order of their names, quoted, that training had not: at most one more
        than are named (`unseen_in_words`).
    by_role
        float64 [row], what columns with a role say of the rows, by role; without those that they don't have.
    subgroups
        uint64 [row], the named subgroups of each row as bits; None where none are named, or columns of theirs
        were not sent.

    """

    codes: NDArray[np.uint8]
    warnings: list[str]
    marks: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 0), np.uint8))
    values: NDArray[np.float64] | None = None
    groups: NDArray[np.int32] | None = None
    copies: Copies | None = None
    limits: NDArray[np.float64] | None = None
    unseen: dict[str, list[str]] = field(default_factory=dict)
    by_role: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    subgroups: NDArray[np.uint64] | None = None
    labels: Any = field(default=None, compare=False)

    @property
    def num_rows(self) -> int:
        """Number of rows, n."""
        return int(self.codes.shape[1])

    def part(self, rows: slice | NDArray[np.int64]) -> Coded:
        """Select some of the rows; warnings, which are about all of them, are left out."""
        marks = self.marks[:, rows] if self.marks.size else self.marks
        values = None if self.values is None else self.values[:, rows]
        by_role = {role: numbers[rows] for role, numbers in self.by_role.items()}
        groups = None if self.groups is None else self.groups[:, rows]
        limits = None if self.limits is None else self.limits[:, rows]
        codes = np.ascontiguousarray(self.codes[:, rows])
        bits = None if self.subgroups is None else self.subgroups[rows]
        return Coded(codes, [], marks, values, groups, limits=limits, by_role=by_role, subgroups=bits)

    def with_role(self, role: str, number: float) -> Coded:
        """Return the rows with the same number for all in a column with a role."""
        return replace(self, by_role=self.by_role | {role: np.full(self.num_rows, number)})

    def changed(
        self, codes: NDArray[np.uint8], values: NDArray[np.float64] | None, copies: Copies | None = None
    ) -> Coded:
        """Give the rows, or `copies` of them, other codes and values; all else goes with them."""
        count = 1 if copies is None else copies.values.shape[1]
        by_role = {role: np.tile(numbers, count) for role, numbers in self.by_role.items()}
        groups = None if self.groups is None else np.tile(self.groups, (1, count))
        limits = None if self.limits is None else np.tile(self.limits, (1, count))
        return Coded(codes, [], values=values, groups=groups, copies=copies, limits=limits, by_role=by_role)

    def shuffled(self, columns: Sequence[int], orders: NDArray[np.int64]) -> Coded:
        """Repeat the rows once for each of `orders`, int64 [copy, row]; there `columns` have that order."""
        copies, order = len(orders), orders.reshape(-1)
        codes = np.tile(self.codes, (1, copies))
        codes[columns] = self.codes[columns][:, order]
        values = None
        if self.values is not None:
            values = np.tile(self.values, (1, copies))
            values[columns] = self.values[columns][:, order]
        repeats = Copies((tuple(columns),), np.arange(copies)[None])
        return self.changed(codes, values, repeats)


def train_column(
    raw: RawColumn, kind: FeatureKind, problems: list[DataProblem], outcomes: LevelOutcomes | None = None
) -> tuple[Column, NDArray[Any]]:
    """Convert a training column to `kind`.

    Problems are appended to `problems`. `outcomes` are those by whose means levels are encoded.

    Returns
    -------
    tuple
        The column as the schema keeps it, and its values, float64 [n], NaN for missing; of a category the
        position of each row's level, -1 for missing (see `indicator`).

    """
    if kind == "encoded" and outcomes is not None:
        labels = to_labels(raw, problems)
        missing = int(np.count_nonzero(labels.index < 0))
        counts = np.bincount(labels.index[labels.index >= 0], minlength=len(labels.names))
        by_count = sorted(zip((-counts).tolist(), labels.names, strict=True))
        column = Column(raw.name, kind, tuple(name for _, name in by_count), missing)
        level = _level_of(column, labels)
        means = level_means(level, len(column.levels), outcomes)
        return replace(column, means=tuple(means.tolist())), cross_fitted(level, len(means), outcomes)
    if kind == "category":
        labels = to_labels(raw, problems)
        missing = int(np.count_nonzero(labels.index < 0))
        column = Column(raw.name, kind, sort_levels(labels.names), missing)
        if len(column.indicators) > MAX_INDICATORS:
            detail = f"{len(labels.names)} levels are too many for a category (at most {MAX_INDICATORS})"
            problems.append(DataProblem(raw.name, None, detail))
        return column, _level_of(column, labels)
    read_text = raw.numbers is None
    values = to_floats(raw, kind, problems, read_text=read_text)
    present = values[~np.isnan(values)]
    low, high = (float(present.min()), float(present.max())) if len(present) else (None, None)
    if why := why_too_large(low, high):
        problems.append(DataProblem(raw.name, None, why))
    zoned = next(iter(raw.zones)) if kind == "date" and len(raw.zones) == 1 else None
    return Column(raw.name, kind, (), len(values) - len(present), low, high, read_text, zoned), values


def encoded_again(
    coded: Coded,
    table: Table,
    schema: Schema,
    grid: Grid,
    outcomes: LevelOutcomes,
    own: slice | NDArray[np.int64] = slice(None),
) -> Coded:
    """Encode training rows, or their `own` part, as the fit had them: encoded text by the other folds."""
    for position, values in cross_fitted_columns(table, schema, outcomes).items():
        coded.codes[position] = grid.encode(position, values[own])
        if coded.values is not None:
            coded.values[position] = values[own]
    return coded


def cross_fitted_columns(table: Table, schema: Schema, outcomes: LevelOutcomes) -> dict[int, Floats]:
    """Return the coded columns of encoded text in training rows, float64 [n], by position."""
    found = {}
    for position, (place, _) in enumerate(schema.coded):
        column = schema.columns[place]
        if column.kind == "encoded":
            level = _level_of(column, to_labels(table.column(column.name), []))
            found[position] = cross_fitted(level, len(column.levels), outcomes)
    return found


def _level_of(column: Column, labels: Labels) -> NDArray[np.intp]:
    """Look up each row's position in `column.levels`; -1 is missing, -2 is a level not seen in training."""
    position = {level: i for i, level in enumerate(column.levels)}
    lookup = np.array([*(position.get(name, -2) for name in labels.names), -1], dtype=np.intp)
    return lookup[labels.index]


def indicator(column: Column, level: NDArray[np.signedinteger], name: str | None) -> NDArray[np.float64]:
    """Return the 0/1 column [n] of one of the indicators, of a level or of missing ones (None).

    An unseen level, or a missing value where training had none, is zero in all of several indicators. A
    single indicator can't express that: there it is missing, and follows the missing side of each rule.
    """
    number = -1 if name is None else column.levels.index(name)
    values = np.asarray(level == number, dtype=np.float64)
    if len(column.indicators) == 1:
        values[(level == -2) | ((level == -1) & (column.missing == 0))] = math.nan
    return values


def encode(
    table: Any,
    schema: Schema,
    grid: Grid,
    *,
    keep_values: bool = False,
    ignore_extra: bool = False,
    beside: Collection[str] = (),
) -> Coded:
    """Encode the rows of a table, or single rows (`sampler.data.table.read_rows`), by column name.

    Unseen levels, values outside the range of training, and missing values in columns that had none in
    training, are reported as warnings. `keep_values` as `Coded.values`;
    `ignore_extra` leaves out unknown columns, with a warning. `beside` are columns that the model
    reads elsewhere.

    Returns
    -------
    Coded
        The codes of the rows, with warnings and marks of unusual cells.

    Raises
    ------
    DataError
        With every problem found: absent or unknown columns, cells of the wrong type, infinite values.

    """
    if (few := _few_usual_rows(table, schema, grid)) is not None:
        codes, values_of_few = few
        marks = np.zeros((len(schema.columns), codes.shape[1]), dtype=np.uint8)
        return Coded(codes, [], marks, values_of_few if keep_values else None)
    _check_named(table, schema)
    table = read_rows(table)
    others = [name for name in table.names if name not in beside]
    warnings = schema.match(others, ignore_extra=ignore_extra)
    codes = np.empty((len(schema.coded), table.num_rows), dtype=np.uint8)
    problems: list[DataProblem] = []
    marks = np.zeros((len(schema.inputs), table.num_rows), dtype=np.uint8)
    unseen: dict[str, list[str]] = {}
    raw_values = np.empty(codes.shape) if keep_values else None
    position = 0
    for j, column in enumerate(schema.columns):
        for values in _new_values(table.column(column.name), column, problems, warnings, marks[j], unseen):
            codes[position] = grid.encode(position, values)
            if raw_values is not None:
                raw_values[position] = values
            position += 1
    groups = np.empty((len(schema.groups), table.num_rows), np.int32) if schema.groups else None
    for j, column in enumerate(schema.groups):
        assert groups is not None
        labels = to_labels(table.column(column.name), problems)
        level = _level_of(column, labels)
        marks[len(schema.columns) + j] = mark_levels(level, column)
        groups[j] = np.where(level == -2, -2 - labels.index, level)
        _warn_groups(column, level, labels, warnings, unseen)
    if problems:
        raise DataError(problems)
    return Coded(codes, warnings, marks, raw_values, groups=groups, unseen=unseen, labels=table.labels)


def _few_usual_rows(
    table: Any, schema: Schema, grid: Grid
) -> tuple[NDArray[np.uint8], NDArray[np.float64]] | None:
    """Encode a few rows of cells like those of training, given as lists; None for any others.

    It gives codes and values [coded column, row], the same as `encode`, without the calls of numpy that take
    many times as long there: twenty a column.
    """
    if type(table) is not dict or schema.groups or len(table) != len(schema.columns):
        return None
    values: list[list[float]] = []
    num_rows = 0
    for column in schema.columns:
        cells = table.get(column.name)
        if type(cells) is not list or not 0 < len(cells) <= FEW or len(cells) != (num_rows or len(cells)):
            return None
        num_rows = len(cells)
        if (numbers := _usual_values(cells, column)) is None:
            return None
        values += numbers
    array = np.array(values)
    codes = np.empty(array.shape, np.uint8)
    for position, (cuts, row) in enumerate(zip(grid.cuts, values, strict=True)):
        codes[position] = cuts.searchsorted(row)
    return codes, array


def _usual_values(cells: list[Any], column: Column) -> list[list[float]] | None:
    """Return the values of each of a column's coded columns; None if a cell is unlike those of training."""
    if column.kind == "category":
        if not all(type(cell) is str and cell in column.levels for cell in cells):
            return None
        return [[float(cell == name) for cell in cells] for name in column.indicators]
    low, high, plain = column.min, column.max, PLAIN.get(column.kind, ())
    if low is None or high is None or not all(type(cell) in plain for cell in cells):
        return None
    if column.zoned is not None and any(has_zone(cell) != column.zoned for cell in cells):
        return None
    try:
        values = [text_to_days(cell) if plain == (str,) else float(cell) for cell in cells]
    except (ValueError, OverflowError):
        return None
    return [values] if all(low <= value <= high for value in values) else None


def _check_named(table: Any, schema: Schema) -> None:
    """Raise DataError for an array where the model knows its columns by name."""
    if not is_array(table) or any(re.fullmatch(r"x[0-9]+", column.name) for column in schema.columns):
        return
    names = ", ".join(column.name for column in schema.columns[:NAMED_COLUMNS])
    more = f" and {len(schema.columns) - NAMED_COLUMNS} more" if len(schema.columns) > NAMED_COLUMNS else ""
    raise DataError(
        "the model was fitted to columns with names, and an array has none: give a table, or a dict of "
        f"columns, with the names {names}{more}"
    )


def numbers(table: Any, schema: Schema) -> NDArray[np.float64]:
    """Convert rows to numeric columns before binning: float64 [coded column, row], NaN for missing.

    Returns
    -------
    ndarray
        The values.

    Raises
    ------
    DataError
        As `encode`.

    """
    table = read(table)
    schema.match(table.names)
    problems: list[DataProblem] = []
    columns = (_new_values(table.column(column.name), column, problems, []) for column in schema.columns)
    values = [part for parts in columns for part in parts]
    if problems:
        raise DataError(problems)
    return np.stack(values)


def _new_values(
    raw: RawColumn,
    column: Column,
    problems: list[DataProblem],
    warnings: list[str],
    marks: NDArray[np.uint8] | None = None,
    unseen: dict[str, list[str]] | None = None,
) -> Iterator[NDArray[np.float64]]:
    if column.kind in OF_LEVELS:
        labels = to_labels(raw, problems)
        level = _level_of(column, labels)
        if marks is not None:
            marks[:] = mark_levels(level, column)
        _warn_missing(column, int(np.count_nonzero(labels.index < 0)), warnings)
        first, total = _note_unseen(column, labels, unseen)
        if total:
            rows = int(np.count_nonzero(level == -2))
            warnings.append(f"{column.name}: {unseen_in_words(first, rows, total)}")
        if column.kind == "encoded":
            yield np.array([*column.means, 0.0, math.nan])[level]  # -2 is the last but one, -1 the last
            return
        yield from (indicator(column, level, name) for name in column.indicators)
    else:
        values = to_floats(raw, column.kind, problems, read_text=column.from_text)
        if marks is not None:
            marks[:] = mark_numbers(values, column)
            _warn_outside(column, int(np.count_nonzero(marks == OUTSIDE_RANGE)), warnings)
        _warn_missing(column, int(np.count_nonzero(np.isnan(values))), warnings)
        if column.zoned is not None and (not column.zoned) in raw.zones:
            warnings.append(f"{column.name}: {ZONES[column.zoned]}")
        yield values


def _note_unseen(
    column: Column, labels: Labels, unseen: dict[str, list[str]] | None
) -> tuple[list[str], int]:
    """Return the first levels that training had not, and how many there are; note them in `unseen`."""
    names = sorted(set(labels.names) - set(column.levels))
    first = first_of(names)
    if unseen is not None and names:
        unseen[column.name] = first
    return first, len(names)


def _warn_groups(
    column: Column,
    level: NDArray[np.intp],
    labels: Labels,
    warnings: list[str],
    unseen: dict[str, list[str]],
) -> None:
    """Warn about rows of new groups, and about rows without one, which count as such."""
    new, missing = int(np.count_nonzero(level == -2)), int(np.count_nonzero(level == -1))
    first, total = _note_unseen(column, labels, unseen)
    parts = [unseen_in_words(first, new, total, "groups")] if new else []
    parts += [f"missing in {counted(missing, 'row')}"] if missing else []
    if parts:
        warnings.append(
            f"{column.name}: {'; '.join(parts)}: such rows are predicted as of a new group, whose intercept "
            "is unknown: intervals of outcomes allow for it"
        )


def _warn_missing(column: Column, count: int, warnings: list[str]) -> None:
    if not count:
        return
    never = "" if column.missing else ", though none was in training: such a prediction is a guess"
    warnings.append(f"{column.name}: missing in {counted(count, 'row')}{never}")


def _warn_outside(column: Column, count: int, warnings: list[str]) -> None:
    if not count or column.min is None or column.max is None:
        return
    show = days_to_text if column.kind == "date" else partial(number_to_text, digits=6)
    warnings.append(
        f"{column.name}: outside the training range ({show(column.min)} to {show(column.max)}) in "
        f"{counted(count, 'row')}: trees predict there as at the edge, and intervals don't widen with the "
        "distance"
    )
