"""Tables of calibration that move with reported outcomes, week by week: adaptive conformal inference.

docs/maths.md#outcomes has the rule and what it promises, of any data (Gibbs and Candès 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.errors import SettingsError
from sampler.storage.calibration_size import TWO_SIDED_ROWS, kept_rows, rows_needed
from sampler.storage.conformal_table import SUMMARY_LEVELS, ConformalTable, Tails

STEP = 0.005  # by which an outcome outside moves the share of its tail
NEWEST = 500  # scores of a table


def first_tails() -> dict[float, tuple[float, float]]:
    """Return the shares of the tails before any outcome: half of what intervals of a level leave out."""
    return {level: ((1 - level) / 2, (1 - level) / 2) for level in SUMMARY_LEVELS}


def ends_in_force(table: ConformalTable, level: float) -> tuple[float, float]:
    """Return the ends of a level as probabilities: 0 and 1 for none, as where too few groups calibrate it."""
    if table.tails is None and table.count < rows_needed(level):
        return 0.0, 1.0
    return table.at(level).ends or (0.0, 1.0)


def moved_tails(
    tails: Tails, table: ConformalTable, scores: Floats, unit: NDArray[np.int64] | None = None
) -> dict[float, tuple[float, float]]:
    """Return the shares of the tails after outcomes judged by the table that was in force at their time.

    Parameters
    ----------
    tails
        Shares so far, of the lower and upper tail by level.
    table
        Table in force at the time of the outcomes.
    scores
        float64 [row], predictive probabilities of values below the outcomes.
    unit
        int64 [row], the group of each row where these count once, by the share of their rows outside.

    Returns
    -------
    dict
        Shares of the lower and upper tail by level; at most 0 where the next intervals have no end.

    """
    moved, weights = {}, weights_of(unit, len(scores))
    for level, (lower, upper) in tails.items():
        low, high = ends_in_force(table, level)
        usual = weights.sum() * (1 - level) / 2
        below, above = weights[scores < low].sum(), weights[scores > high].sum()
        moved[level] = (float(lower + STEP * (usual - below)), float(upper + STEP * (usual - above)))
    return moved


def weights_of(unit: NDArray[np.int64] | None, rows: int) -> Floats:
    """Return what each row counts, float64 [row]: 1, or one in the number of rows of its group."""
    if unit is None:
        return np.ones(rows)
    _, place, sizes = np.unique(unit, return_inverse=True, return_counts=True)
    return 1.0 / sizes[place]


def counts_groups(table: ConformalTable) -> bool:
    """Tell whether groups of rows count once each in a table, and in those that outcomes make of it."""
    return table.unit is not None and table.new_rows.groups is not None and table.new_rows.count == "groups"


def table_of_newest(
    original: ConformalTable, scores: Floats, tails: Tails, unit: NDArray[np.int64] | None = None
) -> ConformalTable:
    """Return the table of the newest scores, with shares of its tails.

    Parameters
    ----------
    original
        Table of the model before; while there are fewer than 200 outcomes its rows count too.
    scores
        float64 [row], of reported outcomes in the order of time.
    tails
        Shares of the lower and upper tail by level.
    unit
        int64 [row], the group of each row, where groups count once in the original.

    Returns
    -------
    ConformalTable
        A table that answers the levels of `tails` only.

    Raises
    ------
    SettingsError
        For classes, and named subgroups.

    """
    if original.of_classes or original.subgroups is not None:
        raise SettingsError(
            "weekly recalibration is for outcomes that are numbers, without named subgroups: recalibrate by "
            "hand",
            field="recalibrate",
            code="not_applicable",
        )
    units = np.zeros(len(scores), np.int64) if unit is None else unit
    if len(scores) < TWO_SIDED_ROWS:  # the original's are sorted: evenly spaced ones have its distribution
        before = kept_rows(original.rows, NEWEST - len(scores))
        scores = np.concatenate([original.scores[before], scores])
        of_before = np.zeros(original.rows, np.int64) if original.unit is None else original.unit
        units = np.concatenate([-1 - of_before[before], units])  # no group of theirs is one of the outcomes
    newest = np.asarray(scores[-NEWEST:], np.float64)
    order = np.argsort(newest, kind="stable")
    groups = np.unique(units[-NEWEST:][order], return_inverse=True)[1].astype(np.int32)
    return replace(
        original,
        kind="outcomes",
        scores=newest[order],
        unit=groups if counts_groups(original) else None,
        totals=(),
        since_change=False,
        tails=dict(tails),
    )


def weekly_tables(
    original: ConformalTable,
    scores: Floats,
    weeks: NDArray[np.int64],
    closed: NDArray[np.int64],
    unit: NDArray[np.int64] | None = None,
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
    unit
        int64 [row], the group of each row, where groups count once in the original.

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
            these = known & (weeks == own)
            judge = original if begun is None else tables[begun]
            now = moved_tails(now, judge, scores[these], None if unit is None else unit[these])
        tails, past = now, closed <= week
        tables[week + 1] = table_of_newest(
            original, scores[past], tails, None if unit is None else unit[past]
        )
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


def statement_of(level: float, outcomes: int, pending: int, groups: str | None = None) -> str:
    """Return in words what is promised of reported outcomes, whatever the data.

    `groups` is the column whose values count once each in a week, by the share of their rows; `outcomes` and
    `pending` are then numbers of these.
    """
    share = most_outside(level, outcomes, pending)
    counted = "reported outcomes"
    if groups is not None:
        counted = f"values of {groups} with reported outcomes, each counted once a week"
    rows = "" if groups is None else " of their rows on average"
    return (
        f"Of {outcomes:,} {counted}, at most {share:.1%}{rows} can lie outside {level:.0%} intervals, "
        "whatever the data: this is about all of them together, not about any one week."
    )
