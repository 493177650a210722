"""The workers' rows: heartbeats and requests to drain."""

from datetime import datetime

from sqlalchemy import ColumnElement, Engine, and_, delete, func, not_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.store.clock import db_now, is_near
from app.store.engine import session_scope
from app.store.errors import is_disk_full
from app.store.statements import rows_changed
from app.store.tables import OPEN_STATES, QUEUED, Json, Unit, Worker, new_id

FORGET_SECONDS = 24 * 3600.0  # age of the last heartbeat after which a worker's row is deleted


def register(session: Session, worker: Worker) -> None:
    """Insert the row of a starting worker."""
    session.add(worker)
    session.flush()  # the row must exist for `beat`
    beat(session, worker.id, worker.phase)


def beat(session: Session, worker_id: str, phase: str, counts: Json | None = None) -> bool:
    """Record a heartbeat with the counters; return False when the row is gone (call `register` again)."""
    old = not_(is_near(Worker.beat_at, FORGET_SECONDS, FORGET_SECONDS))
    session.execute(delete(Worker).where(old, Worker.id != worker_id))
    statement = update(Worker).where(Worker.id == worker_id)
    statement = statement.values(beat_at=db_now(), phase=phase, counts=counts)
    return rows_changed(session, statement) == 1


def can_beat(engine: Engine) -> bool:
    """Tell whether a full disk doesn't keep workers from their heartbeats, by one that leaves nothing."""
    try:
        with session_scope(engine) as session:
            session.add(Worker(id=new_id("probe"), host="", pid=0, slots=0, beat_at=0.0, phase=""))
            session.flush()
            session.rollback()
    except DBAPIError as error:
        if not is_disk_full(error):
            raise
        return False
    return True


def drain(session: Session, worker_id: str) -> None:
    """Ask the worker to stop; its units see this at their next slice."""
    session.execute(update(Worker).where(Worker.id == worker_id).values(draining=True, phase="draining"))


def draining(session: Session, worker_id: str) -> bool:
    """Return whether the worker was asked to stop."""
    return bool(session.scalar(select(Worker.draining).where(Worker.id == worker_id)))


def forget(session: Session, worker_id: str) -> None:
    """Delete the row of a worker that has shut down."""
    session.execute(delete(Worker).where(Worker.id == worker_id))


def fresh_beat(session: Session, within_seconds: float, host: str | None = None) -> bool:
    """Return whether a worker (on `host`) that isn't draining sent a heartbeat within `within_seconds`."""
    fresh = select(Worker.id).where(_serves(within_seconds))
    if host is not None:
        fresh = fresh.where(Worker.host == host)
    return session.scalar(fresh.limit(1)) is not None


def least_fit_memory(session: Session, within_seconds: float) -> int | None:
    """Return the smallest memory in bytes that a fit may take of the live workers; None if none is known.

    Any worker may claim any unit, so a fit must have room in each.
    """
    query = select(func.min(Worker.fit_memory))
    return session.scalar(query.where(_serves(within_seconds)))


def _serves(within_seconds: float) -> ColumnElement[bool]:
    """Return the condition that a worker isn't draining and has sent a heartbeat lately."""
    return and_(is_near(Worker.beat_at, within_seconds, within_seconds), Worker.draining.is_(False))


def last_beats(session: Session) -> list[tuple[Worker, float]]:
    """Return all known workers, oldest first, each with the seconds since its last heartbeat."""
    query = select(Worker, db_now() - Worker.beat_at).order_by(Worker.started_at, Worker.id)
    return [(worker, float(since)) for worker, since in session.execute(query)]


def waiting(session: Session) -> tuple[dict[str, int], datetime | None]:
    """Return the numbers of queued and running units, and the creation time of the oldest queued one."""
    counted = select(Unit.state, func.count()).where(Unit.state.in_(OPEN_STATES)).group_by(Unit.state)
    oldest = session.scalar(select(func.min(Unit.created_at)).where(Unit.state == QUEUED))
    return {state: int(count) for state, count in session.execute(counted)}, oldest
