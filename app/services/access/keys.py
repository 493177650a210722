"""API keys: `bart_<id>_<secret><checksum>`, of which only a hash is stored.

The prefix lets secret scanners find a leaked key; the checksum rejects a mistyped one without a query. The
secret has 190 random bits, so a slow hash would add nothing.

A key has a name and an owner. Everything created with it belongs to the owner, so several keys can share
objects.
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.services.access import audit
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from app.store.access import keys as store
from app.store.access.keys import StoredKey
from app.store.clock import utc_now
from app.store.engine import read_only, session_scope
from app.store.errors import is_disk_full
from app.store.tables import ApiKey

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
ID_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH = 10, 32, 6
FORM = re.compile(rf"bart_([0-9A-Za-z]{{{ID_LENGTH}}})_([0-9A-Za-z]{{{SECRET_LENGTH + CHECKSUM_LENGTH}}})")
USED_EVERY = timedelta(hours=1)  # resolution of "last used": requests that only read rarely write
LONGEST = timedelta(days=3660)
MAX_NAME = 100
NO_HASH = "0" * 64  # compared with an unknown key's secret, which keeps the duration equal

READ, PREDICT, TRAIN, METRICS, ADMIN = "read", "predict", "train", "metrics", "admin"
OPERATOR = "operator"
SCOPES = {
    READ: "view and download the owner's datasets, models and predictions",
    PREDICT: "predictions, including background predictions, and explanations of rows that are sent",
    TRAIN: "upload, fit, cancel, retry, extend, import, delete",
    METRICS: "scrape /metrics",
    ADMIN: "all of these for its owner, and its owner's audit log",
    OPERATOR: "the audit log of every owner",
}
ON_PAGES = tuple(scope for scope in SCOPES if scope != OPERATOR)  # only the command line creates operators
USUAL = (READ, PREDICT, TRAIN)
LOCAL = "local"  # owner of objects created without a key


@dataclass(frozen=True)
class NewKey:
    """A new key; `secret` is the whole key and is not stored."""

    id: str
    secret: str


@dataclass(frozen=True)
class Key:
    """A valid key: its owner and its scopes (`SCOPES`)."""

    id: str
    name: str
    owner: str
    scopes: frozenset[str]

    def may(self, any_of: Collection[str]) -> bool:
        """Return whether the key has one of these scopes, if any; admin implies all but operator."""
        every = self.scopes | set(ON_PAGES) if ADMIN in self.scopes else self.scopes
        return not any_of or not every.isdisjoint(any_of)


# The actor for clients on the same machine when the service listens on loopback.
LOCAL_KEY = Key(LOCAL, LOCAL, LOCAL, frozenset(SCOPES))


def create(
    session: Session,
    *,
    name: str,
    owner: str | None = None,
    scopes: Collection[str] = USUAL,
    lasts: timedelta | None = None,
) -> NewKey:
    """Create a key.

    Parameters
    ----------
    name
        Name of the key; unique among the owner's valid keys.
    owner
        Owner of the objects created with the key; defaults to the name.
    lasts
        Time until it expires; None means never.

    Raises
    ------
    InvalidRequestError
        The name or owner is empty, too long or not printable; a scope is unknown; the time is not positive.
    ConflictError
        A valid key of the owner has this name.
    """
    name = _checked("name", name)
    owner = name if owner is None else _checked("owner", owner)
    if unknown := sorted(set(scopes) - set(SCOPES)) or (["none"] if not scopes else []):
        message = f"there is no scope {unknown[0]!r}: choose from {', '.join(SCOPES)}"
        raise InvalidRequestError(errors=[Fault("scope", None, message)])
    if lasts is not None and not timedelta(0) < lasts <= LONGEST:
        raise InvalidRequestError(errors=[Fault("expires", None, "a key lasts up to ten years, or forever")])
    if any(key.owner == owner for key in _in_force(session, name)):
        raise ConflictError(f"A key in force is named {name}: choose another name, rotate it or revoke it.")
    return _insert(session, name, owner, scopes, lasts)


def list_keys(session: Session) -> list[ApiKey]:
    """Return all keys, oldest first; none contains its secret."""
    return store.list_keys(session)


def state_of(key: ApiKey | StoredKey) -> str:
    """Return the state of a key: `in force`, `expired` or `revoked`."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= utc_now() else "in force"


