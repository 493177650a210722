"""Schedules of refits: which are due, and what came of the last time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import Dataset, OutcomeReport, RefitSchedule

LEASE = timedelta(minutes=15)  # after which one that a killed process had begun is due again


def get(session: Session, owner: str, name: str) -> RefitSchedule | None:
    """Return the schedule of an owner's name, or None."""
    return session.get(RefitSchedule, (owner, name), populate_existing=True)


def count(session: Session, owner: str) -> int:
    """Return the number of an owner's schedules."""
    return session.scalar(select(func.count()).where(RefitSchedule.owner == owner)) or 0


def put(session: Session, owner: str, name: str, **values: Any) -> RefitSchedule:
    """Store a schedule in place of the one that the name has; what came of its last time stays."""
    schedule = get(session, owner, name) or RefitSchedule(owner=owner, name=name)
    for column, value in values.items():
        setattr(schedule, column, value)
    session.add(schedule)
    session.flush()
    return schedule


def remove(session: Session, owner: str, name: str) -> bool:
    """Delete a schedule; return whether there was one."""
    return rows_changed(session, delete(RefitSchedule).where(*_of(owner, name))) == 1


def sound(session: Session, owner: str, name: str | None) -> None:
    """Make the schedule of a name due now, if it waits for the outcomes' alarm."""
    waiting = update(RefitSchedule).where(*_of(owner, name), RefitSchedule.on_alarm.is_(True))
    rows_changed(session, waiting.values(due_at=utc_now()))


def any_due(session: Session) -> bool:
    """Tell whether a schedule is due."""
    return session.scalar(select(RefitSchedule.name).where(_due()).limit(1)) is not None


def owners_due(session: Session) -> list[str]:
    """Return the owners of schedules that are due, the one that waits longest first."""
    waiting = select(RefitSchedule.owner).where(_due()).group_by(RefitSchedule.owner)
    return list(session.scalars(waiting.order_by(func.min(RefitSchedule.due_at))))


def take(session: Session, owner: str) -> RefitSchedule | None:
    """Return a due schedule of an owner, then nobody else's for the time of a lease; None without one."""
    first = select(RefitSchedule).where(_due(), RefitSchedule.owner == owner)
    first = first.order_by(RefitSchedule.due_at).limit(1)
    while (taken := session.scalar(first, execution_options={"populate_existing": True})) is not None:
        mine = (*_of(taken.owner, taken.name), RefitSchedule.due_at == taken.due_at)
        lease = utc_now() + LEASE
        if rows_changed(session, update(RefitSchedule).where(*mine).values(due_at=lease)):
            session.refresh(taken)
            return taken
    return None


def ended(session: Session, taken: RefitSchedule, told: str, model_id: str | None) -> None:
    """Store what came of a schedule's turn, and when it is due again, unless it was changed meanwhile."""
    now = utc_now()
    values: dict[str, Any] = {"told": told, "last_at": now}
    values |= {} if model_id is None else {"last_model_id": model_id}
    mine = _of(taken.owner, taken.name)
    rows_changed(session, update(RefitSchedule).where(*mine).values(**values))
    due = None if taken.every is None else now + timedelta(seconds=taken.every)
    still = update(RefitSchedule).where(*mine, RefitSchedule.due_at == taken.due_at)
    rows_changed(session, still.values(due_at=due))


def newer_datasets(session: Session, owner: str, name: str, than: Dataset) -> Iterator[Dataset]:
    """Yield an owner's datasets of a name that were stored after another, the newest first."""
    named = select(Dataset).where(Dataset.owner == owner, Dataset.name == name)
    newer = named.where(Dataset.id != than.id, Dataset.created_at > than.created_at)
    newest_first = newer.order_by(Dataset.created_at.desc(), Dataset.id.desc())
    found = session.scalars(newest_first, execution_options={"yield_per": 1})
    try:
        yield from found
    finally:  # most callers take the first
        found.close()


def has_reports(session: Session, model_id: str, since: datetime | None) -> bool:
    """Tell whether outcomes of a model have been reported, since a time."""
    query = select(OutcomeReport.id).where(OutcomeReport.model_id == model_id)
    if since is not None:
        query = query.where(OutcomeReport.created_at > since)
    return session.scalar(query.limit(1)) is not None


def _of(owner: str, name: str | None) -> tuple[Any, Any]:
    return RefitSchedule.owner == owner, RefitSchedule.name == name


def _due() -> Any:
    return RefitSchedule.due_at <= utc_now()
