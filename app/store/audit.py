"""The audit log: a row per change, in the transaction that makes it."""

from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import After, page
from app.store.tables import AuditEntry

KEPT = timedelta(days=400)


def append(session: Session, entry: AuditEntry) -> None:
    """Add a line."""
    session.add(entry)


def forget_old(session: Session) -> None:
    """Remove the lines that are older than `KEPT`."""
    session.execute(delete(AuditEntry).where(AuditEntry.created_at < utc_now() - KEPT))


def list_page(
    session: Session, owner: str | None, limit: int, after: After | None = None
) -> list[AuditEntry]:
    """Lines of an owner's things or (None) of every owner's, newest first.

    `after` is (created_at, id) of the last one of the page before.
    """
    chosen = select(AuditEntry) if owner is None else select(AuditEntry).where(AuditEntry.owner == owner)
    return list(session.scalars(page(chosen, AuditEntry, limit, after)))
