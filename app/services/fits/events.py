"""Pages of a model's event log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from app.services.errors import Fault, InvalidRequestError
from app.services.fits import models
from app.services.views import filled
from app.store import events as store
from app.store.tables import OPEN_STATES, ModelEvent

MAX_DIGITS = 15


@dataclass(frozen=True, kw_only=True)
class EventView:
    """An event of a model."""

    sequence: Annotated[int, Field(description="1, 2, 3, ... per model.")]
    kind: Annotated[
        str,
        Field(
            description="created, started, chain_recovered, chain_finished, cancel_requested, "
            "cancelled, failed, retried, extended, looked (stop rules not yet met), "
            "stopped (why the fit ended), promoted, refused, kept (whether the name moved to a refit), "
            "rolled_back, succeeded."
        ),
    ]
    at: datetime
    detail: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """A page of events, oldest first."""

    model_id: str
    items: list[EventView]
    next_cursor: Annotated[
        str | None, Field(description="The cursor of the next page; null on the last page.")
    ]


def page(session: Session, owner: str, model_id: str, limit: int, cursor: str | None) -> EventPage:
    """Return events of a model, oldest first.

    Raises NotFoundError and InvalidRequestError.
    """
    model = models.get(session, owner, model_id)
    events = store.page(session, model.id, after(cursor, "cursor"), limit + 1)
    items = _logged(events[:limit])
    return EventPage(
        model_id=model.id,
        items=items,
        next_cursor=str(items[-1].sequence) if len(events) > limit else None,
    )


def back(session: Session, owner: str, model_id: str, limit: int, before: str | None) -> EventPage:
    """Return a model's events before a number (None: the newest), newest first; the cursor is such a number.

    Raises NotFoundError and InvalidRequestError.
    """
    model = models.get(session, owner, model_id)
    end = store.last(session, model.id)
    if before is not None:
        end = min(end, after(before, "before") - 1)
    start = max(0, end - limit)  # numbers have no gaps
    items = store.page(session, model.id, start, end - start) if end > start else []
    return EventPage(
        model_id=model.id,
        items=_logged(items[::-1]),
        next_cursor=str(start + 1) if start else None,
    )


def _logged(events: Iterable[ModelEvent]) -> list[EventView]:
    return [filled(EventView, event) for event in events]


def seen_to_the_end(session: Session, owner: str, model_id: str, last_seen: int) -> tuple[str, bool]:
    """Return the model's id, and whether it has ended and its last event was seen.

    Raises NotFoundError.
    """
    model = models.get(session, owner, model_id)
    ended = model.state not in OPEN_STATES
    return model.id, ended and 0 < last_seen >= store.last(session, model.id)


def after(number: str | None, field: str) -> int:
    """Parse the number of the last event seen; raises InvalidRequestError for a malformed one."""
    if number is None:
        return 0
    if not (number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS):
        message = "no event has this number: send a number from a response unchanged"
        raise InvalidRequestError(errors=[Fault(field, None, message)])
    return int(number)
