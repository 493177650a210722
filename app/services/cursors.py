"""Pagination with opaque cursors, stable under inserts: a cursor names the last item seen."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from app.services.errors import Fault, InvalidRequestError
from app.store.errors import is_id
from app.store.sets.model_sets import ModelOfGroup
from app.store.statements import After
from app.store.tables import (
    AuditEntry,
    BatchPrediction,
    Dataset,
    Model,
    ModelSet,
    Study,
    Webhook,
    WebhookDelivery,
)

MAX_LIMIT = 200


T = TypeVar("T")
Row = TypeVar(
    "Row",
    Dataset,
    Model,
    ModelSet,
    BatchPrediction,
    Study,
    AuditEntry,
    Webhook,
    WebhookDelivery,
    ModelOfGroup,
)


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of items, newest first, and the cursor of the next page (None on the last page)."""

    items: Sequence[T]
    next_cursor: Annotated[
        str | None, Field(description="The cursor of the next page; null on the last page.")
    ]


def cut(rows: Sequence[Row], limit: int) -> Page[Row]:
    """Make a page of `limit` items from the up to ``limit + 1`` items that a query returned."""
    items = rows[:limit]
    return Page(items, _cursor(items[-1]) if len(rows) > limit else None)


def after(cursor: str | None) -> After | None:
    """Decode a cursor into the position after which the page begins.

    Raises
    ------
    InvalidRequestError
        The cursor is malformed.
    """
    if cursor is None:
        return None
    position: After | None
    try:
        moment, item_id = json.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
        position = datetime.fromisoformat(moment), str(item_id)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        position = None
    if position is None or position[0].tzinfo is None or not is_id(position[1]):
        message = "this is no valid cursor: send next_cursor of the previous page unchanged"
        raise InvalidRequestError(errors=[Fault("cursor", None, message)])
    return position


def _cursor(item: Any) -> str:
    text = json.dumps([item.created_at.isoformat(), item.id])
    return base64.urlsafe_b64encode(text.encode()).decode()
