"""API keys: queries."""

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


def list_keys(session: Session) -> list[ApiKey]:
    """All keys, oldest first."""
    return list(session.scalars(select(ApiKey).order_by(ApiKey.created_at, ApiKey.id)))


def any_exists(session: Session) -> bool:
    """Whether a key was ever made."""
    return session.scalar(select(ApiKey.id).limit(1)) is not None


def revoke(session: Session, key_id: str) -> bool:
    """End a key; False when there is none in force of that id."""
    statement = (
        update(ApiKey).where(ApiKey.id == key_id, ApiKey.revoked_at.is_(None)).values(revoked_at=utc_now())
    )
    return rows_changed(session, statement) == 1


def touch(session: Session, key_id: str) -> None:
    """Note that the key was used now."""
    session.execute(update(ApiKey).where(ApiKey.id == key_id).values(last_used_at=utc_now()))