def rotate(session: Session, name_or_id: str, overlap: timedelta, *, by_id: bool = False) -> NewKey:
    """Create a key with the same name, owner, scopes and lifetime; the old ones expire after the overlap.

    With `by_id`, names are not accepted.

    Raises
    ------
    NotFoundError
        There is no valid key with this name or id.
    ConflictError
        Keys of several owners have this name.
    InvalidRequestError
        The overlap is negative or longer than ten years.
    """
    if not timedelta(0) <= overlap <= LONGEST:
        raise InvalidRequestError(errors=[Fault("overlap", None, "an overlap is 0 to ten years")])
    old = _meant(session, name_or_id, by_id=by_id)
    newest, end = old[-1], utc_now() + overlap
    lasts = None if newest.expires_at is None else newest.expires_at - newest.created_at
    for key in old:
        store.end_by(session, key.id, end)
        audit.record(session, key.owner, "key.rotated", key.id)
    return _insert(session, newest.name, newest.owner, newest.scopes, lasts)


def revoke(session: Session, name_or_id: str, *, by_id: bool = False) -> list[str]:
    """Revoke a key, or all keys with a name, at once; return their ids. With `by_id`, names are not accepted.

    Raises
    ------
    NotFoundError
        There is no valid key with this name or id.
    ConflictError
        Keys of several owners have this name.
    """
    ended = _meant(session, name_or_id, by_id=by_id)
    for key in ended:
        store.revoke(session, key.id)
        audit.record(session, key.owner, "key.revoked", key.id)
    return [key.id for key in ended]


def authenticate(engine: Engine, presented: str) -> Key | None:
    """Return the key for a presented secret, or None when it is not a valid key.

    A browser session stores the `id` of this key under a random session token (never the key itself) and
    calls `recall` at every request, so a revoked or expired key ends its sessions at once.
    """
    form = FORM.fullmatch(presented)
    if form is None:
        return None
    key_id, secret = form[1], form[2][:SECRET_LENGTH]
    if not hmac.compare_digest(_checksum(key_id + secret), form[2][SECRET_LENGTH:]):
        return None
    with read_only(engine) as connection:
        row = store.look_up(connection, key_id)
    hash_kept = NO_HASH if row is None else row.hash
    if not hmac.compare_digest(hash_kept, _hash(presented)) or row is None:
        return None
    return _used(engine, row)


def recall(engine: Engine, key_id: str) -> Key | None:
    """Return the key with this id, authenticated before, if it is still valid."""
    with read_only(engine) as connection:
        row = store.look_up(connection, key_id)
    return None if row is None else _used(engine, row)


def _used(engine: Engine, row: StoredKey) -> Key | None:
    if state_of(row) != "in force":
        return None
    if row.last_used_at is None or row.last_used_at < utc_now() - USED_EVERY:
        try:
            with session_scope(engine) as session:
                store.touch(session, row.id)
        except OperationalError as error:
            if not is_disk_full(error):  # on a full disk the key is valid all the same
                raise
    return Key(row.id, row.name, row.owner, frozenset(row.scopes))


def _checked(field: str, text: str) -> str:
    text = text.strip()
    if not text or len(text) > MAX_NAME or not text.isprintable():
        message = f"1 to {MAX_NAME} printable characters"
        raise InvalidRequestError(errors=[Fault(field, None, message)])
    return text


def _in_force(session: Session, name: str) -> list[ApiKey]:
    return [key for key in store.list_keys(session, name) if state_of(key) == "in force"]


def _meant(session: Session, name_or_id: str, *, by_id: bool) -> list[ApiKey]:
    one = store.get(session, name_or_id)
    if one is not None and state_of(one) == "in force":
        return [one]
    keys = [] if by_id else _in_force(session, name_or_id)
    if not keys:
        raise NotFoundError(
            f"There is no key in force with the {'' if by_id else 'name or '}id {name_or_id}."
        )
    if len({key.owner for key in keys}) > 1:
        names = ", ".join(f"{key.id} of {key.owner}" for key in keys)
        raise ConflictError(f"Keys of several owners are named {name_or_id}: choose one by its id ({names}).")
    return keys


def _insert(
    session: Session, name: str, owner: str, scopes: Collection[str], lasts: timedelta | None
) -> NewKey:
    key_id, secret = _random(ID_LENGTH), _random(SECRET_LENGTH)
    whole = f"bart_{key_id}_{secret}{_checksum(key_id + secret)}"
    now = utc_now()
    ends: datetime | None = None if lasts is None else now + lasts
    in_order = [scope for scope in SCOPES if scope in scopes]
    row = ApiKey(id=key_id, hash=_hash(whole), name=name, owner=owner, scopes=in_order)
    row.created_at, row.expires_at = now, ends
    store.insert(session, row)
    audit.record(session, owner, "key.created", key_id)
    return NewKey(key_id, whole)


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _hash(whole: str) -> str:
    return hashlib.sha256(whole.encode("ascii")).hexdigest()


def _checksum(text: str) -> str:
    """Return the CRC-32 in base 62 with six digits."""
    left, digits = zlib.crc32(text.encode("ascii")), ""
    for _ in range(CHECKSUM_LENGTH):
        left, digit = divmod(left, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
