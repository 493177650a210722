"""Event log of a model, numbered without gaps; an event is visible once its transaction has committed."""

from collections.abc import Mapping, Sequence

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from app.store.tables import Json, Model, ModelEvent
from app.store.webhooks import outbox


def append(session: Session, model_id: str, kind: str, detail: Json | None = None) -> None:
    """Log an event in the transaction that causes it, after any locks on units; webhooks are told of it.

    The model's row stays locked until the commit, so events become visible in the order of their numbers: a
    reader that has seen number 5 will never find a new number 4.
    """
    session.execute(select(Model.id).where(Model.id == model_id).with_for_update(key_share=True))
    session.add(
        ModelEvent(model_id=model_id, sequence=last(session, model_id) + 1, kind=kind, detail=detail or {})
    )
    session.flush()
    outbox.note_logged(session, model_id, kind, detail or {})


def last(session: Session, model_id: str) -> int:
    """Return the number of a model's newest event, 0 when there is none."""
    newest = select(func.max(ModelEvent.sequence)).where(ModelEvent.model_id == model_id)
    return session.scalar(newest) or 0


def page(session: Session, model_id: str, after: int, limit: int) -> list[ModelEvent]:
    """Return a model's events after a number, oldest first."""
    query = select(ModelEvent).where(ModelEvent.model_id == model_id, ModelEvent.sequence > after)
    return list(session.scalars(query.order_by(ModelEvent.sequence).limit(limit)))


def news(session: Session, after: Mapping[str, int], limit: int) -> dict[str, Sequence[ModelEvent]]:
    """Return the events of several models, each after its own number, oldest first, in one query."""
    table = ModelEvent
    conditions = [
        and_(table.model_id == model_id, table.sequence > number, table.sequence <= number + limit)
        for model_id, number in after.items()
    ]
    events: dict[str, list[ModelEvent]] = {model_id: [] for model_id in after}
    for event in session.scalars(select(table).where(or_(*conditions)).order_by(table.sequence)):
        events[event.model_id].append(event)
    return dict(events)
