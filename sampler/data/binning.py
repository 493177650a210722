"""Columns as codes: cut points, and a uint8 per cell, 255 for missing (docs/maths.md#cuts-and-codes).

The code of x is the number of cut points below it, so ``code <= c`` says exactly ``x <= cuts[c]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cuts = Literal["quantile", "uniform", "mixed"]
SCHEMES: tuple[Cuts, ...] = get_args(Cuts)
MAX_CUTS = 254
MISSING = 255  # code of a missing value
SPREAD_CUTS = 190  # of "mixed", over the range
MOST_IN_A_GAP = 8  # of those, between two neighbouring values: an outlier would take nearly all


@dataclass(frozen=True)
class Grid:
    """The cut points of each coded column, increasing, at most 254."""

    cuts: tuple[NDArray[np.float64], ...]

    @property
    def num_codes(self) -> NDArray[np.int64]:
        """Codes of present values per column, int64 [p]: one more than cut points."""
        return np.array([len(cuts) + 1 for cuts in self.cuts], dtype=np.int64)

    def encode(self, column: int, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """The codes of one column's values, uint8 [n]; NaN becomes 255."""
        codes = np.searchsorted(self.cuts[column], values, side="left").astype(np.uint8)
        codes[np.isnan(values)] = MISSING
        return codes


def cut_points(values: NDArray[np.float64], scheme: Cuts = "quantile") -> NDArray[np.float64]:
    """At most 254 cut points for a column, none of them equal to a value where floats leave room.

    "quantile": midway between neighbouring distinct values, all of them if they fit, else those that divide
    the rows most evenly. "uniform": 254 at equal distances inside the range (all midpoints when the distinct
    values are equally spaced and fit). "mixed": all midpoints if they fit, else three quarters at equal
    distances, at most 8 of them between two neighbouring values, and the others quantiles. A column without
    two distinct values has none.
    """
    return cuts_between(*distinct_values(values), scheme)


def distinct_values(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The distinct values of a column, increasing, and how many rows hold each; NaN left out."""
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return distinct, counts.astype(np.int64)


def spread(distinct: NDArray[np.float64], counts: NDArray[np.int64], most: int) -> list[float]:
    """At most so many of the distinct values, that divide the rows evenly.

    A value that many rows share is taken once, and the others divide the rows that remain.
    """
    if len(distinct) <= most:
        return [float(value) for value in distinct]
    ends = np.cumsum(counts)

    def divided(parts: int) -> NDArray[np.int64]:
        return np.unique(np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts))

    low, high = most + 1, most + 2  # parts: enough of them, and too many
    while high <= ends[-1] and len(divided(high)) <= most:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(divided(middle)) <= most else (low, middle)
    return [float(value) for value in distinct[divided(low)]]


def cuts_between(
    distinct: NDArray[np.float64], counts: NDArray[np.int64], scheme: Cuts = "quantile"
) -> NDArray[np.float64]:
    """The cut points of a column by its distinct values and how many rows hold each; see `cut_points`."""
    if len(distinct) < 2:
        return np.empty(0)
    midpoints = _midpoints(distinct)
    if scheme == "uniform":
        return _uniform(distinct, midpoints)
    if len(midpoints) <= MAX_CUTS:
        return midpoints
    if scheme == "mixed":
        even = _thinned(distinct, _uniform(distinct, midpoints, SPREAD_CUTS))
        return np.union1d(even, _quantiles(midpoints, counts, MAX_CUTS - len(even)))
    return _quantiles(midpoints, counts, MAX_CUTS)


def _quantiles(midpoints: NDArray[np.float64], counts: NDArray[np.int64], most: int) -> NDArray[np.float64]:
    """At most so many of the midpoints, those that divide the rows most evenly."""
    below = np.cumsum(counts)[:-1] / counts.sum()  # share of the rows left of each midpoint
    levels = np.arange(1, most + 1) / (most + 1)
    after = np.clip(np.searchsorted(below, levels), 1, len(below) - 1)
    nearest = np.where(levels - below[after - 1] <= below[after] - levels, after - 1, after)
    chosen: NDArray[np.float64] = midpoints[np.unique(nearest)]
    return chosen


def _midpoints(distinct: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = distinct[:-1], distinct[1:]
    middle: NDArray[np.float64] = low / 2 + high / 2  # the sum of two huge values would overflow
    rounded = (middle < low) | (middle >= high)
    middle[rounded] = low[rounded]
    return middle


def _thinned(distinct: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first 8 points of each gap between distinct values, evenly spaced ones being much alike."""
    gap = np.searchsorted(distinct, points)
    return points[np.arange(len(points)) - np.searchsorted(gap, gap) < MOST_IN_A_GAP]


def _uniform(
    distinct: NDArray[np.float64], midpoints: NDArray[np.float64], most: int = MAX_CUTS
) -> NDArray[np.float64]:
    gaps = np.diff(distinct)
    if len(midpoints) <= MAX_CUTS and np.allclose(gaps, gaps[0], rtol=1e-9, atol=0):
        return midpoints
    shares = np.arange(1, most + 1) / (most + 1)
    points = distinct[0] * (1 - shares) + distinct[-1] * shares
    equal = np.isin(points, distinct[:-1])
    points[equal] = midpoints[np.searchsorted(distinct, points[equal])]
    inside = (points >= distinct[0]) & (points < distinct[-1])
    return np.unique(points[inside])
