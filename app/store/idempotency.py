"""Answers kept for a day under the key their sender chose, so that sending again makes nothing twice."""

from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import IdempotentAnswer

KEPT = timedelta(hours=24)


def find(session: Session, owner: str, route: str, key: str) -> IdempotentAnswer | None:
    """The answer of the last day under a key."""
    table = IdempotentAnswer
    mine = select(table).where(table.owner == owner, table.route == route, table.key == key)
    return session.scalar(mine.where(table.created_at >= utc_now() - KEPT))


def remember(session: Session, answer: IdempotentAnswer) -> None:
    """Keep an answer, in the transaction of what it tells of; forget those that are too old.

    Raises
    ------
    sqlalchemy.exc.IntegrityError
        Another transaction has kept an answer under this key meanwhile: nothing of this one may stay.
    """
    old = delete(IdempotentAnswer).where(IdempotentAnswer.created_at < utc_now() - KEPT)
    rows_changed(session, old)
    session.add(answer)
    session.flush()
