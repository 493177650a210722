"""Browser sessions: a random token in a cookie stands for a key that was shown once.

The database keeps a hash of the token, so whoever reads it can't sign in. A session ends after twelve hours,
when it is signed out, and as soon as its key is revoked or expires.
"""

import hashlib
import hmac
import secrets
from datetime import timedelta

from sqlalchemy import Engine

from app.services.access import keys
from app.services.access.keys import Key
from app.store import sessions as store
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import BrowserSession

LASTS = timedelta(hours=12)
MOST = 100  # letters of a token worth looking up
PER_KEY = 20  # at once; beyond that the oldest ends


def begin(engine: Engine, presented: str) -> str | None:
    """The token of a new session of a key; None when the text is no key in force."""
    key = keys.authenticate(engine, presented)
    if key is None:
        return None
    token = secrets.token_urlsafe(32)
    with session_scope(engine) as session:
        row = BrowserSession(hash=_hash(token), key_id=key.id, expires_at=utc_now() + LASTS)
        store.insert(session, row, PER_KEY)
    return token


def recall(engine: Engine, token: str) -> Key | None:
    """The key of a session in force."""
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
    """What forms of this session must send: nobody else can know it, and it doesn't reveal the token."""
    return hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
