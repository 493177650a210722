"""Columns that repeat others, and so are no features of their own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sampler.data.table import RawColumn, Table
from sampler.definitions.data import COLUMN_ROLES

FEWEST = 5  # rows from which on a straight line through all of them is no chance
ROUNDING = 2e-7  # of the range, as of float32


def find_copies(table: Table, roles: Mapping[str, RawColumn]) -> dict[str, str]:
    """Say why columns of the table that repeat one with a role are no features, by name.

    A column repeats another one exactly, or events the other way round or in words.
    """
    return {
        name: (f"its values are those of the {COLUMN_ROLES[role].noun} ({column.name}), or follow from them")
        for role, column in roles.items()
        for name in table.names
        if name != column.name
        and repeats(table.column(name), column, also_scaled=COLUMN_ROLES[role].cells == "boolean")
    }


def repeats(column: RawColumn, of: RawColumn, *, also_scaled: bool = False) -> bool:
    """Tell whether a column repeats another one, as `is_copy`."""
    ours, theirs = _as_numbers(of), _as_numbers(column)
    return ours is not None and theirs is not None and is_copy(theirs, ours, also_scaled=also_scaled)


def _as_numbers(column: RawColumn) -> NDArray[np.float64] | None:
    """Return the numbers of a column, or 0 and 1 for text of two levels; None for other text."""
    if column.numbers is not None or column.cells is None:
        return column.numbers
    levels = {cell for cell in column.cells if cell is not None} if column.type == "text" else ()
    if len(levels) != 2:
        return None
    second = max(levels)
    return np.array([np.nan if cell is None else cell == second for cell in column.cells], np.float64)


def is_copy(values: NDArray[np.float64], of: NDArray[np.float64], *, also_scaled: bool = True) -> bool:
    """Tell whether values [n], NaN where missing, repeat others that vary, but for scale and offset.

    Up to half of them may be missing, and numbers may be rounded as float32.
    """
    absent, gaps = np.isnan(of), np.isnan(values)
    known = ~gaps
    if not known.any() or (known & absent).any() or 2 * known.sum() < (~absent).sum():
        return False
    ours, theirs = of[known], values[known]
    low, high = ours.argmin(), ours.argmax()
    if np.array_equal(ours, theirs):
        return bool(ours[low] != ours[high] or (gaps.any() and np.array_equal(absent, gaps)))
    if not also_scaled or len(ours) < FEWEST or not np.isfinite([ours, theirs]).all():
        return False
    if ours[low] == ours[high] or theirs[low] == theirs[high]:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        share = (ours - ours[low]) / (ours[high] - ours[low])
        line = theirs[low] + share * (theirs[high] - theirs[low])
        most = ROUNDING * np.ptp(theirs)
        return bool(np.spacing(np.abs(theirs).max()) < most and np.abs(theirs - line).max() <= most)
