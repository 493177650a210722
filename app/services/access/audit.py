"""The audit log: who changed which object, and when.

A row in the transaction of the change, and a log line.
"""

import json
import logging
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field
from sqlalchemy import event
from sqlalchemy.orm import Session

from app.services import cursors
from app.services.cursors import Page
from app.services.request_context import actor
from app.services.views import filled
from app.store.access import audit as store
from app.store.clock import utc_now
from app.store.tables import AuditEntry, new_id

log = logging.getLogger("bartserve.audit")
FORGET_EVERY = 100  # entries, on average, between deletions of old ones


@dataclass(frozen=True, kw_only=True)
class AuditView:
    """One change."""

    id: str
    at: datetime
    who: Annotated[str, Field(description="The actor: a key's id, `local` on loopback, or `command line`.")]
    owner: Annotated[str, Field(description="The owner of the object.")]
    action: Annotated[str, Field(description="The change, such as `model.created`.")]
    subject: Annotated[str, Field(description="The id of the object.")]
    request_id: Annotated[str | None, Field(description="The id of the request, as in the logs.")]


@dataclass(frozen=True)
class AuditPage(Page[AuditView]):
    """A page of changes, newest first."""

    items: list[AuditView]


def record(session: Session, owner: str, action: str, subject: str) -> None:
    """Record a change of an object of `owner`; a rolled back change leaves no entry.

    Parameters
    ----------
    action
        The change, such as `model.created`.
    subject
        The id of the changed object.
    """
    by = actor()
    entry = AuditEntry(
        id=new_id("aud"),
        created_at=utc_now(),
        who=by.who,
        owner=owner,
        action=action,
        subject=subject,
        request_id=by.request_id,
    )
    change = asdict(_change(entry))
    line = json.dumps(change | {"at": change["at"].isoformat().replace("+00:00", "Z")})
    store.append(session, entry)
    if secrets.randbelow(FORGET_EVERY) == 0:
        store.forget_old(session)

    @event.listens_for(session, "after_commit", once=True)
    def _say(_session: Session) -> None:
        log.info(line)


def list_page(session: Session, owner: str | None, limit: int, cursor: str | None) -> AuditPage:
    """Return a page of one owner's entries, or of all owners' (`owner=None`), newest first."""
    page: Page[AuditEntry]
    page = cursors.cut(store.list_page(session, owner, limit + 1, cursors.after(cursor)), limit)
    return AuditPage([_change(entry) for entry in page.items], page.next_cursor)


def _change(entry: AuditEntry) -> AuditView:
    return filled(AuditView, entry, at=entry.created_at)
