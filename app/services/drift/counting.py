"""Counts of the rows that a model predicted for, and the verdict on those of the weeks that have ended."""

from collections.abc import Sequence

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.store import drift as store
from app.store import events
from app.store.engine import session_scope
from app.store.outcomes import watches
from app.store.tables import DriftWatch
from sampler.host.assessment import (
    DRIFT_WEEKS,
    DriftPart,
    DriftReport,
    DriftRows,
    count_rows,
    watch_rows,
    week_of,
)

ALERT = "rows_drifted"  # the event of a model whose watch on rows begins to alarm


def record(engine: Engine, model_id: str, some: Sequence[DriftRows]) -> None:
    """Add rows to a model's counts of the present week; the first ones of a week let the last be judged."""
    with session_scope(engine, read_only=True) as session:
        watch = store.get(session, model_id)
    if watch is None:
        return
    parts = parts_of(watch)
    counts = count_rows(parts, some)
    rows = sum(each.codes.shape[1] for each in some)
    with session_scope(engine) as session:
        held = store.lock(session, model_id)
        if held is None:
            return
        if store.add(session, held, week_of(store.now(session)), rows, counts, DRIFT_WEEKS):
            report = judged(session, held)
            if watches.judge(session, held, report.verdict, alarm=report.verdict == "drifted"):
                events.append(session, model_id, ALERT, {"text": report.text})


def judged(session: Session, watch: DriftWatch) -> DriftReport:
    """Judge the rows of the weeks that have ended."""
    week, weeks = week_of(store.now(session)), store.weeks(session, watch.model_id)
    return watch_rows(parts_of(watch), weeks, week if watch.first_week is None else watch.first_week, week)


def parts_of(watch: DriftWatch) -> list[DriftPart]:
    """Return the features and predictions of a watch."""
    return [DriftPart.from_json(each) for each in watch.parts]
