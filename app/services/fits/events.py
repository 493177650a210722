"""Pages of a model's event log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.services.cursors import Page
from app.services.errors import Fault, InvalidRequestError
from app.services.fits import models
from app.store import events as store
from app.store.tables import OPEN_STATES, Json, ModelEvent

MAX_DIGITS = 15


@dataclass(frozen=True)
class LoggedEvent:
    """An event of a model, numbered 1, 2, ... by `sequence`."""

    sequence: int
    kind: str
    at: datetime
    detail: Json


@dataclass(frozen=True)
class LogPage(Page[LoggedEvent]):
    """A page of the log of one model."""

    model_id: str


def page(session: Session, owner: str, model_id: str, limit: int, cursor: str | None) -> LogPage:
    """Return events of a model, oldest first.

    Raises NotFoundError and InvalidRequestError.
    """
    model = models.get(session, owner, model_id)
    events = store.page(session, model.id, after(cursor, "cursor"), limit + 1)
    items = _logged(events[:limit])
    return LogPage(items, str(items[-1].sequence) if len(events) > limit else None, model.id)


def back(session: Session, owner: str, model_id: str, limit: int, before: str | None) -> LogPage:
    """Return a model's events before a number (None: the newest), newest first; the cursor is such a number.

    Raises NotFoundError and InvalidRequestError.
    """
    model = models.get(session, owner, model_id)
    end = store.last(session, model.id)
    if before is not None:
        end = min(end, after(before, "before") - 1)
    start = max(0, end - limit)  # numbers have no gaps
    items = store.page(session, model.id, start, end - start) if end > start else []
    return LogPage(_logged(items[::-1]), str(start + 1) if start else None, model.id)


def _logged(events: Iterable[ModelEvent]) -> list[LoggedEvent]:
    return [LoggedEvent(event.sequence, event.kind, event.at, event.detail) for event in events]


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
