"""API keys: queries."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import ApiKey


def insert(session: Session, key: ApiKey) -> None:
    """Store a new key."""
    session.add(key)


def get(session: Session, key_id: str) -> ApiKey | None:
    """The key of that id, revoked and expired ones too."""
    return session.get(ApiKey, key_id)


def list_keys(session: Session, name: str | None = None) -> list[ApiKey]:
    """All keys, or those of a name, oldest first."""
    query = select(ApiKey).order_by(ApiKey.created_at, ApiKey.id)
    return list(session.scalars(query if name is None else query.where(ApiKey.name == name)))


def revoke(session: Session, key_id: str) -> bool:
    """End a key; False when it has been revoked before, or never was."""
    statement = (
        update(ApiKey).where(ApiKey.id == key_id, ApiKey.revoked_at.is_(None)).values(revoked_at=utc_now())
    )
    return rows_changed(session, statement) == 1


def end_by(session: Session, key_id: str, moment: datetime) -> None:
    """Let a key expire at that moment, unless it does so before."""
    later = (ApiKey.expires_at.is_(None)) | (ApiKey.expires_at > moment)
    session.execute(update(ApiKey).where(ApiKey.id == key_id, later).values(expires_at=moment))


def touch(session: Session, key_id: str) -> None:
    """Note that the key was used now."""
    session.execute(update(ApiKey).where(ApiKey.id == key_id).values(last_used_at=utc_now()))
