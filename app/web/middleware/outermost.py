"""Outermost HTTP layer: request ids, security headers, body limits, and the catch-all for exceptions."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Iterable
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.logging import bind
from app.services.access.quotas import SharedRoom
from app.services.errors import InvalidRequestError
from app.services.request_context import actor
from app.web.errors import check_storable, render_error, render_plain, request_id_of
from app.web.scopes import BODY_LIMIT, KEY, KEYLESS_BYTES, MAX_JSON_BYTES

GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")  # a client's X-Request-ID that is safe to log and to return
# W3C Trace Context, section 3.2
TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
# Security headers of every response; a route that needs more sets its own.
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'; "
    b"base-uri 'none'; form-action 'self'",
    b"cache-control": b"no-store",
}
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
log = logging.getLogger(__name__)


class BodyTooLargeError(HTTPException):
    """The body exceeds its limit; an HTTPException, because FastAPI lets those pass where it reads bodies."""

    def __init__(self) -> None:
        # The rest of the body stays unread, so the connection can't carry another request.
        super().__init__(413, headers={"Connection": "close"})


class NoSuchPathError(HTTPException):
    """The path contains a control character; no route has one, but `$` matches before a final newline."""

    def __init__(self) -> None:
        super().__init__(404)


class BodyTooSlowError(HTTPException):
    """The body arrived too slowly."""

    def __init__(self) -> None:
        super().__init__(408, headers={"Connection": "close"})


class Edge:
    """ASGI middleware for limits and security headers.

    Parameters
    ----------
    app
        The inner application.
    limit
        The largest body in bytes; a route may set a lower limit.
    seconds, rate
        A body lags behind `rate` bytes per second by at most `seconds`, at any time.
    keyless_seconds
        Total time to wait for a body of at most `KEYLESS_BYTES` while the key isn't known.
    memory, disk
        The room for bodies that requests hold until they end: on disk for the routes that stream them there.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limit: int,
        memory: SharedRoom,
        disk: SharedRoom,
        seconds: float = 10.0,
        rate: int = 16 * 1024,
        keyless_seconds: float = 5.0,
    ) -> None:
        self.app = app
        self.limit = limit
        self.seconds = seconds
        self.rate = rate
        self.keyless_seconds = keyless_seconds
        self.memory = memory
        self.disk = disk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        _name(scope, headers)
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = _with_ours(message["headers"], request_id_of(scope))
            await send(message)

        body = _Body(self, scope, receive, _declared(headers))
        try:
            self._check(scope["path"], body.declared)
            _refuse_unstorable(scope["query_string"])
            await self.app(scope, body.receive, send_with_headers)
        except (NoSuchPathError, BodyTooLargeError, BodyTooSlowError) as error:
            if started:
                raise
            await render_plain(scope, error.status_code, error.headers)(scope, receive, send_with_headers)
        except InvalidRequestError as error:
            await render_error(scope, error)(scope, receive, send_with_headers)
        except ClientDisconnect:
            return  # the client is gone
        except Exception:
            log.exception("request %s: %s %s failed", request_id_of(scope), scope["method"], scope["path"])
            if started:
                raise
            await render_plain(scope, 500)(scope, receive, send_with_headers)
        finally:
            body.free()

    def _check(self, path: str, declared: int) -> None:
        if CONTROL.search(path):
            raise NoSuchPathError
        if declared > self.limit:
            raise BodyTooLargeError


class _Body:
    """Body of one request, checked while it arrives: its size, its speed, and the room that it takes."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, declared: int) -> None:
        self.declared = declared
        self._edge, self._scope, self._receive = edge, scope, receive
        self._taken, self._complete = 0, False
        self._left = edge.seconds  # until it is too slow
        self._held: tuple[SharedRoom, str] | None = None

    async def receive(self) -> Message:
        """Receive the next message.

        Raises
        ------
        BodyTooLargeError, BodyTooSlowError
            The body is too large for its route, or too slow.
        QuotaError, BusyError
            There is no room for it.
        """
        if self._complete:
            return await self._receive()  # waits for the disconnect, without a limit
        edge, is_known = self._edge, KEY in self._scope
        limit = min(self._scope.get(BODY_LIMIT, MAX_JSON_BYTES) if is_known else KEYLESS_BYTES, edge.limit)
        self._left = self._left if is_known else min(self._left, edge.keyless_seconds)
        if self.declared > limit:
            raise BodyTooLargeError
        room = edge.disk if limit > MAX_JSON_BYTES else edge.memory
        if not self._taken:
            room.check(self.declared)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlowError from None
        more = len(message.get("body", b""))
        self._left -= time.monotonic() - began
        self._left = min(self._left + more / edge.rate, edge.seconds) if is_known else self._left
        self._complete = not message.get("more_body", False)
        if self._taken + more > limit:
            raise BodyTooLargeError
        room.take(more)
        self._taken += more
        self._held = room, actor().owner
        return message

    def free(self) -> None:
        """Give back the room that the body took."""
        if self._held is not None:
            room, owner = self._held
            room.free(owner, self._taken)


def _refuse_unstorable(query: bytes) -> None:
    """Raise InvalidRequestError for a query with a NUL; no decoded query has half a surrogate pair."""
    if b"%00" in query or b"\0" in query:
        check_storable(parse_qsl(query.decode("latin-1"), keep_blank_values=True))


def _name(scope: Scope, headers: Headers) -> None:
    """Set the request's ids for responses and logs: its request id, and its trace id if it has one."""
    request_id = headers.get("x-request-id", "")
    scope["bartserve.request_id"] = request_id if GIVEN_ID.fullmatch(request_id) else secrets.token_hex(8)
    trace = TRACE.fullmatch(headers.get("traceparent", ""))
    scope["bartserve.trace_id"] = trace and trace[1]
    bind(request_id=request_id_of(scope), trace_id=scope["bartserve.trace_id"])


def _with_ours(headers: Iterable[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    own = list(headers)
    present = {name.lower() for name, _ in own}
    added = [(name, value) for name, value in HEADERS.items() if name not in present]
    return [*own, *added, (b"x-request-id", request_id.encode("ascii"))]


def _declared(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
