"""Readiness and the state of workers: the schema is current, and a dispatcher sends heartbeats."""

import socket
import threading
import time
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.services.errors import Fault
from app.services.request_context import OwnerLimits
from app.settings import Settings, is_loopback
from app.store import reserve, schema
from app.store.engine import make_engine, session_scope
from app.store.queue import workers

FRESH_BEATS = 5  # a dispatcher that missed this many polls counts as gone
FRESH_SECONDS = 5.0  # but at least this: a busy machine may suspend a thread for a moment
MEMORY_SECONDS = 2.0  # how long the workers' memory is assumed to stay the same
HEAD_SECONDS = 10.0  # how long a current schema is assumed to stay current


class Readiness:
    """Readiness check; caches for a moment that the schema is current, since that query is slow."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.within = _fresh(settings)
        self._head_until = 0.0

    def missing(self) -> list[Fault]:
        """Return what is missing before the service can take work; empty when ready."""
        try:
            if not self._at_head():
                message = "the database is not at this version's schema: run  bartserve migrate"
                return [Fault(None, None, message)]
            with session_scope(self.engine, read_only=True) as session:
                beats = workers.fresh_beat(session, self.within)
            if reserve.is_full(self.engine) or not (beats or workers.can_beat(self.engine)):
                return [Fault(None, None, "the database's disk is full: delete something, or give it room")]
        except SQLAlchemyError:
            return [Fault(None, None, "the database doesn't respond")]
        return [] if beats else [Fault(None, None, "no worker sends heartbeats: start  bartserve worker")]

    def _at_head(self) -> bool:
        if time.monotonic() < self._head_until:
            return True
        if not schema.at_head(self.engine):
            return False
        self._head_until = time.monotonic() + HEAD_SECONDS
        return True


def worker_beats_here(settings: Settings) -> bool:
    """Return whether a worker on this machine has sent a recent heartbeat."""
    engine = make_engine(settings.database_url, pool_size=1, max_overflow=0)
    try:
        with session_scope(engine, read_only=True) as session:
            return workers.fresh_beat(session, _fresh(settings), socket.gethostname())
    except SQLAlchemyError:
        return False
    finally:
        engine.dispose()


@dataclass(frozen=True)
class SeenWorker:
    """A worker seen in the last day: `state` is ok, draining or gone, `since` the seconds since its beat."""

    id: str
    host: str
    pid: int
    slots: int
    phase: str
    since: float
    started_at: datetime
    state: str


def workers_seen(session: Session, settings: Settings) -> list[SeenWorker]:
    """Return every worker seen in the last day."""
    fresh = _fresh(settings)
    return [
        SeenWorker(
            worker.id,
            worker.host,
            worker.pid,
            worker.slots,
            worker.phase,
            since,
            worker.started_at,
            "gone" if abs(since) > fresh else "draining" if worker.draining else "ok",
        )
        for worker, since in workers.last_beats(session)
    ]


def slots(session: Session, settings: Settings) -> int:
    """Return the number of chains that the present workers can run at once."""
    return sum(worker.slots for worker in workers_seen(session, settings) if worker.state == "ok")


def slots_now(engine: Engine, settings: Settings) -> int:
    """Return `slots` in a transaction of its own."""
    with session_scope(engine, read_only=True) as session:
        return slots(session, settings)


class FitMemory:
    """The memory that one fit may take: the smallest of the live workers, which may be other machines.

    Where no worker has reported any, this process's own setting. What was read last holds for a moment,
    and while the database doesn't respond.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._within = _fresh(settings)
        self._bytes = settings.fit_memory_bytes
        self._known_until = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """Return the bytes; may read the database."""
        # Callers may hold a connection of the pool: they wait for the one that reads at its first time only.
        if time.monotonic() > self._known_until and self._lock.acquire(timeout=0 if self._known_until else 1):
            try:
                with session_scope(self._engine, read_only=True) as session:
                    self._bytes = workers.least_fit_memory(session, self._within) or self._bytes
                self._known_until = time.monotonic() + MEMORY_SECONDS
            except SQLAlchemyError:
                pass
            finally:
                self._lock.release()
        return self._bytes


def limits(engine: Engine, settings: Settings) -> OwnerLimits:
    """Return the quotas that every owner has."""
    return OwnerLimits(
        stored_bytes=settings.quota_stored_bytes,
        queued=settings.quota_queued,
        predictions=settings.quota_predictions,
        streams=settings.quota_streams,
        fit_memory=FitMemory(engine, settings),
        fit_seconds=settings.fit_seconds or None,
        shared=not is_loopback(settings.host),
    )


@dataclass(frozen=True)
class WaitingUnits:
    """Numbers of queued and running units, and when the oldest queued one was created."""

    queued: int
    running: int
    oldest: datetime | None


def queue(session: Session) -> WaitingUnits:
    """Return how much work waits and runs."""
    counts, oldest = workers.waiting(session)
    return WaitingUnits(counts.get("queued", 0), counts.get("running", 0), oldest)


def _fresh(settings: Settings) -> float:
    return max(FRESH_SECONDS, FRESH_BEATS * settings.dispatch_seconds)
