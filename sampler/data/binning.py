"""Binning: a column's cut points, and its values as uint8 codes (docs/maths.md#cuts-and-codes).

The code of x is the number of cut points below it, so ``code <= c`` says exactly ``x <= cuts[c]``. The code
of a missing value is 255.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Cuts = Literal["quantile", "uniform", "mixed"]
MAX_CUTS = 254
MISSING = 255  # code of a missing value
SPREAD_CUTS = 190  # evenly spaced cut points of the "mixed" scheme
MOST_IN_A_GAP = 8  # of them between neighbouring values; else an outlier's gap would take nearly all


@dataclass(frozen=True)
class Grid:
    """Cut points of each coded column: a tuple of increasing float64 arrays, each of at most 254 values."""

    cuts: tuple[NDArray[np.float64], ...]

    @property
    def num_codes(self) -> NDArray[np.int64]:
        """Codes of present values per column, int64 [p]: one more than cut points."""
        return np.array([len(cuts) + 1 for cuts in self.cuts], dtype=np.int64)

    def encode(self, column: int, values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Encode the values of one coded column.

        Parameters
        ----------
        column
            Index of the coded column.
        values
            float64 [n], NaN for missing.

        Returns
        -------
        NDArray[np.uint8]
            Codes, uint8 [n], 255 for missing.

        """
        codes = np.searchsorted(self.cuts[column], values, side="left").astype(np.uint8)
        codes[np.isnan(values)] = MISSING
        return codes


def cut_points(values: NDArray[np.float64], scheme: Cuts = "quantile") -> NDArray[np.float64]:
    """Choose at most 254 cut points for a column.

    Cut points differ from all values where the spacing of floats allows it. A column with fewer than two
    distinct values has none.

    Parameters
    ----------
    values
        float64 [n], NaN for missing.
    scheme
        "quantile": the midpoints between neighbouring distinct values, all of them if they fit, else those
        that divide the rows most evenly. "uniform": 254 equally spaced points within the range (all midpoints
        where the distinct values are equally spaced and fit). "mixed": all midpoints if they fit, else three
        quarters equally spaced, at most 8 of them between two neighbouring values, and the rest by quantiles.

    Returns
    -------
    ndarray
        The cut points, ascending.

    """
    return cuts_between(*distinct_values(values), scheme)


def distinct_values(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct values of a column, increasing, and how many rows have each; NaN is ignored."""
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return distinct, counts.astype(np.int64)


def spread(distinct: NDArray[np.float64], counts: NDArray[np.int64], most: int) -> list[float]:
    """Choose at most `most` of the distinct values so that they divide the rows evenly.

    A value shared by many rows is chosen once, and the others divide the remaining rows.

    Parameters
    ----------
    distinct
        float64 [k], increasing.
    counts
        int64 [k], number of rows with each value.
    most
        Largest number of values to choose.

    Returns
    -------
    list of float
        The chosen values, ascending.

    """
    if len(distinct) <= most:
        return [float(value) for value in distinct]
    ends = np.cumsum(counts)

    def divided(parts: int) -> NDArray[np.int64]:
        return np.unique(np.searchsorted(ends, ends[-1] * np.arange(1, parts) / parts))

    low, high = most + 1, most + 2  # numbers of parts: few enough, and perhaps too many
    while high <= ends[-1] and len(divided(high)) <= most:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(divided(middle)) <= most else (low, middle)
    return [float(value) for value in distinct[divided(low)]]


def cuts_between(
    distinct: NDArray[np.float64], counts: NDArray[np.int64], scheme: Cuts = "quantile"
) -> NDArray[np.float64]:
    """Choose the cut points of a column from its distinct values and the number of rows with each.

    See `cut_points` for the schemes and `distinct_values` for the arguments.
    """
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
    """Choose at most `most` of the midpoints, those that divide the rows most evenly."""
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
    """Keep the first 8 points of each gap between distinct values; all points of a gap split alike."""
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
