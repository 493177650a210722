"""Pages of a list by opaque cursors, stable while things are added: a cursor names the last item seen."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from app.services.errors import Fault, InvalidRequestError
from app.store.statements import After
from app.store.tables import AuditEntry, BatchPrediction, Dataset, Model

MAX_LIMIT = 200


T = TypeVar("T", Dataset, Model, BatchPrediction, AuditEntry)


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some items, newest first, and where the next page begins (None: this was the last)."""

    items: Sequence[T]
    next_cursor: str | None


def cut(found: Sequence[T], limit: int) -> Page[T]:
    """A page of `limit` items, from up to ``limit + 1`` that were found."""
    items = found[:limit]
    return Page(items, _cursor(items[-1]) if len(found) > limit else None)


def after(cursor: str | None) -> After | None:
    """Where a cursor says that the page begins.

    Raises
    ------
    InvalidRequestError
        No list ever gave that cursor.
    """
    if cursor is None:
        return None
    seen: After | None
    try:
        moment, item_id = json.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
        seen = datetime.fromisoformat(moment), str(item_id)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        seen = None
    if seen is None or seen[0].tzinfo is None or not is_id(seen[1]):
        told = "no list gave this cursor; take it from next_cursor as it is"
        raise InvalidRequestError(errors=[Fault("cursor", None, told)])
    return seen


def is_id(text: str) -> bool:
    """Whether text could be an id: what else a path may hold never reaches the database."""
    return len(text) <= 64 and text.isascii() and text.replace("_", "").isalnum()


def _cursor(item: Dataset | Model | BatchPrediction | AuditEntry) -> str:
    text = json.dumps([item.created_at.isoformat(), item.id])
    return base64.urlsafe_b64encode(text.encode()).decode()
