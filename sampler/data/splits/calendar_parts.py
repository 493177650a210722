"""Columns that tell a part of the calendar, such as the week of the year, whose values are known ahead."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.table import RawColumn

# Words of names that tell a time, and words beside them; `day_care` may tell another thing.
TIME = re.compile(
    "years?|yr|months?|mon|mth|weeks?|wk|days?|hours?|hr|minutes?|quarter|qtr|season|weekday|date|time|period|woy|"
    "dow|doy|yearmonth|yearweek|isoweek|weeknum|jahr|monat|woche|kw|tag|stunde|quartal|wochentag|annee|mois|"
    "semaine|jour|heure|ano|mes|semana|dia|hora"
)
BESIDE = frozenset({"of", "in", "the", "no", "nr", "num", "number", "index", "iso", "calendar"})
PARTS_OF_NAME = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SPELT = re.compile("([0-9]{4}[- /]?[QWMKT]?[0-9]{0,3}|[01][0-9]-[0-3][0-9])")  # 2024-W05, 2024Q1, 01-31
DAYS_OF_A_YEAR = 366
YEARS = (1000.0, 2999.0)


def tells_calendar(column: RawColumn, index: NDArray[np.intp], days: Floats | None) -> bool:
    """Tell whether the values of a column are known of every date to come, so that none is new as a shop is.

    Parameters
    ----------
    column
        The column.
    index
        Number of each row's value, -1 for none, intp [row].
    days
        Days since 1970 of a column of dates, NaN for none, float64 [row]; None where no column has any.

    Returns
    -------
    bool
        Whether the column goes by the dates, or its name and its values say that it tells a time.

    """
    return _is_named(column) or (days is not None and _goes_by(index, days))


def _is_named(column: RawColumn) -> bool:
    words = [each.lower() for each in PARTS_OF_NAME.findall(column.name)]
    others = [word for word in words if not TIME.fullmatch(word)]
    if len(others) == len(words) or not BESIDE.issuperset(others):
        return False
    if column.numbers is None:
        return all(SPELT.fullmatch(str(cell)) for cell in {*(column.cells or ())} - {None})
    known = column.numbers[np.isfinite(column.numbers)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    of_years = (YEARS[0] * k <= low and high < (YEARS[1] + 1) * k for k in (1, 100, 10_000))  # 2024, 202401
    return (low >= 0 and high <= DAYS_OF_A_YEAR) or any(of_years)


def _goes_by(index: NDArray[np.intp], days: Floats) -> bool:
    """Tell whether a value belongs to dates and comes back on later ones, or to a whole week or month."""
    known = np.isfinite(days) & (index >= 0)
    if not known.any():
        return False
    day, index = days[known], index[known]
    date = np.floor(day).astype("datetime64[D]")
    year, month = date.astype("datetime64[Y]"), date.astype("datetime64[M]")
    thursday = date - (date.astype(np.int64) + 3) % 7 + 3
    week = (thursday - thursday.astype("datetime64[Y]")).astype(np.int64) // 7
    day_of_year = 31 * (month - year).astype(np.int64) + (date - month).astype(np.int64)
    if any(_has_one(key, index) and len(np.unique(key)) < len(np.unique(day)) for key in (thursday, month)):
        return True
    runs = 1 + np.count_nonzero(np.diff(index[np.argsort(day, kind="stable")]))
    comes_back = bool(runs > len(np.unique(index)))
    return comes_back and any(_has_one(key, index) for key in (day, day % 1, week, day_of_year))


def _has_one(key: NDArray[Any], index: NDArray[np.intp]) -> bool:
    """Tell whether rows of one key, of which there are two at least on average, have one value."""
    _, number = np.unique(key, return_inverse=True)
    count = int(number.max()) + 1
    pairs = np.unique(number.astype(np.int64) * (int(index.max()) + 1) + index)
    return 2 * count <= len(index) and len(pairs) == count
