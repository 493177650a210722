"""Responses kept for a day under the client's idempotency key; a repeated request creates nothing."""

from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import IdempotentAnswer

RETENTION = timedelta(hours=24)


def find(session: Session, owner: str, route: str, key: str) -> IdempotentAnswer | None:
    """Return the response stored under a key within the last day, or None."""
    table = IdempotentAnswer
    mine = select(table).where(table.owner == owner, table.route == route, table.key == key)
    return session.scalar(mine.where(table.created_at >= utc_now() - RETENTION))


def remember(session: Session, answer: IdempotentAnswer) -> None:
    """Store a response in the transaction of the change it reports, and delete expired ones.

    Raises
    ------
    sqlalchemy.exc.IntegrityError
        Another transaction has stored a response under this key meanwhile; the caller must roll back.
    """
    old = delete(IdempotentAnswer).where(IdempotentAnswer.created_at < utc_now() - RETENTION)
    rows_changed(session, old)
    session.add(answer)
    session.flush()
