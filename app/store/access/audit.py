"""The audit log: one row per change, written in the transaction that makes the change."""

from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import After, page
from app.store.tables import AuditEntry

RETENTION = timedelta(days=400)


def append(session: Session, entry: AuditEntry) -> None:
    """Add an entry to the log."""
    session.add(entry)


def forget_old(session: Session) -> None:
    """Delete the entries older than `RETENTION`."""
    session.execute(delete(AuditEntry).where(AuditEntry.created_at < utc_now() - RETENTION))


def list_page(
    session: Session, owner: str | None, limit: int, after: After | None = None
) -> list[AuditEntry]:
    """Return a page of one owner's entries, or of all owners' (`owner=None`), newest first.

    `after` is (created_at, id) of the last entry of the previous page.
    """
    chosen = select(AuditEntry) if owner is None else select(AuditEntry).where(AuditEntry.owner == owner)
    return list(session.scalars(page(chosen, AuditEntry, limit, after)))
