"""Groups, or spans of weeks, that count once for the verdict on a model's intervals."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.outcomes import reports as store
from app.store.tables import Model
from sampler.host.assessment import FEWEST_GROUPS, SPANS, CountedOnce, OutcomeSums, week_of
from sampler.host.data import read_column, to_labels


def column_of(settings: Mapping[str, Any]) -> str | None:
    """Return the column whose values count once each: of new groups, or of the model's intercepts."""
    declared: str | None = (settings.get("new_rows") or {}).get("groups")
    groups = settings.get("groups") or ()
    return declared or (groups[0] if groups else None)


def units_of(column: str, X: Mapping[str, Any], rows: int) -> tuple[list[bytes | None], list[str]]:
    """Return a name of 8 bytes for the group of each row, and warnings; None where it isn't known."""
    if column not in X:
        note = f"{column}: without this column the outcomes are shown, and don't count for the verdict"
        return [None] * rows, [note]
    labels = to_labels(read_column(X[column], column), [])
    names = [hashlib.sha256(label.encode()).digest()[:8] for label in labels.names]
    return [names[i] if i >= 0 else None for i in labels.index.tolist()], []


def counted_once(
    session: Session, model: Model, era: int, weeks: Mapping[int, OutcomeSums]
) -> CountedOnce | None:
    """Return what counts once of an era's outcomes; None where each outcome counts.

    A group counts in the week of its first outcome, by its outcomes of that week, and a week counts when it
    has ended: the mean of a part of them would be another look at the same group.
    """
    before, later = week_of(utc_now()), (model.settings.get("new_rows") or {}).get("later")
    if model.settings.get("time"):
        span = (model.diagnostics or {}).get("weeks_once", SPANS[-1])
        return CountedOnce.by_spans(weeks, int(span), before)
    if (column := column_of(model.settings)) is None:
        span = (model.holdout or {}).get("weeks_once", SPANS[-1])
        if later is None or not span:  # 0: rows of a day, and neighbouring days, aren't alike
            return None
        return CountedOnce.by_spans(weeks, int(span), before)
    counts: dict[int, list[tuple[int, ...]]] = {}
    waiting, seen = 0, set[bytes]()
    for unit, week, *marks in store.counts_by_unit(session, model.id, era):
        if unit is None or unit in seen:
            continue
        seen.add(unit)
        if week < before:
            counts.setdefault(week, []).append(tuple(marks))
        else:
            waiting += marks[0]
    by_week = {week: np.array(rows, np.int64) for week, rows in counts.items()}
    return CountedOnce(f"group of {column}", by_week, FEWEST_GROUPS, waiting)
