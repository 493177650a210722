"""Claims of units: the owner with the fewest running ones is served next.

A claim raises the unit's token; `app.store.queue.units` makes every later write conditional on it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import ColumnElement, Select, Subquery, and_, bindparam, case, func, or_, select, true, update
from sqlalchemy.orm import Session, aliased

from app.store import events
from app.store.clock import db_now, utc_now
from app.store.queue import lifecycle
from app.store.statements import rows_changed
from app.store.tables import (
    CHAIN,
    FINISH,
    LONG_KINDS,
    OPEN_STATES,
    PREDICTION,
    QUEUED,
    RUNNING,
    Model,
    Unit,
    Worker,
)

# Parameters of queries that are made once.
BUSY, MINE = "busy", "mine"


@dataclass(frozen=True)
class Claim:
    """A unit leased to this worker; the lease ends after `lease_seconds` without a heartbeat."""

    unit_id: str
    token: int
    kind: str
    model_id: str
    ordinal: int
    worker_id: str
    lease_seconds: float
    num_draws: int  # kept and stored so far
    created_at: datetime
    prediction_id: str | None = None  # set if the unit belongs to a background prediction
    study_id: str | None = None  # set if the unit belongs to a study
    recovered: bool = False  # taken over from a lost worker


def count_claimable(
    session: Session,
    limit: int,
    *,
    busy: Collection[str] = (),
    slots: int | None = None,
    beside: tuple[str, ...] = (),
) -> int:
    """Count the units that a worker could claim now, up to `limit`, with at most `slots` long ones.

    `busy` are the units that processes of this worker are working on; `beside` is as in `claim`.
    """
    short = _count(session, limit, _claimable(busy), Unit.kind.not_in(LONG_KINDS))
    room = limit - short if slots is None else min(limit - short, slots)
    if room > 0:
        return short + _count(session, room, _claimable(busy), Unit.kind.in_(LONG_KINDS))
    if not beside or short == limit:
        return short
    shares = _shares()
    idle = Model.owner.in_(select(shares.c.owner).where(shares.c.running == 0))
    return short + _count(session, 1, _claimable(busy), Unit.kind.in_(beside), idle)


def _count(session: Session, limit: int, *which: ColumnElement[bool]) -> int:
    some = lifecycle.with_parents(select(Unit.id)).where(*which)
    some_of_them = some.limit(limit).subquery()
    return session.scalar(select(func.count()).select_from(some_of_them)) or 0


def claim(
    session: Session,
    worker_id: str,
    lease_seconds: float,
    *,
    busy: Collection[str] = (),
    long: bool = True,
    beside: tuple[str, ...] = (),
) -> Claim | None:
    """Claim a unit of the owner with the fewest running ones; None when there is none or the worker drains.

    Among owners with equally many, the one served longest ago comes first. Among one owner's units, finishes
    come first, then predictions (their units are short), then the oldest chain or unit of a study.

    Parameters
    ----------
    busy
        Units that processes of this worker are working on; never claimed, even after their leases expire.
    long
        Whether chains and units of studies may be claimed; finishes and predictions always may.
    beside
        Long kinds whose units may be claimed even so for owners with nothing running.
    """
    if session.scalar(select(Worker.draining).where(Worker.id == worker_id)):
        return None
    unit = session.scalar(_next_unit(long, beside), {BUSY: list(busy)})
    if unit is None:
        return None
    token, recovered = unit.token + 1, unit.state == RUNNING
    values = {
        "state": RUNNING,
        "token": token,
        "worker_id": worker_id,
        "lease_until": db_now() + lease_seconds,
        "attempts": Unit.attempts + 1,
        "stalled_attempts": Unit.stalled_attempts + 1,
        "updated_at": utc_now(),
    }
    rows_changed(session, update(Unit).where(Unit.id == unit.id).values(values))
    table, parent_id = lifecycle.parent(unit)
    started = update(table).where(table.id == parent_id, table.state == QUEUED)
    started = started.values(state=RUNNING, started_at=func.coalesce(table.started_at, utc_now()))
    if rows_changed(session, started) and table is Model:
        events.append(session, unit.model_id, "started")
        lifecycle.set_deadline(session, unit.model_id)
    if recovered and unit.kind == CHAIN:
        lost = {"chain": unit.ordinal, "attempt": unit.attempts + 1}
        events.append(session, unit.model_id, "chain_recovered", lost)
    return Claim(
        unit.id,
        token,
        unit.kind,
        unit.model_id,
        unit.ordinal,
        worker_id,
        lease_seconds,
        unit.num_draws,
        unit.created_at,
        prediction_id=unit.prediction_id,
        study_id=unit.study_id,
        recovered=recovered,
    )


@cache
def _next_unit(long: bool, beside: tuple[str, ...]) -> Select[Unit]:
    """Make the query for the unit that is claimed next, once: making it took longer than running it."""
    shares = _shares()
    kinds: ColumnElement[bool] = true() if long else Unit.kind.not_in(LONG_KINDS)
    if beside:
        kinds = or_(kinds, and_(Unit.kind.in_(beside), shares.c.running == 0))
    return (
        lifecycle.with_parents(select(Unit))
        .join(shares, shares.c.owner == Model.owner)
        .where(_claimable(), Unit.id.not_in(bindparam(BUSY, expanding=True)), kinds)
        .order_by(
            shares.c.running,
            shares.c.since,
            case((Unit.kind == FINISH, 0), (Unit.kind == PREDICTION, 1), else_=2),
            Unit.created_at,
            Unit.ordinal,
        )
        .limit(1)
        .with_for_update(of=Unit, skip_locked=True)
    )


def _claimable(busy: Collection[str] = ()) -> ColumnElement[bool]:
    lost = and_(lifecycle.is_lost(), Unit.stalled_attempts < lifecycle.MAX_STALLED)
    free = Unit.id.not_in(busy) if busy else true()
    return and_(or_(Unit.state == QUEUED, lost), lifecycle.parent_is_open(), free)


def _shares() -> Subquery:
    """Select, per owner of open units, the number of running units and the time of waiting or last service.

    Service means a claim, a slice or the end of any unit of a model that has open ones.
    """
    unit, model, open_unit = aliased(Unit), aliased(Model), aliased(Unit)
    concerned = select(open_unit.model_id).where(open_unit.state.in_(OPEN_STATES))
    runs = lifecycle.is_leased(unit)
    served = case((unit.token > 0, unit.updated_at))
    return (
        select(
            model.owner,
            func.count(case((runs, 1))).label("running"),
            func.coalesce(func.max(served), func.min(unit.created_at)).label("since"),
        )
        .join(model, model.id == unit.model_id)
        .where(unit.model_id.in_(concerned))
        .group_by(model.owner)
        .subquery()
    )


def somebody_waits(session: Session, claim: Claim) -> bool:
    """Return whether a chain should yield to an owner with nothing running, or at least two units fewer.

    This makes owners take turns where there are fewer slots than owners, without endless swaps where each has
    one. Never more chains of an owner yield than units wait.
    """
    mine = session.scalar(select(Model.owner).where(Model.id == claim.model_id))
    wait = session.scalar(_waiting(), {MINE: mine}) or 0
    if not wait:
        return False
    running = and_(Unit.kind == CHAIN, lifecycle.is_leased())
    before = select(func.count()).select_from(Unit).join(Model).where(running, Model.owner == mine)
    return (session.scalar(before.where(Unit.id < claim.unit_id)) or 0) < wait


@cache
def _waiting() -> Select[int]:
    """Make the query for the number of units that others than the owner `MINE` wait for, once."""
    shares = _shares()
    mine: ColumnElement[str] = bindparam(MINE)
    of_mine = select(shares.c.running).where(shares.c.owner == mine).scalar_subquery()
    fewer = or_(shares.c.running == 0, shares.c.running <= of_mine - 2)
    return (
        lifecycle.with_parents(select(func.count()).select_from(Unit))
        .join(shares, shares.c.owner == Model.owner)
        .where(_claimable(), Model.owner != mine, fewer)
    )
