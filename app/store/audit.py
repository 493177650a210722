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


def list_page(session: Session, limit: int, after: After | None = None) -> list[AuditEntry]:
    """Lines of every owner, newest first; `after` is (created_at, id) of the last one of the page before."""
    return list(session.scalars(page(select(AuditEntry), AuditEntry, limit, after)))
