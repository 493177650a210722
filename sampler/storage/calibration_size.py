"""Numbers of calibration rows: needed for a level, kept of many, and the ranks of scores that are ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sampler.definitions.new_rows import NewRows
from sampler.errors import SettingsError

MAX_ROWS = 10_000  # kept of the calibration rows: an end then moves by less than .003 in probability
TWO_SIDED_ROWS = 200  # with at least so many rows, each tail has its own share
USUAL_LEVEL = 0.9  # level of intervals requested without one


def rows_needed(level: float) -> int:
    """Return the least number of calibration rows for intervals or sets of a level."""
    return math.ceil(1 / (1 - level) - 1e-9) - 1


def gaps_inside(rows: int, level: float, *, of_classes: bool) -> int:
    """Return how many of the `rows` + 1 gaps between ordered scores intervals or sets of a level contain.

    The share of new rows inside then is Beta(gaps, rows + 1 - gaps), over tables of such rows.
    """
    if of_classes or rows < TWO_SIDED_ROWS:
        return rank_of(rows, level)
    first, last = ranks_of_ends(rows, level)
    return last - first


def rank_of(rows: int, level: float) -> int:
    return math.ceil((rows + 1) * level - 1e-9)


def ranks_of_ends(rows: int, level: float) -> tuple[int, int]:
    """Return the ranks of the scores that are the ends of two-sided intervals; 0 and `rows` + 1 for none."""
    first = math.floor((rows + 1) * (1 - level) / 2 + 1e-9)
    return first, math.ceil((rows + 1) * (1 + level) / 2 - 1e-9)


def check_calibration_size(count: int, new_rows: NewRows, calibrate: str) -> None:
    """Refuse too few rows, or groups of new rows, for calibrated intervals of the usual level.

    `count` are held out, or in all folds together. Raises SettingsError.
    """
    if count >= (least := rows_needed(USUAL_LEVEL)):
        return
    if new_rows.groups is not None:
        by_folds = "" if calibrate == "folds" else f"calibrate by folds, which takes {least} in all, or "
        message = (
            f"calibrate={calibrate} takes at least {least} values of {new_rows.groups} for {USUAL_LEVEL:.0%} "
            f"intervals of new ones, and {count} are there to judge by: {by_folds}fit with "
            f'groups="{new_rows.groups}" and use predictive intervals, which rest on the model\'s spread of '
            "intercepts"
        )
    else:
        message = (
            f"calibrate={calibrate} takes at least {least} held-out rows for {USUAL_LEVEL:.0%} intervals, "
            f"and {count} are held out: hold out a larger share, or calibrate by folds"
        )
    raise SettingsError(message, field="calibrate", code="out_of_range")


def kept_rows(count: int, most: int = MAX_ROWS) -> NDArray[np.int64]:
    """Choose the calibration rows of `count`: at most `most`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def kept_rows_of(unit: NDArray[np.int32], most: int = MAX_ROWS) -> NDArray[np.int64]:
    """Choose as many calibration rows of each group: at most `most` in all, evenly spaced."""
    groups = np.unique(unit)
    kept = groups[kept_rows(len(groups), most)]
    of_each = max(1, most // len(kept))
    order = np.argsort(unit, kind="stable")
    starts = np.searchsorted(unit[order], kept)
    ends = np.searchsorted(unit[order], kept, side="right")
    parts = [order[a + kept_rows(b - a, of_each)] for a, b in zip(starts, ends, strict=True)]
    return np.sort(np.concatenate(parts))
