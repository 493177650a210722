"""Restarts of models that have ended: `retry` runs to the planned end, `extend` beyond it.

Chains continue from their last checkpoints, so their draws equal those of an uninterrupted fit.

Rows of units are locked first, then the model's row (`app.store.tables.LOCK_ORDER`).
"""

from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.orm import Session

from app.store import events
from app.store.clock import utc_now
from app.store.outcomes import watches
from app.store.queue import lifecycle
from app.store.statements import rows_changed
from app.store.tables import CANCELLED, CHAIN, DONE, FAILED, QUEUED, SUCCEEDED, Json, Model, Unit


def locked(session: Session, owner: str, model_id: str) -> Model | None:
    """Return the owner's model, locked with all of its units until the transaction ends, or None."""
    lifecycle.lock_all(session, model_id)
    query = select(Model).where(Model.id == model_id, Model.owner == owner).with_for_update(key_share=True)
    return session.scalar(query, execution_options={"populate_existing": True})


def retry(session: Session, model: Model) -> None:
    """Queue the unfinished chains of a cancelled or failed model; call this under `locked`."""
    assert model.state in {CANCELLED, FAILED}, model.state
    chains = update(Unit).where(Unit.model_id == model.id, Unit.kind == CHAIN)
    # Includes chains whose workers haven't noticed yet that the model failed: those just continue.
    rows_changed(session, chains.values(stalled_attempts=0))
    ended: ColumnElement[bool] = Unit.state.in_((CANCELLED, FAILED))
    if model.settings.get("stop"):  # chains that a time limit ended are done, but short
        ended = or_(ended, and_(Unit.state == DONE, Unit.num_draws < int(model.settings["num_draws"])))
    _queue(session, chains.where(ended))
    events.append(session, model.id, "retried")
    _reopen(session, model)


def extend(session: Session, model: Model, num_draws: int, header: bytes, stop: Json | None = None) -> None:
    """Queue the chains of a succeeded model for `num_draws` more kept draws each; call this under `locked`.

    With stop rules the model gets these, and goes on until they hold.

    The model keeps its verdict until the verdict on all draws is known, so a model that has a verdict can
    predict in any state.
    """
    assert model.state == SUCCEEDED, model.state
    draw_on(session, model, int(model.settings["num_draws"]) + num_draws, header)
    details: Json = {"num_draws": num_draws}
    if stop is not None:
        model.settings, model.stopped = model.settings | {"stop": stop}, None
        details |= {name: value for name, value in stop.items() if value is not None and name != "first_look"}
    events.append(session, model.id, "extended", details)
    _reopen(session, model)


def draw_on(session: Session, model: Model, num_draws: int, header: bytes) -> None:
    """Queue every chain until it has `num_draws` kept draws in total; call this under a lock of all units."""
    settings = model.settings | {"num_draws": num_draws}
    made = int(settings.get("discarded", 0)) + num_draws
    iterations = int(settings["num_burnin"]) + made * int(settings["thin"])
    chains = update(Unit).where(Unit.model_id == model.id, Unit.kind == CHAIN)
    _queue(session, chains, stalled_attempts=0, iterations=iterations)
    model.settings, model.header = settings, header
    if model.calibration is not None and not settings.get("time"):  # that of the draws so far
        model.calibration = None
        watches.begin_era(session, model.id)


def checkpoints(session: Session, model_id: str) -> int:
    """Return how many chains of a model have a checkpoint to continue from."""
    query = select(func.count()).where(
        Unit.model_id == model_id, Unit.kind == CHAIN, Unit.checkpoint.is_not(None)
    )
    return session.scalar(query) or 0


def _queue(session: Session, chains: Any, **values: Any) -> None:
    cleared = {"lease_until": None, "worker_id": None, "error": None, "rate": None, "updated_at": utc_now()}
    rows_changed(session, chains.values(state=QUEUED, **cleared, **values))


def _reopen(session: Session, model: Model) -> None:
    model.state, model.cancel_requested = QUEUED, False
    model.error = model.finished_at = model.deadline = None
    session.flush()
    lifecycle.settle(session, model.id)  # when every chain is done, only the finish is left
