"""End of units, and of the models, predictions and studies that they belong to.

Rows of units are locked first, then the row of the prediction or study, then the model's
(`app.store.tables.LOCK_ORDER`).
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, case, not_, or_, select, true, update
from sqlalchemy.orm import Session

from app.store import events
from app.store.clock import db_now, db_utc_now, is_near, utc_now
from app.store.queue.jobs import JOBS, job_of
from app.store.statements import S, lock_rows, rows_changed
from app.store.tables import (
    CANCELLED,
    CHAIN,
    DONE,
    FAILED,
    FINISH,
    OPEN_STATES,
    QUEUED,
    RUNNING,
    Job,
    Json,
    Model,
    Unit,
    new_id,
)

LONGEST_LEASE = 3600.0  # seconds; more than BARTSERVE_LEASE_SECONDS may not be
MOST_LOST = 1000  # lost units that are looked at together
MAX_STALLED = 3  # claims without progress; a unit that killed this many workers would kill the next one
WORKER_LOST: Json = {
    "type": "worker_lost",
    "detail": f"The worker process died {MAX_STALLED} times in a row while working on this, without any "
    "progress. The most common cause is a machine that runs out of memory.",
}
LEASE_LOST: Json = {
    "type": "lease_lost",
    "detail": f"The lease was lost {MAX_STALLED} times in a row without progress: the worker was alive, but "
    "sent no heartbeat in time (BARTSERVE_LEASE_SECONDS). The most common causes are a machine that was "
    "suspended or is overloaded, and a database that didn't respond. A retry continues from the stored "
    "checkpoint.",
}


def new_unit(owner: str, model_id: str, kind: str, ordinal: int, iterations: int = 0, **job: str) -> Unit:
    """Make a queued unit, to be added to the session; `job` is its prediction_id or study_id."""
    identity = {"id": new_id("un"), "owner": owner, "model_id": model_id}
    return Unit(**identity, kind=kind, ordinal=ordinal, iterations=iterations, **job)


def lock_all(session: Session, model_id: str) -> None:
    """Lock every unit of a model, in order, before changing several units or the model's final state."""
    lock_rows(session, Unit, Unit.model_id == model_id)


def is_leased(unit: type[Unit] = Unit) -> ColumnElement[bool]:
    """Return the condition that a worker holds a unit."""
    return and_(unit.state == RUNNING, is_near(unit.lease_until, 0.0, LONGEST_LEASE))


def is_lost() -> ColumnElement[bool]:
    """Return the condition that the worker of a running unit lets its lease end."""
    return and_(Unit.state == RUNNING, not_(is_near(Unit.lease_until, 0.0, LONGEST_LEASE)))


def lost_units(session: Session, *which: ColumnElement[bool]) -> Sequence[str]:
    """Return the ids of lost units, 1,000 at most.

    Alone they are found among the running units; in a query with the parents of each, among all units.
    """
    return session.scalars(select(Unit.id).where(is_lost(), *which)).all()[:MOST_LOST]


def set_deadline(session: Session, model_id: str) -> None:
    """Set the deadline of a model whose stop rules limit the time, unless it has one within that time.

    Called when its first unit is claimed, and with each check of the deadline.
    """
    model = session.get_one(Model, model_id)
    seconds = (model.settings.get("stop") or {}).get("max_seconds")
    if seconds is not None and model.stopped is None:
        wrong = or_(Model.deadline.is_(None), Model.deadline > db_now() + seconds)
        timed = update(Model).where(Model.id == model_id, wrong)
        rows_changed(session, timed.values(deadline=db_now() + seconds))


def cancel_queued(session: Session, model_id: str) -> None:
    """Cancel the queued units of a model's fit."""
    queued = update(Unit).where(_of_fit(model_id), Unit.state == QUEUED)
    rows_changed(session, queued.values(state=CANCELLED, updated_at=utc_now()))


def settle(session: Session, model_id: str) -> None:
    """Advance a model that has no open units: queue its `finish` unit, or end it when it was cancelled.

    The model's row is locked during the check, so that the last of several chains sees the others.
    """
    query = select(Model.owner, Model.state, Model.cancel_requested).where(Model.id == model_id)
    found = session.execute(query.with_for_update(key_share=True)).first()
    if found is None or found.state not in OPEN_STATES:
        return
    states = session.execute(select(Unit.kind, Unit.state).where(_of_fit(model_id))).all()
    if any(state in OPEN_STATES for _, state in states):
        return
    if found.cancel_requested:
        ended = update(Model).where(Model.id == model_id)
        rows_changed(session, ended.values(state=CANCELLED, finished_at=db_utc_now()))
        events.append(session, model_id, CANCELLED)
    elif all(state == DONE for kind, state in states if kind == CHAIN):
        finishes = sum(kind == FINISH for kind, _ in states)
        session.add(new_unit(found.owner, model_id, FINISH, finishes))
    session.flush()  # a second finish unit must violate its unique index here


