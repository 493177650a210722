"""Claims of units: the owner with the fewest running ones is served next.

A claim raises the unit's token; `app.store.queue.units` makes every later write conditional on it.

A claim reads whose turn it is in a few steps of the index of units, and the running units, but never the
queue: of 100,000 queued units it took the database .4 s when it sorted them.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Select,
    String,
    and_,
    bindparam,
    case,
    column,
    func,
    literal,
    null,
    select,
    true,
    union_all,
    update,
    values,
)
from sqlalchemy.orm import Session

from app.store import events
from app.store.clock import db_now, db_utc_now, utc_now
from app.store.queue import lifecycle
from app.store.statements import rows_changed
from app.store.tables import CHAIN, KINDS, LONG_KINDS, OPEN_STATES, QUEUED, RUNNING, Model, Unit, Worker

SHORT_KINDS = tuple(kind for kind in KINDS if kind not in LONG_KINDS)
# Parameters of queries that are made once.
BUSY, KIND, OWNER = "busy", "kind_", "owner_"


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

    @property
    def is_first(self) -> bool:
        """Whether nobody has worked on the unit before."""
        return self.token == 1


@dataclass(frozen=True)
class _Turn:
    """Claimable units of one kind of one owner, and when it is their turn."""

    owner: str
    kind: str
    lost: bool  # left by a worker
    first: datetime  # creation of the oldest
    running: int  # units of this owner
    since: datetime  # the owner waits


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
    short = _count(session, limit, busy, Unit.kind.in_(SHORT_KINDS))
    room = limit - short if slots is None else min(limit - short, slots)
    if room > 0:
        return short + _count(session, room, busy, Unit.kind.in_(LONG_KINDS))
    if not beside or short == limit:
        return short
    return short + any(turn.kind in beside and not turn.running for turn in _turns(session)[0])


def _count(session: Session, limit: int, busy: Collection[str], *which: ColumnElement[bool]) -> int:
    free = Unit.id.not_in(busy) if busy else true()
    some = lifecycle.with_parents(select(Unit.id)).where(lifecycle.parent_is_open(), free, *which)
    queued = some.where(Unit.state == QUEUED).limit(limit).subquery()
    found = session.scalar(select(func.count()).select_from(queued)) or 0
    if found < limit and (lost := lifecycle.lost_units(session, _is_recoverable(), *which)):
        still = some.where(Unit.id.in_(lost), _is_recoverable()).limit(limit).subquery()
        found += session.scalar(select(func.count()).select_from(still)) or 0
    return min(found, limit)


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

    Among owners with equally many, the one that waits longest comes first: since a unit of its was last
    claimed, or ended its claim, or since its oldest was queued. Among one owner's units, finishes come
    first, then predictions (their units are short), then the oldest long one.

    Parameters
    ----------
    busy
        Units that processes of this worker are working on; never claimed, even after their leases expire.
    long
        Whether long units may be claimed; finishes and predictions always may.
    beside
        Long kinds whose units may be claimed even so for owners with nothing running.
    """
    if session.scalar(select(Worker.draining).where(Worker.id == worker_id)):
        return None
    unit = _take_next(session, busy, long, beside)
    if unit is None:
        return None
    token, recovered = unit.token + 1, unit.state == RUNNING
    values = {
        "state": RUNNING,
        "token": token,
        "worker_id": worker_id,
        "served_at": db_utc_now(),
        "lease_until": db_now() + lease_seconds,
        "attempts": Unit.attempts + 1,
        "stalled_attempts": Unit.stalled_attempts + 1,
        "updated_at": utc_now(),
    }
    rows_changed(session, update(Unit).where(Unit.id == unit.id).values(values))
    table, parent_id = lifecycle.parent(unit)
    started = update(table).where(table.id == parent_id, table.state == QUEUED)
    started = started.values(state=RUNNING, started_at=func.coalesce(table.started_at, db_utc_now()))
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


def _take_next(session: Session, busy: Collection[str], long: bool, beside: tuple[str, ...]) -> Unit | None:
    """Lock and return the unit whose turn it is; None where others have taken all."""
    for turn in _turns(session)[0]:
        if long or turn.kind in SHORT_KINDS or (turn.kind in beside and not turn.running):
            which = {BUSY: list(busy), KIND: turn.kind, OWNER: turn.owner}
            if (unit := session.scalar(_oldest(turn.lost), which)) is not None:
                return unit
    return None


@cache
def _oldest(lost: bool) -> Select[Unit]:
    """Make the query for an owner's oldest claimable unit of a kind, once."""
    return (
        lifecycle.with_parents(select(Unit))
        .where(_is_recoverable() if lost else Unit.state == QUEUED, lifecycle.parent_is_open())
        .where(Unit.kind == bindparam(KIND), Unit.owner == bindparam(OWNER))
        .where(Unit.id.not_in(bindparam(BUSY, expanding=True)))
        .order_by(Unit.created_at, Unit.ordinal)
        .limit(1)
        .with_for_update(of=Unit, skip_locked=True)
    )


