"""Tables of calibration that move with reported outcomes, week by week: adaptive conformal inference.

docs/maths.md#outcomes has the rule and what it promises, of any data (Gibbs and Candès 2021).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sampler.errors import SettingsError
from sampler.storage.conformal_table import SUMMARY_LEVELS, TWO_SIDED_ROWS, ConformalTable, kept_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sampler.storage.conformal_table import Tails

    Floats = NDArray[np.float64]

STEP = 0.005  # by which an outcome outside moves the share of its tail
NEWEST = 500  # scores of a table


def first_tails() -> dict[float, tuple[float, float]]:
    """Return the shares of the tails before any outcome: half of what intervals of a level leave out."""
    return {level: ((1 - level) / 2, (1 - level) / 2) for level in SUMMARY_LEVELS}


def moved_tails(tails: Tails, table: ConformalTable, scores: Floats) -> dict[float, tuple[float, float]]:
    """Return the shares of the tails after outcomes judged by the table that was in force at their time.

    Parameters
    ----------
    tails
        Shares so far, of the lower and upper tail by level.
    table
        Table in force at the time of the outcomes.
    scores
        float64 [row], predictive probabilities of values below the outcomes.

    Returns
    -------
    dict
        Shares of the lower and upper tail by level; at most 0 where the next intervals have no end.

    """
    moved = {}
    for level, (lower, upper) in tails.items():
        low, high = table.at(level).ends or (0.0, 1.0)
        usual = len(scores) * (1 - level) / 2
        below, above = np.count_nonzero(scores < low), np.count_nonzero(scores > high)
        moved[level] = (float(lower + STEP * (usual - below)), float(upper + STEP * (usual - above)))
    return moved


def table_of_newest(original: ConformalTable, scores: Floats, tails: Tails) -> ConformalTable:
    """Return the table of the newest scores, with shares of its tails.

    Parameters
    ----------
    original
        Table of the model before; while there are fewer than 200 outcomes its rows count too.
    scores
        float64 [row], of reported outcomes in the order of time.
    tails
        Shares of the lower and upper tail by level.

    Returns
    -------
    ConformalTable
        A table that answers the levels of `tails` only.

    Raises
    ------
    SettingsError
        For classes, named subgroups, and groups that count once.

    """
    if original.of_classes or original.subgroups is not None or original.new_rows.groups is not None:
        raise SettingsError(
            "weekly recalibration is for outcomes that are numbers, of rows that count one by one, without "
            "named subgroups: recalibrate by hand",
            field="recalibrate",
            code="not_applicable",
        )
    if len(scores) < TWO_SIDED_ROWS:  # the original's are sorted: evenly spaced ones have its distribution
        before = original.scores[kept_rows(original.rows, NEWEST - len(scores))]
        scores = np.concatenate([before, scores])
    kept = np.sort(np.asarray(scores[-NEWEST:], np.float64))
    return replace(
        original, kind="outcomes", scores=kept, unit=None, totals=(), since_change=False, tails=dict(tails)
    )


def weekly_tables(
    original: ConformalTable, scores: Floats, weeks: NDArray[np.int64], closed: NDArray[np.int64]
) -> Mapping[int, ConformalTable]:
    """Return the tables that outcomes lead to, by the week from which on each is in force.

    Parameters
    ----------
    original
        Table in force before the first of them.
    scores
        float64 [row], predictive probabilities of values below the outcomes, in the order of time.
    weeks
        int64 [row], week of each row: the table in force then judges it. Weeks are numbered one by one.
    closed
        int64 [row], week at whose close each outcome was known, not before its own.

    Returns
    -------
    Mapping
        Tables by week, ascending.

    Raises
    ------
    SettingsError
        For a table that weekly recalibration doesn't apply to, or with too few rows for its levels.

    """
    tails = first_tails()
    tables: dict[int, ConformalTable] = {}
    for week in np.unique(closed).tolist():
        known = closed == week
        now = tails
        for own in np.unique(weeks[known]).tolist():
            begun = max((start for start in tables if start <= own), default=None)
            now = moved_tails(
                now, original if begun is None else tables[begun], scores[known & (weeks == own)]
            )
        tails = now
        tables[week + 1] = table_of_newest(original, scores[closed <= week], tails)
    return tables


def most_outside(level: float, outcomes: int, pending: int) -> float:
    """Return the largest share of reported outcomes outside adapted intervals of a level, of any data.

    Of `outcomes` reported ones, at most `pending` at a time were predicted and not yet counted.
    """
    alpha = 1 - level
    return min(1.0, alpha + (alpha / STEP + 2 * pending) / max(outcomes, 1))


def most_pending(predicted: Floats, counted: Floats) -> int:
    """Return the largest number of outcomes that were predicted and not yet counted, at any one time.

    Parameters
    ----------
    predicted, counted
        float64 [row], seconds: when each was predicted, and when it was counted.

    """
    times = np.concatenate([predicted, counted])
    steps = np.repeat([1, -1], len(predicted))
    order = np.lexsort((-steps, times))
    return int(np.cumsum(steps[order]).max(initial=0))


def statement_of(level: float, outcomes: int, pending: int) -> str:
    """Return in words what is promised of reported outcomes, whatever the data."""
    share = most_outside(level, outcomes, pending)
    return (
        f"Of {outcomes:,} reported outcomes, at most {share:.1%} can lie outside {level:.0%} intervals, "
        "whatever the data: this is about all of them together, not about any one week."
    )
