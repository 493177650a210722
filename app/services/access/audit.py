"""The audit log: who changed which object, and when.

A row in the transaction of the change, and a log line.
"""

import json
import logging
import secrets
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from app.services import cursors
from app.services.cursors import Page
from app.services.request_context import actor
from app.store import audit as store
from app.store.clock import utc_now
from app.store.tables import AuditEntry, new_id

log = logging.getLogger("bartserve.audit")
FORGET_EVERY = 100  # entries, on average, between deletions of old ones


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
    line = json.dumps(shown(entry))
    store.append(session, entry)
    if secrets.randbelow(FORGET_EVERY) == 0:
        store.forget_old(session)

    @event.listens_for(session, "after_commit", once=True)
    def _say(_session: Session) -> None:
        log.info(line)


def list_page(session: Session, owner: str | None, limit: int, cursor: str | None) -> Page[AuditEntry]:
    """Return a page of one owner's entries, or of all owners' (`owner=None`), newest first."""
    return cursors.cut(store.list_page(session, owner, limit + 1, cursors.after(cursor)), limit)


def shown(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as JSON values."""
    return {
        "id": entry.id,
        "at": entry.created_at.isoformat().replace("+00:00", "Z"),
        "who": entry.who,
        "owner": entry.owner,
        "action": entry.action,
        "subject": entry.subject,
        "request_id": entry.request_id,
    }
