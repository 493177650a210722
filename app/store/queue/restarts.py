"""Going on with models that have ended: `retry` to the end once meant, `extend` beyond it.

Chains go on from their last checkpoints, so their draws are those of a fit that was never interrupted.
Lock order: rows of units (by id), then the model's row. See `app.store.tables`.
"""

from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.orm import Session

from app.store import events
from app.store.clock import utc_now
from app.store.queue import lifecycle
from app.store.statements import rows_changed
from app.store.tables import CANCELLED, CHAIN, DONE, FAILED, QUEUED, SUCCEEDED, Model, Unit


def locked(session: Session, owner: str, model_id: str) -> Model | None:
    """The owner's model with all of its units, locked to the end of the transaction."""
    lifecycle.lock_all(session, model_id)
    query = select(Model).where(Model.id == model_id, Model.owner == owner).with_for_update(key_share=True)
    return session.scalar(query, execution_options={"populate_existing": True})


def retry(session: Session, model: Model) -> None:
    """Queue the chains of a cancelled or failed model that haven't reached their end; under `locked`."""
    assert model.state in {CANCELLED, FAILED}, model.state
    chains = update(Unit).where(Unit.model_id == model.id, Unit.kind == CHAIN)
    # Also of a chain whose worker hasn't noticed yet that the model had failed: it just goes on.
    rows_changed(session, chains.values(stalled_attempts=0))
    ended: ColumnElement[bool] = Unit.state.in_((CANCELLED, FAILED))
    if model.settings.get("stop"):  # its time may have been over: such chains are done, and short
        ended = or_(ended, and_(Unit.state == DONE, Unit.num_draws < int(model.settings["num_draws"])))
    _queue(session, chains.where(ended))
    events.append(session, model.id, "retried")
    _reopen(session, model)


def extend(session: Session, model: Model, num_draws: int, header: bytes) -> None:
    """Queue the chains of a succeeded model for so many more kept draws each; under `locked`.

    The model keeps the verdict on the draws it had until the one on all of them is there; so a model that
    has a verdict can answer, whatever its state.
    """
    assert model.state == SUCCEEDED, model.state
    draw_on(session, model, int(model.settings["num_draws"]) + num_draws, header)
    events.append(session, model.id, "extended", {"num_draws": num_draws})
    _reopen(session, model)


def draw_on(session: Session, model: Model, num_draws: int, header: bytes) -> None:
    """Queue every chain until it has kept so many draws in all; under a lock of all units."""
    settings = model.settings | {"num_draws": num_draws}
    iterations = int(settings["num_burnin"]) + num_draws * int(settings["thin"])
    chains = update(Unit).where(Unit.model_id == model.id, Unit.kind == CHAIN)
    _queue(session, chains, stalled_attempts=0, iterations=iterations)
    model.settings, model.header = settings, header


def checkpoints(session: Session, model_id: str) -> int:
    """How many chains of a model can go on from where they ended."""
    kept = select(func.count()).where(
        Unit.model_id == model_id, Unit.kind == CHAIN, Unit.checkpoint.is_not(None)
    )
    return session.scalar(kept) or 0


def _queue(session: Session, chains: Any, **values: Any) -> None:
    cleared = {"lease_until": None, "worker_id": None, "error": None, "rate": None, "updated_at": utc_now()}
    rows_changed(session, chains.values(state=QUEUED, **cleared, **values))


def _reopen(session: Session, model: Model) -> None:
    model.state, model.cancel_requested = QUEUED, False
    model.error = model.finished_at = model.deadline = None
    session.flush()
    lifecycle.settle(session, model.id)  # with every chain at its end only the finish is left
