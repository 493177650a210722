"""Pages of a model's event log."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.services.errors import Fault, InvalidRequestError
from app.services.fits import models
from app.store import events as store
from app.store.tables import OPEN_STATES, ModelEvent

MAX_DIGITS = 15


def page(
    session: Session, owner: str, model_id: str, limit: int, cursor: str | None
) -> tuple[Sequence[ModelEvent], str | None]:
    """Return events of a model, oldest first, and the cursor of the next page.

    Raises NotFoundError and InvalidRequestError.
    """
    model = models.get(session, owner, model_id)
    found = store.page(session, model.id, after(cursor, "cursor"), limit + 1)
    items = found[:limit]
    return items, str(items[-1].sequence) if len(found) > limit else None


def back(
    session: Session, owner: str, model_id: str, limit: int, before: str | None
) -> tuple[Sequence[ModelEvent], str | None]:
    """Return a model's events before a number (None: the newest), newest first, and the next number to pass.

    Raises NotFoundError and InvalidRequestError.
    """
    model = models.get(session, owner, model_id)
    end = store.last(session, model.id)
    if before is not None:
        end = min(end, after(before, "before") - 1)
    start = max(0, end - limit)  # numbers have no gaps
    items = store.page(session, model.id, start, end - start) if end > start else []
    return items[::-1], str(start + 1) if start else None


def seen_to_the_end(session: Session, owner: str, model_id: str, seen: int) -> tuple[str, bool]:
    """Return the model's id, and whether it has ended and its last event was seen.

    Raises NotFoundError.
    """
    model = models.get(session, owner, model_id)
    ended = model.state not in OPEN_STATES
    return model.id, ended and 0 < seen >= store.last(session, model.id)


def after(given: str | None, field: str) -> int:
    """Parse the number of the last event seen; raises InvalidRequestError for a malformed one."""
    if given is None:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS):
        told = "no event has this number: send a number from a response unchanged"
        raise InvalidRequestError(errors=[Fault(field, None, told)])
    return int(given)
