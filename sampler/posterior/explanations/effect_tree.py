"""For whom effects are larger: a small tree fitted to the posterior mean effects of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Codes, Floats
from sampler.data.binning import MISSING
from sampler.data.scalars import days_to_text, number_to_text
from sampler.storage.model_header import Header

DEPTH = 3
MOST_LEVELS = 5  # of encoded text that a rule names
LEAF_SHARE, LEAF_ROWS = 0.05, 10  # least of a leaf
LEAST_GAIN = 0.02  # share of the variance of all rows that a split explains


@dataclass(frozen=True)
class RowsWhere:
    """Some rows, by their numbers, and the conditions that they meet."""

    rows: NDArray[np.int64]
    where: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The conditions as text."""
        return " and ".join(self.where) or "all rows"


def divide(header: Header, codes: Codes, effect: Floats) -> list[RowsWhere]:
    """Divide rows [column, row] by their effect [row]: up to eight parts, the smallest effect first."""
    fewest = max(LEAF_ROWS, int(LEAF_SHARE * len(effect)))
    total = float(np.sum((effect - effect.mean()) ** 2))
    open_, leaves = [RowsWhere(np.arange(len(effect)))], list[RowsWhere]()
    for _ in range(DEPTH):
        parts, open_ = open_, []
        for part in parts:
            split = _best(codes, effect, part.rows, fewest, LEAST_GAIN * total)
            if split is None:
                leaves.append(part)
                continue
            column, cut = split
            right = codes[column, part.rows] > cut  # missing values go with the high ones
            for side in (False, True):
                words = _in_words(header, column, cut, high=side)
                open_.append(RowsWhere(part.rows[right == side], (*part.where, words)))
    return sorted([*leaves, *open_], key=lambda part: float(effect[part.rows].mean()))


def _best(
    codes: Codes, effect: Floats, rows: NDArray[np.int64], fewest: int, least: float
) -> tuple[int, int] | None:
    """Find the column and cut that explain most of the effects of some rows; None for nothing much."""
    best, found = least, None
    y = effect[rows] - effect[rows].mean()
    for column in range(len(codes)):
        own = codes[column, rows]
        count = np.cumsum(np.bincount(own, minlength=256))[:MISSING]
        total = np.cumsum(np.bincount(own, y, minlength=256))[:MISSING]
        fits = (count >= fewest) & (len(rows) - count >= fewest)
        if not fits.any():
            continue
        gain = np.zeros(MISSING)
        gain[fits] = total[fits] ** 2 * (1 / count[fits] + 1 / (len(rows) - count[fits]))
        cut = int(np.argmax(gain))
        if gain[cut] > best:
            best, found = float(gain[cut]), (column, cut)
    return found


def _in_words(header: Header, column: int, cut: int, *, high: bool) -> str:
    """Say which rows are on one side of a split."""
    place, level = header.schema.coded[column]
    feature = header.schema.columns[place]
    if feature.kind == "category":
        name = "missing" if level is None else str(level)
        return f"{feature.name} {'is' if high else 'is not'} {name}"
    if feature.kind == "boolean":
        return f"{feature.name} is {'true' if high else 'false'}"
    cuts = header.grid.cuts[column]
    missing = " or missing" if high and feature.missing else ""
    if cut >= len(cuts):
        return f"{feature.name} is {'missing' if high else 'known'}"
    if feature.kind == "encoded":
        own = [name for name, mean in feature.mean_of.items() if (mean > cuts[cut]) == high]
        more = len(own) - MOST_LEVELS
        return f"{feature.name} is {', '.join(own[:MOST_LEVELS])}{f' or {more} others' * (more > 0)}{missing}"
    at = days_to_text(cuts[cut]) if feature.kind == "date" else number_to_text(float(cuts[cut]), 4)
    return f"{feature.name} {'>' if high else '<='} {at}{missing}"