def _is_recoverable() -> ColumnElement[bool]:
    return and_(lifecycle.is_lost(), Unit.stalled_attempts < lifecycle.MAX_STALLED)


def _turns(session: Session) -> tuple[list[_Turn], Counter[str | None]]:
    """Return the claimable units by owner and kind in the order of turns, and owners' running units."""
    running: Counter[str | None] = Counter()
    since: dict[str, datetime] = {}  # the creation of an owner's oldest claimable unit
    last: dict[str, datetime] = {}  # service
    found = []
    for owner, kind, lost, first, leased, served in session.execute(_owners_and_kinds()):
        running[owner] += leased
        if first is not None:
            found.append((owner, kind, lost, first))
            since[owner] = min(since.get(owner, first), first)
        if served is not None:
            last[owner] = served
    turns = [
        _Turn(owner, kind, lost, first, running[owner], max(since[owner], last.get(owner, since[owner])))
        for owner, kind, lost, first in found
    ]
    rank = {kind: min(KINDS.index(kind), KINDS.index(CHAIN)) for kind in KINDS}
    order = sorted(
        turns, key=lambda turn: (turn.running, turn.since, turn.owner, rank[turn.kind], turn.first)
    )
    return order, running


@cache
def _owners_and_kinds() -> CompoundSelect[str, str, bool, datetime, int, datetime]:
    """Make the query for queued units, and for running ones, by owner and kind, once.

    Columns: owner, kind, whether left by a worker, creation of the oldest claimable one, number of leased
    ones, last service of the owner.
    """
    queued = _in_state(QUEUED)
    mine = Unit.owner == queued.c.owner
    of_kind = and_(Unit.state == QUEUED, Unit.kind == queued.c.kind, mine)
    first = select(func.min(Unit.created_at)).where(of_kind).scalar_subquery()
    served = select(func.max(Unit.served_at)).where(mine, Unit.served_at.is_not(None)).scalar_subquery()
    waiting = select(queued.c.owner, queued.c.kind, literal(False), first, literal(0), served)
    lost = func.min(case((_is_recoverable(), Unit.created_at)))
    leased = func.count(case((lifecycle.is_leased(), 1)))
    running = select(Unit.owner, Unit.kind, literal(True), lost, leased, null())
    running = running.where(Unit.state == RUNNING).group_by(Unit.owner, Unit.kind)
    return union_all(waiting.where(queued.c.owner.is_not(None)), running)


def _in_state(state: str) -> CTE:
    """Select each kind with every owner of such units in a state, by a step of the index for each."""
    name = column("kind", String)
    kinds = values(name, name=f"kinds_{state}").data([(kind,) for kind in KINDS]).cte(f"kinds_{state}")

    def owner(kind: ColumnElement[str], *after: ColumnElement[bool]) -> ColumnElement[str]:
        owned = and_(Unit.state == state, Unit.kind == kind, *after)
        return select(func.min(Unit.owner)).where(owned).scalar_subquery()

    first = select(kinds.c.kind, owner(kinds.c.kind).label("owner")).cte(f"owners_{state}", recursive=True)
    others = select(first.c.kind, owner(first.c.kind, Unit.owner > first.c.owner))
    return first.union_all(others.where(first.c.owner.is_not(None)))


def somebody_waits(session: Session, claim: Claim) -> bool:
    """Return whether a chain should yield to an owner with nothing running, or at least two units fewer.

    This makes owners take turns where there are fewer slots than owners, without endless swaps where each has
    one. Never more chains of an owner yield than units wait.
    """
    mine = session.scalar(select(Model.owner).where(Model.id == claim.model_id))
    if session.scalar(_others(), {OWNER: mine}) is None:
        return False
    turns, running = _turns(session)
    fewer = {turn.owner for turn in turns if not turn.running or turn.running <= running[mine] - 2} - {mine}
    if not fewer:
        return False
    before = select(func.count()).where(Unit.kind == CHAIN, lifecycle.is_leased(), Unit.owner == mine)
    rank = session.scalar(before.where(Unit.id < claim.unit_id)) or 0
    return rank < _count(session, rank + 1, (), Unit.owner.in_(fewer), Unit.kind.in_(KINDS))


@cache
def _others() -> Select[int]:
    """Make the query for whether another owner than `OWNER` has open units, once."""
    owners = (select(_in_state(state).c.owner) for state in OPEN_STATES)
    open_ = union_all(*owners).subquery()
    return select(literal(1)).where(open_.c.owner != bindparam(OWNER)).limit(1)
