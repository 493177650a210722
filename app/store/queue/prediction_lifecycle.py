"""End of the units of background predictions; `app.store.queue.lifecycle` is the same for models."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import (
    CANCELLED,
    FAILED,
    OPEN_STATES,
    QUEUED,
    SUCCEEDED,
    BatchPrediction,
    Json,
    Unit,
)


def lock_all(session: Session, prediction_id: str) -> None:
    """Lock every unit of a prediction, in order, before changing several units or the final state."""
    mine = select(Unit.id).where(Unit.prediction_id == prediction_id).order_by(Unit.id)
    session.execute(mine.with_for_update())


def cancel_queued(session: Session, prediction_id: str) -> None:
    """Cancel the queued units of a prediction."""
    queued = update(Unit).where(Unit.prediction_id == prediction_id, Unit.state == QUEUED)
    rows_changed(session, queued.values(state=CANCELLED, updated_at=utc_now()))


def settle(session: Session, prediction_id: str) -> None:
    """End a prediction that has no open units as succeeded or cancelled.

    Its row is locked during the check, so that the last of several units sees the others.
    """
    query = select(BatchPrediction).where(BatchPrediction.id == prediction_id)
    query = query.with_for_update(key_share=True)
    prediction = session.scalar(query, execution_options={"populate_existing": True})
    if prediction is None or prediction.state not in OPEN_STATES:
        return
    mine = Unit.prediction_id == prediction_id
    if session.scalar(select(Unit.id).where(mine, Unit.state.in_(OPEN_STATES)).limit(1)) is not None:
        return
    prediction.finished_at = utc_now()
    if prediction.cancel_requested:
        prediction.state = CANCELLED
    else:
        statistics = session.scalars(select(Unit.statistics).where(mine))
        prediction.state, prediction.flags = SUCCEEDED, _added_up(statistics)
    session.flush()


def fail(session: Session, prediction_id: str, error: Json) -> None:
    """End the prediction as failed and cancel its queued units."""
    cancel_queued(session, prediction_id)
    open_ = update(BatchPrediction).where(
        BatchPrediction.id == prediction_id, BatchPrediction.state.in_(OPEN_STATES)
    )
    rows_changed(session, open_.values(state=FAILED, error=error, finished_at=utc_now()))


def _added_up(statistics: Iterable[Json | None]) -> Json:
    total: dict[str, dict[str, Any]] = {}
    for one in statistics:
        for column, counts in ((one or {}).get("flags") or {}).items():
            into = total.setdefault(column, {})
            for flag, rows in counts.items():
                into[flag] = into.get(flag, 0) + rows
    return total
