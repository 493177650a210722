"""Queries on API keys."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.orm import Session

from app.store.clock import utc_now
from app.store.statements import rows_changed
from app.store.tables import ApiKey


def insert(session: Session, key: ApiKey) -> None:
    """Store a new key."""
    session.add(key)


class StoredKey(NamedTuple):
    """Columns of a key by which a request is admitted."""

    id: str
    hash: str
    name: str
    owner: str
    scopes: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


_TABLE = ApiKey.__table__.c
_BY_ID = select(*(_TABLE[name] for name in StoredKey._fields)).where(_TABLE["id"] == bindparam("key_id"))


def look_up(connection: Connection, key_id: str) -> StoredKey | None:
    """Return the key with this id, even if revoked or expired, or None."""
    row = connection.execute(_BY_ID, {"key_id": key_id}).one_or_none()
    return None if row is None else StoredKey(*row)


def get(session: Session, key_id: str) -> ApiKey | None:
    """Return the key with this id, even if revoked or expired, or None."""
    return session.get(ApiKey, key_id)


def list_keys(session: Session, name: str | None = None) -> list[ApiKey]:
    """Return all keys, or those with a name, oldest first."""
    query = select(ApiKey).order_by(ApiKey.created_at, ApiKey.id)
    return list(session.scalars(query if name is None else query.where(ApiKey.name == name)))


def revoke(session: Session, key_id: str) -> bool:
    """Revoke a key; return False when it doesn't exist or was revoked before."""
    statement = (
        update(ApiKey).where(ApiKey.id == key_id, ApiKey.revoked_at.is_(None)).values(revoked_at=utc_now())
    )
    return rows_changed(session, statement) == 1


def end_by(session: Session, key_id: str, moment: datetime) -> None:
    """Let a key expire at a moment, unless it expires earlier."""
    later = (ApiKey.expires_at.is_(None)) | (ApiKey.expires_at > moment)
    session.execute(update(ApiKey).where(ApiKey.id == key_id, later).values(expires_at=moment))


def touch(session: Session, key_id: str) -> None:
    """Record that the key was used now."""
    session.execute(update(ApiKey).where(ApiKey.id == key_id).values(last_used_at=utc_now()))
