"""Browser sessions: a random token in a cookie stands for a key that was presented at sign-in.

The database stores only a hash of the token, so reading it doesn't allow signing in. A session ends after
twelve hours, at sign-out, and when its key is revoked or expires.
"""

import hashlib
import hmac
import secrets
from datetime import timedelta

from sqlalchemy import Engine

from app.services.access import keys
from app.services.access.keys import Key
from app.store.access import sessions as store
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import BrowserSession

LASTS = timedelta(hours=12)
MOST = 100  # longest token that is looked up
PER_KEY = 20  # concurrent sessions; one more ends the oldest


def begin(engine: Engine, presented: str) -> str | None:
    """Start a session with a key and return its token; None when the text is no valid key."""
    key = keys.authenticate(engine, presented)
    if key is None:
        return None
    token = secrets.token_urlsafe(32)
    with session_scope(engine) as session:
        row = BrowserSession(hash=_hash(token), key_id=key.id, expires_at=utc_now() + LASTS)
        store.insert(session, row, PER_KEY)
    return token


def recall(engine: Engine, token: str) -> Key | None:
    """Return the key of an unexpired session, or None."""
    if not token or len(token) > MOST:
        return None
    with session_scope(engine, read_only=True) as session:
        key_id = store.key_of(session, _hash(token))
    return None if key_id is None else keys.recall(engine, key_id)


def end(engine: Engine, token: str) -> None:
    """Sign out."""
    with session_scope(engine) as session:
        store.end(session, _hash(token))


def csrf(token: str) -> str:
    """Return the CSRF token for forms of this session; it doesn't reveal the session token."""
    return hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
