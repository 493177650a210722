"""API keys: `bart_<id>_<secret><checksum>`, of which only a hash is stored.

The prefix lets scanners find a key that leaked, the checksum rejects a mistyped one without a look at the
database. The secret has 190 random bits, so a slow hash would add nothing.
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.errors import InvalidRequestError, NotFoundError
from app.store import keys
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import ApiKey

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
ID_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH = 10, 32, 6
FORM = re.compile(rf"bart_([0-9A-Za-z]{{{ID_LENGTH}}})_([0-9A-Za-z]{{{SECRET_LENGTH + CHECKSUM_LENGTH}}})")
USED_EVERY = timedelta(hours=1)  # "last used" is kept this coarse, so that reading doesn't mean writing
MAX_NAME = 100


@dataclass(frozen=True)
class MadeKey:
    """A key just made; `secret` is the whole key and is not stored."""

    id: str
    secret: str


def create(session: Session, *, name: str) -> MadeKey:
    """Make a key whose owner is `name`: several keys of one name own the same things.

    Raises
    ------
    InvalidRequestError
        The name is empty, too long or not printable.
    """
    name = name.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidRequestError(f"A key's name has 1 to {MAX_NAME} printable characters.")
    key_id, secret = _random(ID_LENGTH), _random(SECRET_LENGTH)
    whole = f"bart_{key_id}_{secret}{_checksum(key_id + secret)}"
    keys.insert(session, ApiKey(id=key_id, hash=_hash(whole), name=name, scopes=[]))
    return MadeKey(key_id, whole)


def list_keys(session: Session) -> list[ApiKey]:
    """All keys, oldest first; none holds its secret."""
    return keys.list_keys(session)


def revoke(session: Session, key_id: str) -> None:
    """End a key at once.

    Raises
    ------
    NotFoundError
        There is no key in force of that id.
    """
    if not keys.revoke(session, key_id):
        raise NotFoundError(f"There is no key in force with the id {key_id}.")


def authenticate(engine: Engine, whole: str) -> str | None:
    """The owner a key stands for, or None when it isn't a key in force."""
    form = FORM.fullmatch(whole)
    if form is None:
        return None
    key_id, secret = form[1], form[2][:SECRET_LENGTH]
    if not hmac.compare_digest(_checksum(key_id + secret), form[2][SECRET_LENGTH:]):
        return None
    now = utc_now()
    with session_scope(engine, read_only=True) as session:
        key = keys.get(session, key_id)
    if key is None or not hmac.compare_digest(key.hash, _hash(whole)):
        return None
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        return None
    if key.last_used_at is None or key.last_used_at < now - USED_EVERY:
        with session_scope(engine) as session:
            keys.touch(session, key_id)
    return key.name


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _hash(whole: str) -> str:
    return hashlib.sha256(whole.encode("ascii")).hexdigest()


def _checksum(text: str) -> str:
    """CRC-32 in base 62, six digits."""
    left, digits = zlib.crc32(text.encode("ascii")), ""
    for _ in range(CHECKSUM_LENGTH):
        left, digit = divmod(left, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
