"""`Idempotency-Key`: a repeated request gets the first response again and creates nothing twice.

The response is stored in the transaction of the change, so neither exists without the other. Refused requests
leave nothing behind and are evaluated again when repeated.
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
from app.store.access import idempotency as store
from app.store.engine import session_scope
from app.store.tables import IdempotentAnswer

MAX_KEY = 255
FIELD = "Idempotency-Key"


class KeyReusedError(InvalidRequestError):
    """The key was used for another request before."""

    slug, title = "idempotency-key-reused", "Idempotency-Key used for another request"


class InFlightError(ConflictError):
    """The first request with this key is still being processed."""

    slug, title = "request-in-flight", "The first request with this Idempotency-Key is still in progress"


class _TakenError(Exception):
    """Another process has stored a response under this key meanwhile."""


@dataclass(frozen=True)
class StoredResponse:
    """A response that can be replayed: status, its own headers, body."""

    status: int
    headers: dict[str, str]
    body: bytes
    replayed: bool = False


@dataclass(frozen=True)
class IdempotentRequest:
    """A request under a key; equal requests have equal fingerprints. Nothing is stored without a key."""

    owner: str
    route: str
    key: str | None
    fingerprint: str

    def remember(self, session: Session, answer: StoredResponse) -> None:
        """Store the response in the session of the change that it reports."""
        if self.key is None:
            return
        answered: dict[str, Any] = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        mine = {"owner": self.owner, "route": self.route, "key": self.key, "fingerprint": self.fingerprint}
        try:
            store.remember(session, IdempotentAnswer(**mine, **answered))
        except IntegrityError:
            raise _TakenError from None


_in_flight: set[tuple[int, str, str, str]] = set()
_lock = threading.Lock()


def once(engine: Engine, request: IdempotentRequest, make: Callable[[], StoredResponse]) -> StoredResponse:
    """Return the stored response to this request, else the one that `make` returns and stores.

    Raises
    ------
    InvalidRequestError
        The key is empty, too long or not printable ASCII.
    KeyReusedError
        The key was used for another request.
    InFlightError
        The same request is being processed, in this process or in another one.
    """
    if request.key is None:
        return make()
    if not (0 < len(request.key) <= MAX_KEY and request.key.isascii() and request.key.isprintable()):
        message = f"a key has 1 to {MAX_KEY} printable ASCII characters"
        raise InvalidRequestError(errors=[Fault(FIELD, None, message)])
    if (stored := _find(engine, request, request.key)) is not None:
        return stored
    with _marked_in_flight((id(engine), request.owner, request.route, request.key)):
        # Checked again: the previous holder of the key may have stored its response.
        return _find(engine, request, request.key) or make()


def _find(engine: Engine, request: IdempotentRequest, key: str) -> StoredResponse | None:
    with session_scope(engine, read_only=True) as session:
        stored = store.find(session, request.owner, request.route, key)
    if stored is None:
        return None
    if stored.fingerprint != request.fingerprint:
        message = "this key came with another request: use a new key for each object to create"
        raise KeyReusedError(errors=[Fault(FIELD, None, message)])
    return StoredResponse(stored.status, stored.headers, stored.body, replayed=True)


@contextmanager
def _marked_in_flight(key: tuple[int, str, str, str]) -> Iterator[None]:
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
    return InFlightError("Retry in a moment to get the response.", retry_after=1)
