"""Outcomes of several, read from tables: those that are known beside others, and those of rows to score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.schema import Column
from sampler.data.table import RawColumn, read, read_rows
from sampler.data.target import read_outcomes
from sampler.errors import DataError, SettingsError


def read_known(targets: Sequence[Column], X: Any, given: Any, rows: int) -> Floats:
    """Read known outcomes, float64 [row, outcome]: NaN where unknown, of classes their index.

    Parameters
    ----------
    targets
        The outcomes.
    X
        The rows, which have those that `given` only names.
    given
        Outcomes that are known: see `SeveralPosterior.predict`.
    rows
        Number of rows.

    Returns
    -------
    ndarray
        The outcomes.

    Raises
    ------
    DataError
        For values that aren't those of the outcomes, and another number of them.
    SettingsError
        For names that aren't those of outcomes.

    """
    outcomes = [target.name for target in targets]
    known = np.full((rows, len(outcomes)), np.nan)
    if given is None:
        return known
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        table = read_rows(X)
        absent = [name for name in given if name in outcomes and name not in table.names]
        if absent:
            raise DataError(f"given: the rows have no column {absent[0]!r}")
        columns = {name: table.column(name) for name in given if name in table.names}
    else:
        table = read(dict(given) if isinstance(given, Mapping) else given)
        columns = {name: table.column(name) for name in table.names}
    unknown = [name for name in (given if isinstance(given, list | tuple) else columns)
               if name not in outcomes]  # fmt: skip
    if unknown:
        raise SettingsError(
            f"given takes the outcomes {', '.join(outcomes)}: there is no {unknown[0]!r}",
            field="given",
            code="unknown",
        )
    for name, column in columns.items():
        place = outcomes.index(name)
        if len(column) != rows:
            noun = "class" if targets[place].levels else "number"
            raise DataError(f"given: {name} must have a {noun}, or none, for each of the {rows} rows")
        known[:, place] = _values(column, targets[place], "given")
    return known


def read_all(targets: Sequence[Column], Y: Any) -> Floats:
    """Read a table of outcomes, float64 [row, outcome]: NaN where missing, of classes their index.

    Raises DataError for a table without the outcomes, or with other values than theirs.
    """
    table = read(Y)
    names = [target.name for target in targets]
    if not {*names} <= {*table.names}:
        plain = getattr(Y, "columns", None) is None and len(table.names) == len(names)
        if not plain or isinstance(Y, Mapping):
            absent = next(name for name in names if name not in table.names)
            raise DataError(f"score: the outcomes have no column {absent!r}")
        names = table.names
    columns = [
        _values(table.column(name), target, "score") for name, target in zip(names, targets, strict=True)
    ]
    return np.stack(columns, axis=1)


def as_given(target: Column, values: Floats) -> NDArray[Any]:
    """Return values of an outcome as they were given: the names of classes by their indices."""
    return np.array(target.levels)[values.astype(np.int64)] if target.levels else values


def _values(column: RawColumn, target: Column, asked: str) -> Floats:
    """Read the values of an outcome, float64 [n], NaN where missing; raise DataError for others."""
    if not target.levels:
        if column.numbers is None or np.isinf(column.numbers).any():
            raise DataError(f"{asked}: {target.name} must have a number, or none, for each row")
        return column.numbers
    values, there = np.full(len(column), np.nan), np.flatnonzero(~column.is_missing)
    try:
        values[there] = read_outcomes(column.part(there), target, len(there))[1] if len(there) else 0.0
    except DataError as error:
        problems = (replace(each, row=each.row and int(there[each.row - 1]) + 1) for each in error.problems)
        raise DataError(list(problems)) from None
    return values
