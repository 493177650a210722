"""Queries on browser sessions. Only a hash of a session's token is stored."""

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.tables import BrowserSession


def insert(session: Session, begun: BrowserSession, most: int) -> None:
    """Store a new session; delete expired ones, and all but the newest `most` of the same key."""
    session.execute(delete(BrowserSession).where(BrowserSession.expires_at <= utc_now()))
    of_key = BrowserSession.key_id == begun.key_id
    newest = select(BrowserSession.hash).where(of_key).order_by(BrowserSession.expires_at.desc())
    stay = BrowserSession.hash.in_(newest.limit(most - 1))
    session.execute(delete(BrowserSession).where(of_key, ~stay))
    session.add(begun)
    session.flush()


def key_of(session: Session, token_hash: str) -> str | None:
    """Return the id of the key that an unexpired session was started with, or None."""
    query = select(BrowserSession.key_id).where(
        BrowserSession.hash == token_hash, BrowserSession.expires_at > utc_now()
    )
    return session.scalar(query)


def end(session: Session, token_hash: str) -> None:
    """Delete a session."""
    session.execute(delete(BrowserSession).where(BrowserSession.hash == token_hash))
