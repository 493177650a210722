"""DriftCounts by week of the rows that models predict for, and the watches on them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import db_now
from app.store.statements import rows_changed
from app.store.tables import NOBODY, DriftWatch, DriftWeek, Json, Model

DriftCounts = Sequence[Sequence[int]]  # rows in each cell of each part


def begin(session: Session, model_id: str, parts: Sequence[Json], verdict: str) -> None:
    """Store a model's watch, if there are parts, and it has none: counts are in the cells of the first."""
    if parts and session.get(DriftWatch, model_id) is None:
        session.add(DriftWatch(model_id=model_id, parts=list(parts), verdict=verdict))
        session.flush()


def get(session: Session, model_id: str) -> DriftWatch | None:
    """Return a model's watch; None where its training rows were not counted."""
    return session.get(DriftWatch, model_id)


def lock(session: Session, model_id: str) -> DriftWatch | None:
    """Return a model's watch, which no other transaction changes until this ends; None without one."""
    mine = select(Model.id).where(Model.id == model_id, Model.owner != NOBODY)
    if session.scalar(mine.with_for_update(key_share=True)) is None:
        return None
    return session.get(DriftWatch, model_id, populate_existing=True)


def now(session: Session) -> datetime:
    """Return the time by the database's clock."""
    return datetime.fromtimestamp(session.scalar(select(db_now())) or 0.0, UTC)


def add(session: Session, watch: DriftWatch, week: int, rows: int, counts: DriftCounts, kept: int) -> bool:
    """Add rows of a week; return whether they are its first. The caller has locked the model.

    Weeks before the last `kept` ones are forgotten then.
    """
    stored = session.get(DriftWeek, (watch.model_id, week))
    if stored is not None:
        pairs = zip(stored.counts, counts, strict=True)
        stored.counts = [[a + b for a, b in zip(old, new, strict=True)] for old, new in pairs]
        stored.num_rows += rows
        session.flush()
        return False
    session.add(
        DriftWeek(model_id=watch.model_id, week=week, num_rows=rows, counts=[[*each] for each in counts])
    )
    watch.first_week = week if watch.first_week is None else min(watch.first_week, week)
    old = (DriftWeek.model_id == watch.model_id, DriftWeek.week <= week - kept)
    rows_changed(session, delete(DriftWeek).where(*old))
    session.flush()
    return True


def weeks(session: Session, model_id: str) -> dict[int, list[list[int]]]:
    """Return the counts of each week."""
    mine = select(DriftWeek.week, DriftWeek.counts).where(DriftWeek.model_id == model_id)
    return {row[0]: row[1] for row in session.execute(mine.order_by(DriftWeek.week))}
