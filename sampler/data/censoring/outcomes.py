"""Censored outcomes: what columns of events or limits say of the rows (docs/maths.md#censored-outcomes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.schema import Column
from sampler.data.table import RawColumn, read_column
from sampler.data.target import check_length, finite_numbers, reject_beyond, reject_rows
from sampler.data.transform import IDENTITY, Transform
from sampler.definitions.data import CENSORING
from sampler.definitions.prior import MOST
from sampler.errors import DataError, DataProblem, SettingsError

FEW_SEEN = 0.2  # share of observed outcomes below which the prior's scale comes from a line, and is told


@dataclass(frozen=True)
class CensoredOutcomes:
    """Outcomes of rows, of which some are only known to be between limits.

    Attributes
    ----------
    y
        Observed outcomes; of a censored row its only limit, or the middle of two. Float64 [n].
    limits
        Lower and upper limits, equal to y of observed rows, infinite where there is none. Float64 [2, n].

    """

    y: Floats
    limits: Floats

    @property
    def censored(self) -> NDArray[np.bool_]:
        """Whether a row's outcome is only known to be between limits, bool [n]."""
        return np.asarray(self.limits[0] < self.limits[1])


def refuse_censoring(settings: Mapping[str, Any], whose: str) -> None:
    """Raise SettingsError where arguments of fits have censored outcomes."""
    for role in CENSORING:
        if settings.get(role) is not None:
            raise SettingsError(
                f"{whose} does not support censored outcomes: leave out {role}",
                field=role,
                code="not_applicable",
            )


def choose_censored_transform(
    named: str, target: str, outcome: Floats, columns: Mapping[str, RawColumn]
) -> Transform:
    """Return the transform of that name: "auto" is the logarithm of times with events, else none.

    Raises
    ------
    DataError
        For the logarithm of outcomes that are not positive.

    """
    if named == "none" or (named == "auto" and "event" not in columns):
        return IDENTITY
    reject_rows(target, outcome <= 0, "with transform log, outcomes and limits must be positive")
    return Transform("log")


def read_censored_target(
    y: Any, name: str, columns: Mapping[str, RawColumn], num_rows: int
) -> tuple[Column, CensoredOutcomes]:
    """Read the outcomes of a training table with censored rows.

    Raises
    ------
    DataError
        As `read_censored`, and for rows that are all censored, constant outcomes, and ranges below 1e-100.

    """
    outcomes = read_censored(y, name, columns, num_rows)
    known = outcomes.limits[np.isfinite(outcomes.limits)]
    low, high = float(known.min()), float(known.max())
    if not np.isfinite(outcomes.limits).all(axis=0).any():
        message = "every row is censored: at least one outcome must be observed, or between two limits"
        raise DataError([DataProblem(columns["event"].name if "event" in columns else name, None, message)])
    if low == high:
        message = f"constant target: every value is {low:g}, so there is nothing to learn"
        raise DataError([DataProblem(name, None, message)])
    if high - low < 1 / MOST:
        message = f"ranges from {1 / MOST:g} are accepted: rescale the target"
        raise DataError([DataProblem(name, None, message)])
    return Column(name, "number", (), 0, low, high), outcomes


def read_censored(y: Any, name: str, columns: Mapping[str, RawColumn], num_rows: int) -> CensoredOutcomes:
    """Read outcomes with the columns that tell of censoring.

    With events, y are positive times: of the event, or until which there was none. With limits, y is missing
    where the row is censored; limits of rows that have an outcome don't count.

    Raises
    ------
    DataError
        By column and row: for events other than 0 and 1, times that are not positive, limits in the wrong
        order, rows without outcome and limits, outcomes that equal a limit, and outcomes beyond 1e100.

    """
    for column in columns.values():
        check_length(column, num_rows)
    raw = read_column(y, name)
    check_length(raw, num_rows)
    outcomes = _with_events(raw, columns["event"]) if "event" in columns else _with_limits(raw, columns)
    for numbers in (outcomes.y, *outcomes.limits):
        reject_beyond(name, numbers)
    return outcomes


def _with_events(raw: RawColumn, column: RawColumn) -> CensoredOutcomes:
    times = finite_numbers(raw)
    reject_rows(raw.name, times <= 0, "a time must be positive")
    if column.numbers is None or column.type not in ("number", "boolean"):
        message = "events must be numbers or true and false: 1 where the event was seen, 0 where it was not"
        raise DataError([DataProblem(column.name, None, message)])
    reject_rows(column.name, np.isnan(column.numbers), "the event is missing")
    stray = (column.numbers != 0) & (column.numbers != 1)
    message = "an event must be 1 (seen at this time) or 0 (not seen up to this time)"
    reject_rows(column.name, stray, message)
    return CensoredOutcomes(times, np.stack([times, np.where(column.numbers == 1, times, np.inf)]))


def _with_limits(raw: RawColumn, columns: Mapping[str, RawColumn]) -> CensoredOutcomes:
    empty = RawColumn(raw.name, "number", np.full(len(raw), np.nan))
    if raw.numbers is not None and not np.isnan(raw.numbers).all():
        seen = _numbers(raw, "the target")
    else:  # a column without any value may have any type
        if raw.numbers is None and any(cell is not None for cell in raw.cells or ()):
            finite_numbers(raw)
        seen = np.full(len(raw), np.nan)
    low, high = (
        np.where(np.isnan(limits := _numbers(columns.get(role, empty), "a limit", limit=True)), end, limits)
        for role, end in (("lower", -np.inf), ("upper", np.inf))
    )
    first = next(columns[role].name for role in ("lower", "upper") if role in columns)
    reject_rows(first, low > high, "the lower limit is above the upper one")
    reject_rows(first, (low == np.inf) | (high == -np.inf), "a limit is infinite on the wrong side")
    known = ~np.isnan(seen)
    open_row = ~known & np.isinf(low) & np.isinf(high)
    reject_rows(raw.name, open_row, "the row has neither an outcome nor a limit")
    message = (
        "the outcome equals a limit: leave it empty where it is only known to be beyond, or the limit else"
    )
    reject_rows(raw.name, known & (low < high) & ((seen == low) | (seen == high)), message)
    low, high = np.where(known, seen, low), np.where(known, seen, high)
    with np.errstate(invalid="ignore"):
        y = np.where(np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * low + 0.5 * high))
    return CensoredOutcomes(y, np.stack([low, high]))


def _numbers(raw: RawColumn, role: str, *, limit: bool = False) -> Floats:
    """Return numbers with NaN for missing; raise DataError for other types."""
    if raw.numbers is None and not any(cell is not None for cell in raw.cells or ()):
        return np.full(len(raw), np.nan)
    if raw.numbers is None or raw.type != "number":
        raise DataError([DataProblem(raw.name, None, f"{role} must be numeric")])
    if not limit:
        reject_rows(raw.name, np.isinf(raw.numbers), f"{role} is infinite")
    return raw.numbers


def censoring_warnings(outcomes: CensoredOutcomes, name: str) -> list[str]:
    """Warn where few outcomes were observed, or are between two limits."""
    seen = float(np.isfinite(outcomes.limits).all(axis=0).mean())
    if seen >= FEW_SEEN:
        return []
    message = f"{name}: {seen:.0%} of the outcomes were observed; one limit is known of the others"
    return [f"{message}: the range of the prior comes from a line fitted to all of them, more than from data"]
