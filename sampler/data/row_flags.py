"""What is unusual about a cell of a new row, compared with the training data: a byte per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.schema import Column

    Marks = NDArray[np.uint8]

USUAL, OUTSIDE_RANGE, UNSEEN_LEVEL, MISSING = 0, 1, 2, 3
NAMES = ("", "outside_range", "unseen_level", "missing")
MOST_NAMED = 10  # of one row: thousands of columns would make an answer larger than its question


class Flag(NamedTuple):
    """One unusual cell of a row: the column, and `outside_range`, `unseen_level` or `missing`.

    `outside_range` is a number or date beyond every training value, `unseen_level` a level that training
    never saw, `missing` a value missing where none was in training.
    """

    column: str
    flag: str


def mark_numbers(values: NDArray[np.float64], column: Column) -> Marks:
    """The marks of numbers, booleans or dates [row], NaN missing."""
    marks = np.zeros(len(values), np.uint8)
    if column.min is not None and column.max is not None:
        marks[(values < column.min) | (values > column.max)] = OUTSIDE_RANGE
    if not column.missing:
        marks[np.isnan(values)] = MISSING
    return marks


def mark_levels(level: NDArray[np.intp], column: Column) -> Marks:
    """The marks of positions among a category's levels [row]: -1 is missing, -2 none of them."""
    marks = np.where(level == -2, np.uint8(UNSEEN_LEVEL), np.uint8(USUAL))
    if not column.missing:
        marks[level == -1] = MISSING
    return marks


def by_row(marks: Marks, columns: Sequence[Column]) -> list[list[Flag]]:
    """The flags of each row, at most ten of one, from marks [column, row]. Rows without share one list."""
    none: list[Flag] = []
    found = [none] * marks.shape[1]
    for row in np.flatnonzero(marks.any(axis=0)).tolist():
        named = np.flatnonzero(marks[:, row])[:MOST_NAMED]
        found[row] = [Flag(columns[j].name, NAMES[marks[j, row]]) for j in named.tolist()]
    return found


def as_text(flags: Sequence[Flag]) -> str:
    """The flags of a row in one cell: ``outside_range: x1; unseen_level: town``, empty for none."""
    return "; ".join(f"{flag}: {column}" for column, flag in flags)


def count(marks: Marks, columns: Sequence[Column]) -> dict[str, dict[str, int]]:
    """How many rows have which flag, by column, those with none left out."""
    found: dict[str, dict[str, int]] = {}
    for j, column in enumerate(columns):
        counts = np.bincount(marks[j], minlength=len(NAMES))
        flagged = {NAMES[k]: int(counts[k]) for k in range(1, len(NAMES)) if counts[k]}
        if flagged:
            found[column.name] = flagged
    return found
