"""`Idempotency-Key`: a request that is sent again is answered again, and makes nothing twice.

The answer is stored in the transaction of what the request makes, so there is never the one without the
other. Requests that are refused leave nothing behind; sent again, they are looked at again.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.services.errors import ConflictError, Fault, InvalidRequestError
from app.store import idempotency as store
from app.store.engine import session_scope
from app.store.tables import IdempotentAnswer

MAX_KEY = 255
FIELD = "Idempotency-Key"


class KeyReusedError(InvalidRequestError):
    """A key that stood for another request."""

    slug, title = "idempotency-key-reused", "This Idempotency-Key stood for another request"


class InFlightError(ConflictError):
    """The first request of this key is still being worked on."""

    slug, title = "request-in-flight", "The first request of this Idempotency-Key is still being answered"


class _TakenError(Exception):
    """Another process has answered this key meanwhile."""


@dataclass(frozen=True)
class StoredResponse:
    """What is sent, and sent again: status, headers of the answer's own, body."""

    status: int
    headers: dict[str, str]
    body: bytes
    replayed: bool = False


@dataclass(frozen=True)
class Asked:
    """A request under a key; equal requests have equal fingerprints. Without a key nothing is kept."""

    owner: str
    route: str
    key: str | None
    fingerprint: str

    def remember(self, session: Session, answer: StoredResponse) -> None:
        """Keep what is about to be answered, in the session that makes it."""
        if self.key is None:
            return
        kept: dict[str, Any] = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        mine = {"owner": self.owner, "route": self.route, "key": self.key, "fingerprint": self.fingerprint}
        try:
            store.remember(session, IdempotentAnswer(**mine, **kept))
        except IntegrityError:
            raise _TakenError from None


_in_flight: set[tuple[int, str, str, str]] = set()
_lock = threading.Lock()


def once(engine: Engine, asked: Asked, make: Callable[[], StoredResponse]) -> StoredResponse:
    """The answer that was given to this request before, else the one that `make` gives and remembers.

    Raises
    ------
    InvalidRequestError
        The key is empty, too long or not printable ASCII.
    KeyReusedError
        The key came with another request.
    InFlightError
        The same request is being worked on, in this process or, as the database found, in another one.
    """
    if asked.key is None:
        return make()
    if not (0 < len(asked.key) <= MAX_KEY and asked.key.isascii() and asked.key.isprintable()):
        told = f"a key has 1 to {MAX_KEY} printable ASCII characters"
        raise InvalidRequestError(errors=[Fault(FIELD, None, told)])
    if (found := _find(engine, asked, asked.key)) is not None:
        return found
    with _held((id(engine), asked.owner, asked.route, asked.key)):
        # Again: whoever held the key until now may have answered.
        return _find(engine, asked, asked.key) or make()


def _find(engine: Engine, asked: Asked, key: str) -> StoredResponse | None:
    with session_scope(engine, read_only=True) as session:
        found = store.find(session, asked.owner, asked.route, key)
    if found is None:
        return None
    if found.fingerprint != asked.fingerprint:
        told = "this key came with another request: take a new key for each thing to be made"
        raise KeyReusedError(errors=[Fault(FIELD, None, told)])
    return StoredResponse(found.status, found.headers, found.body, replayed=True)


@contextmanager
def _held(key: tuple[int, str, str, str]) -> Iterator[None]:
    with _lock:
        if key in _in_flight:
            raise _in_flight_error()
        _in_flight.add(key)
    try:
        yield
    except _TakenError:
        raise _in_flight_error() from None
    finally:
        with _lock:
            _in_flight.discard(key)


def _in_flight_error() -> InFlightError:
    return InFlightError("Send it again in a moment: then the answer is there.", retry_after=1)
