"""How units and models come to their end, other than by a worker's own word.

Lock order: rows of units (several: by id), then the model's row. See `app.store.tables`.
"""

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from app.store.clock import db_now, utc_now
from app.store.statements import rows_changed
from app.store.tables import (
    CANCELLED,
    CHAIN,
    DONE,
    FAILED,
    FINISH,
    OPEN_STATES,
    QUEUED,
    RUNNING,
    Json,
    Model,
    Unit,
    new_id,
)

MAX_STALLED = 3  # claims without progress; a unit that killed so many workers would kill the next one


def new_unit(model_id: str, kind: str, ordinal: int, iterations: int = 0) -> Unit:
    """A queued unit, to be added to the session."""
    return Unit(id=new_id("un"), model_id=model_id, kind=kind, ordinal=ordinal, iterations=iterations)


def lock_all(session: Session, model_id: str) -> None:
    """Lock every unit of a model, in order, before touching several or the model for good."""
    session.execute(select(Unit.id).where(Unit.model_id == model_id).order_by(Unit.id).with_for_update())


def cancel_queued(session: Session, model_id: str) -> None:
    """End the model's units that nobody works on."""
    queued = update(Unit).where(Unit.model_id == model_id, Unit.state == QUEUED)
    rows_changed(session, queued.values(state=CANCELLED, updated_at=utc_now()))


def settle(session: Session, model_id: str) -> None:
    """With no unit left open, the model goes on: to its `finish` unit, or to its end when it was cancelled.

    Holding the model's row while looking makes the last of several chains see the others.
    """
    query = select(Model).where(Model.id == model_id).with_for_update(key_share=True)
    model = session.scalar(query, execution_options={"populate_existing": True})
    if model is None or model.state not in OPEN_STATES:
        return
    states = session.execute(select(Unit.kind, Unit.state).where(Unit.model_id == model_id)).all()
    if any(state in OPEN_STATES for _, state in states):
        return
    if model.cancel_requested:
        model.state, model.finished_at = CANCELLED, utc_now()
    elif all(state == DONE for kind, state in states if kind == CHAIN):
        finishes = sum(kind == FINISH for kind, _ in states)
        session.add(new_unit(model_id, FINISH, finishes))
    session.flush()  # a second finish unit, were there one, must fail in here


def fail_model(session: Session, model_id: str, error: Json) -> None:
    """End a model as failed, and its units that nobody works on as cancelled; under `lock_all`."""
    cancel_queued(session, model_id)
    open_ = update(Model).where(Model.id == model_id, Model.state.in_(OPEN_STATES))
    rows_changed(session, open_.values(state=FAILED, error=error, finished_at=utc_now()))


def sweep(session: Session) -> int:
    """End what nobody will claim any more; how many units that were.

    Units whose workers vanished too often without progress fail with their model; units whose worker vanished
    after their model was cancelled, or failed, end as cancelled.
    """
    lost = and_(Unit.state == RUNNING, Unit.lease_until < db_now())
    unwanted = or_(Model.cancel_requested, Model.state.not_in(OPEN_STATES))
    hopeless = Unit.stalled_attempts >= MAX_STALLED
    query = select(Unit.id, Unit.model_id).join(Model).where(lost, or_(unwanted, hopeless))
    found = session.execute(query.order_by(Unit.model_id, Unit.id).limit(1)).first()
    if found is None:
        return 0
    lock_all(session, found.model_id)
    stale = update(Unit).where(Unit.id == found.id, lost)  # again, under the lock
    model = session.get_one(Model, found.model_id)
    if model.cancel_requested or model.state not in OPEN_STATES:
        changed = rows_changed(session, stale.values(state=CANCELLED, token=Unit.token + 1))
        settle(session, found.model_id)
        return changed
    error = {
        "type": "worker_lost",
        "detail": f"The worker ended without a word {MAX_STALLED} times in a row while on this model, and "
        "got no further; most often that is the machine running out of memory.",
    }
    if changed := rows_changed(session, stale.values(state=FAILED, error=error, token=Unit.token + 1)):
        fail_model(session, found.model_id, error)
    return changed