def fail_model(session: Session, model_id: str, error: Json) -> None:
    """End a model as failed and cancel its queued units; call this under `lock_all`."""
    cancel_queued(session, model_id)
    open_ = update(Model).where(Model.id == model_id, Model.state.in_(OPEN_STATES))
    if rows_changed(session, open_.values(state=FAILED, error=error, finished_at=db_utc_now())):
        events.append(session, model_id, FAILED, error)


def sweep(session: Session, busy: Collection[str] = ()) -> int:
    """End one unit that nobody will claim any more, except units in `busy`; return how many ended (0 or 1).

    A unit whose workers vanished too often without progress fails, and its model or job with it; a unit
    whose worker vanished after its model was cancelled or failed ends as cancelled.
    """
    lost = is_lost()
    if not (found := lost_units(session)):
        return 0
    hopeless = Unit.stalled_attempts >= MAX_STALLED
    columns: tuple[Any, ...] = (Unit.id, Unit.model_id, Unit.error, *(jobs.column for jobs in JOBS))
    query = with_parents(select(*columns))
    query = query.where(
        Unit.id.in_(found),
        lost,
        or_(not_(parent_is_open()), hopeless),
        Unit.id.not_in(busy) if busy else true(),
    )
    ended = session.execute(query.order_by(Unit.model_id, Unit.id).limit(1)).first()
    if ended is None:
        return 0
    lock_siblings(session, ended)
    stale = update(Unit).where(Unit.id == ended.id, lost)  # again, under the lock
    table, parent_id = parent(ended)
    its: Model | Job = session.get_one(table, parent_id)
    if its.cancel_requested or its.state not in OPEN_STATES:
        if changed := rows_changed(session, stale.values(state=CANCELLED, token=Unit.token + 1)):
            settle_parent(session, ended)
        return changed
    error = ended.error or WORKER_LOST
    if changed := rows_changed(session, stale.values(state=FAILED, error=error, token=Unit.token + 1)):
        fail_parent(session, ended, error)
    return changed


def with_parents(query: S) -> S:
    """Join a query of units to their models and jobs, as `parent_is_open` needs it."""
    query = query.join(Model)
    for jobs in JOBS:
        query = query.outerjoin(jobs.table, jobs.column == jobs.table.id)
    return query


def parent_is_open() -> ColumnElement[bool]:
    """Return the condition that a unit's model, prediction or study is still open."""
    of_fit = and_(Model.state.in_(OPEN_STATES), Model.cancel_requested.is_(False))
    return case(*((jobs.column.is_not(None), jobs.are_open()) for jobs in JOBS), else_=of_fit)


def parent(unit: Any) -> tuple[Any, str]:
    """Return the table and id of the model or job that a unit, or a claim of one, belongs to."""
    if (job := job_of(unit)) is None:
        return Model, unit.model_id
    return job[0].table, job[1]


def lock_siblings(session: Session, unit: Any) -> None:
    """Lock every unit of the same model or job, in order."""
    if (job := job_of(unit)) is None:
        lock_all(session, unit.model_id)
    else:
        job[0].lock_all(session, job[1])


def settle_parent(session: Session, unit: Any) -> None:
    """Advance or end the unit's model or job if it has no open units."""
    if (job := job_of(unit)) is None:
        settle(session, unit.model_id)
    else:
        job[0].settle(session, job[1])


def fail_parent(session: Session, unit: Any, error: Json) -> None:
    """End the unit's model or job as failed; call this under `lock_siblings`."""
    if (job := job_of(unit)) is None:
        fail_model(session, unit.model_id, error)
    else:
        job[0].fail(session, job[1], error)


def _of_fit(model_id: str) -> ColumnElement[bool]:
    """Return the condition that selects the units of a model's fit, without those of its jobs."""
    return and_(Unit.model_id == model_id, *(jobs.column.is_(None) for jobs in JOBS))
