"""Counts of units, models, watches and workers in the database, for monitoring."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.store.clock import db_now
from app.store.outcomes import watches
from app.store.tables import NOBODY, QUEUED, DriftWatch, Model, OutcomeWatch, Unit, Worker


@dataclass(frozen=True)
class Snapshot:
    """Counts and times taken at one moment."""

    units: dict[tuple[str, str], int]  # by kind and state
    models: dict[str, int]  # by state
    watches: dict[str, int]  # on models' intervals, by verdict
    drift: Mapping[str, int]  # watches on the rows that models predict for, by verdict
    oldest_queued: datetime | None
    now: float  # by the database's clock, like the heartbeats
    workers: list[Worker]


def snapshot(session: Session) -> Snapshot:
    """Return all counts; costs a scan of the units' index and a few rows."""
    units = session.execute(select(Unit.kind, Unit.state, func.count()).group_by(Unit.kind, Unit.state))
    models = session.execute(
        select(Model.state, func.count()).where(Model.owner != NOBODY).group_by(Model.state)
    )
    return Snapshot(
        units={(kind, state): count for kind, state, count in units},
        models={row[0]: row[1] for row in models},
        watches=watches.counts(session, OutcomeWatch),
        drift=watches.counts(session, DriftWatch),
        oldest_queued=session.scalar(select(func.min(Unit.created_at)).where(Unit.state == QUEUED)),
        now=session.scalar(select(db_now())) or 0.0,
        workers=list(session.scalars(select(Worker).order_by(Worker.id))),
    )
