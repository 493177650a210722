"""Unusual cells of new rows, compared with the training data: one byte per cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.data.scalars import counted, shortened
from sampler.data.schema import Column

Marks = NDArray[np.uint8]

USUAL, OUTSIDE_RANGE, UNSEEN_LEVEL, MISSING = 0, 1, 2, 3
NAMES = ("", "outside_range", "unseen_level", "missing")
FEW_DRAWS = "few_draws"
MOST_NAMED = 10  # flags per row; with thousands of columns the answer would outgrow the request
NAMED_LEVELS = 5


class Flag(NamedTuple):
    """Name of a column with an unusual cell in a row, and its flag.

    The flag is "outside_range" for a number or date beyond all training values, "unseen_level" for a level
    absent from the training data, "missing" for a missing value where training had none, or, of the outcome,
    "few_draws" where a few draws decide its mean or sd, for which robust figures stand then.
    """

    column: str
    flag: str


def mark_numbers(values: NDArray[np.float64], column: Column) -> Marks:
    """Mark unusual numbers, booleans or dates; `values` is float64 [row], NaN for missing."""
    marks = np.zeros(len(values), np.uint8)
    if column.min is not None and column.max is not None:
        marks[(values < column.min) | (values > column.max)] = OUTSIDE_RANGE
    if not column.missing:
        marks[np.isnan(values)] = MISSING
    return marks


def mark_levels(level: NDArray[np.intp], column: Column) -> Marks:
    """Mark unusual levels; `level` holds positions in the category's levels [row], -1 missing, -2 unseen."""
    marks = np.where(level == -2, np.uint8(UNSEEN_LEVEL), np.uint8(USUAL))
    if not column.missing:
        marks[level == -1] = MISSING
    return marks


def by_row(marks: Marks, columns: Sequence[Column]) -> list[list[Flag]]:
    """List the flags of each row, at most ten per row, from marks [column, row].

    Rows without flags share one empty list.
    """
    none: list[Flag] = []
    flags = [none] * marks.shape[1]
    for row in np.flatnonzero(marks.any(axis=0)).tolist():
        named = np.flatnonzero(marks[:, row])[:MOST_NAMED]
        flags[row] = [Flag(columns[j].name, NAMES[marks[j, row]]) for j in named.tolist()]
    return flags


def as_text(flags: Sequence[Flag]) -> str:
    """Format the flags of a row as one cell: ``outside_range: x1; unseen_level: town``, empty for none."""
    return "; ".join(f"{flag}: {column}" for column, flag in flags)


def count(marks: Marks, columns: Sequence[Column]) -> dict[str, dict[str, int]]:
    """Count rows by column and flag; zero counts are omitted."""
    by_column: dict[str, dict[str, int]] = {}
    for j, column in enumerate(columns):
        counts = np.bincount(marks[j], minlength=len(NAMES))
        flagged = {NAMES[k]: int(counts[k]) for k in range(1, len(NAMES)) if counts[k]}
        if flagged:
            by_column[column.name] = flagged
    return by_column


def first_of(names: Sequence[str]) -> list[str]:
    """Quote the first of sorted names of levels, one more than `unseen_in_words` names."""
    return [shortened(name) for name in names[: NAMED_LEVELS + 1]]


def unseen_in_words(first: Sequence[str], rows: int, total: int | None = None, noun: str = "levels") -> str:
    """Name levels that training had not, from the first ones (`first_of`).

    `rows` have one of them; there are `total`, or a number that isn't known.
    """
    named = ", ".join(first[:NAMED_LEVELS])
    if len(first) > NAMED_LEVELS:
        named += " and more" if total is None else f" and {total - NAMED_LEVELS} more"
    return f"{noun} never seen in training: {named} ({counted(rows, 'row')})"
