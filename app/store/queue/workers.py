"""The workers' own rows: beats, and the wish to drain."""

from datetime import datetime

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from app.store.clock import db_now
from app.store.statements import rows_changed
from app.store.tables import OPEN_STATES, QUEUED, Json, Unit, Worker

FORGET_SECONDS = 24 * 3600.0  # a worker not heard of for this long is no news any more


def register(session: Session, worker: Worker) -> None:
    """Enter a worker that begins now."""
    session.add(worker)
    session.flush()  # the row must exist for `beat`
    beat(session, worker.id, worker.phase)


def beat(session: Session, worker_id: str, phase: str, counts: Json | None = None) -> bool:
    """A sign of life, with what was counted; False when the row is gone (then `register` again)."""
    session.execute(delete(Worker).where(Worker.beat_at < db_now() - FORGET_SECONDS, Worker.id != worker_id))
    statement = update(Worker).where(Worker.id == worker_id)
    statement = statement.values(beat_at=db_now(), phase=phase, counts=counts)
    return rows_changed(session, statement) == 1


def drain(session: Session, worker_id: str) -> None:
    """The worker was asked to stop: its units see it at their next slice."""
    session.execute(update(Worker).where(Worker.id == worker_id).values(draining=True, phase="draining"))


def draining(session: Session, worker_id: str) -> bool:
    """Whether the worker was asked to stop."""
    return bool(session.scalar(select(Worker.draining).where(Worker.id == worker_id)))


def forget(session: Session, worker_id: str) -> None:
    """The worker has ended in order."""
    session.execute(delete(Worker).where(Worker.id == worker_id))


def fresh_beat(session: Session, within_seconds: float, host: str | None = None) -> bool:
    """Whether a worker (of that host) that isn't draining has beaten lately."""
    fresh = select(Worker.id).where(Worker.beat_at > db_now() - within_seconds, Worker.draining.is_(False))
    if host is not None:
        fresh = fresh.where(Worker.host == host)
    return session.scalar(fresh.limit(1)) is not None


def list_workers(session: Session) -> list[Worker]:
    """All known workers, the oldest first."""
    return list(session.scalars(select(Worker).order_by(Worker.started_at, Worker.id)))


def last_beats(session: Session) -> list[tuple[Worker, float]]:
    """All known workers, the oldest first, each with the seconds since its last beat."""
    found = select(Worker, db_now() - Worker.beat_at).order_by(Worker.started_at, Worker.id)
    return [(worker, float(since)) for worker, since in session.execute(found)]


def waiting(session: Session) -> tuple[dict[str, int], datetime | None]:
    """How many units are queued and running, and since when the oldest of the queued ones waits."""
    counted = select(Unit.state, func.count()).where(Unit.state.in_(OPEN_STATES)).group_by(Unit.state)
    oldest = session.scalar(select(func.min(Unit.created_at)).where(Unit.state == QUEUED))
    return {state: int(count) for state, count in session.execute(counted)}, oldest
