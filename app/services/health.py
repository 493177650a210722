"""Readiness and the state of workers: the schema is current, and a dispatcher sends heartbeats."""

import socket
import time
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.services.errors import Fault
from app.settings import Settings
from app.store import schema
from app.store.engine import make_engine, session_scope
from app.store.queue import workers

FRESH_BEATS = 5  # a dispatcher that missed this many polls counts as gone
FRESH_SECONDS = 5.0  # but at least this: a busy machine may suspend a thread for a moment
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
                told = "the database is not at this version's schema: run  bartserve migrate"
                return [Fault(None, None, told)]
            with session_scope(self.engine, read_only=True) as session:
                beats = workers.fresh_beat(session, self.within)
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


def workers_seen(session: Session, settings: Settings) -> list[dict[str, Any]]:
    """Return every worker seen in the last day: where it runs, and `state` ok, draining or gone."""
    fresh = _fresh(settings)
    return [
        {
            "id": worker.id,
            "host": worker.host,
            "pid": worker.pid,
            "slots": worker.slots,
            "phase": worker.phase,
            "since": since,
            "started_at": worker.started_at,
            "state": "gone" if since > fresh else "draining" if worker.draining else "ok",
        }
        for worker, since in workers.last_beats(session)
    ]


def slots(session: Session, settings: Settings) -> int:
    """Return the number of chains that the present workers can run at once."""
    return sum(worker["slots"] for worker in workers_seen(session, settings) if worker["state"] == "ok")


def slots_now(engine: Engine, settings: Settings) -> int:
    """Return `slots` in a transaction of its own."""
    with session_scope(engine, read_only=True) as session:
        return slots(session, settings)


def queue(session: Session) -> dict[str, Any]:
    """Return the numbers of `queued` and `running` units, and when the `oldest` queued one was created."""
    counts, oldest = workers.waiting(session)
    return {"queued": counts.get("queued", 0), "running": counts.get("running", 0), "oldest": oldest}


def _fresh(settings: Settings) -> float:
    return max(FRESH_SECONDS, FRESH_BEATS * settings.dispatch_seconds)
