"""Browser sessions: queries. Of a session's token only a hash is stored."""

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.tables import BrowserSession


def insert(session: Session, begun: BrowserSession) -> None:
    """Store a new one, and forget those that have expired."""
    session.execute(delete(BrowserSession).where(BrowserSession.expires_at <= utc_now()))
    session.add(begun)
    session.flush()


def key_of(session: Session, token_hash: str) -> str | None:
    """The id of the key that a session in force began with."""
    found = select(BrowserSession.key_id).where(
        BrowserSession.hash == token_hash, BrowserSession.expires_at > utc_now()
    )
    return session.scalar(found)


def end(session: Session, token_hash: str) -> None:
    """Forget one."""
    session.execute(delete(BrowserSession).where(BrowserSession.hash == token_hash))
