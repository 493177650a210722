"""The HTTP server: uvicorn with additional deadlines and limits.

Measured on uvicorn 0.54: a connection that has sent half of its headers, or never reads its response, stays
open as long as the client likes; headers may be of any length. `app.web.middleware.outermost` handles slow
bodies.
"""

import asyncio
import contextlib
import fcntl
import json
import re
import secrets
import socket
import struct
import termios
from collections import Counter
from http import HTTPStatus
from typing import Any, ClassVar

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.application import create_app
from app.services.fits.event_stream import Feed
from app.settings import Settings
from app.web.addresses import Network, counted_as, is_among, networks_of
from app.web.errors import MEDIA_TYPE, PLAIN
from app.web.scopes import KEY

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 200  # a browser sends twenty; each takes some 200 bytes of memory beside its text
# Chunk sizes, extensions and trailers, beyond sixteen times the body: around a chunk of one byte are five.
MAX_FRAMING_BYTES = 64 * 1024
FRAMING_PER_BYTE = 16
MAX_PIPELINED = 64  # requests sent ahead on one connection; each takes some kilobytes
FLOOD_SECONDS = 10.0  # for which a connection with more of them counts as so many of its address
LINGER_SECONDS = 5.0  # for the rest of a body after an early response
STOP_SECONDS = 10
RETRY = "Retry-After: 2\r\n"
LATER = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
# RFC 9110, section 7.2 (Host = uri-host [":" port]): no userinfo, no spaces; and an absolute request target.
HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?")
ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)


class Deadlines(HttpToolsProtocol):
    """One connection with limits on the time and size of headers, on slow readers, and on connections.

    Its own refusals are problem documents too. A class of its own for each server, since connections are
    counted by address in it.
    """

    head_seconds = 10.0
    write_seconds = 60.0
    write_rate = 16 * 1024  # bytes per second that a client must read of a response
    keyless_seconds = 5.0  # instead of `write_seconds`, for a client whose key isn't known
    most = 800
    most_each = 800  # from one address
    proxies: tuple[Network, ...] = ()  # whose clients the proxy itself counts
    addresses: ClassVar[Counter[str]] = Counter()  # the open connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the header deadline; refuse the connection when there are too many."""
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None  # checks that the response is being read
        self._head_bytes = self._framing_bytes = 0
        self._in_head, self._in_body, self._is_full = True, False, False
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self._address = counted_as(host)
        self._count(1)
        if len(self.connections) > self.most:
            self._refuse(503)
        elif self.addresses[self._address] > self.most_each and not is_among(host, self.proxies):
            self._refuse(429)
        else:
            self._set(self.head_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        self._cancel()
        self._stop_watching()
        self._count(-1)
        super().connection_lost(exc)

    def _count(self, more: int) -> None:
        self.addresses[self._address] += more
        if not self.addresses[self._address]:
            del self.addresses[self._address]  # keep no entries of clients that have gone

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the headers, and those of a body that are none of its content."""
        if self.transport.is_closing() or self._is_full:
            return  # refused: the rest isn't read
        self._head_bytes += len(data) if self._in_head else 0
        self._framing_bytes += len(data) if self._in_body else 0
        super().data_received(data)
        if self.transport.is_closing() or self._is_full:
            return
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431)
        elif self._in_body and self._framing_bytes > MAX_FRAMING_BYTES:
            self._refuse(400)  # a trailer is kept in memory until it ends

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after the body (trailers) are no headers of the request, nor are too many."""
        if not self._in_head:
            return
        if len(self.headers) >= MAX_HEADERS:
            self._refuse(431)
            raise ValueError("too many headers")  # ends the parser, which has a whole read before it
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._framing_bytes = max(0, self._framing_bytes - FRAMING_PER_BYTE * len(body))
        super().on_body(body)

    def on_message_begin(self) -> None:
        """Start the header deadline of a further request on a kept connection, unless too many were sent."""
        if len(self.pipeline) >= MAX_PIPELINED:
            self._is_full = True  # closed after the responses to those before
            self._count(MAX_PIPELINED)
            self.loop.call_later(FLOOD_SECONDS, self._count, -MAX_PIPELINED)
            raise ValueError("too many requests sent ahead")  # ends the parser
        super().on_message_begin()
        if not self._in_head:
            self._in_head, self._head_bytes = True, 1  # its first bytes have arrived
            self._set(self.head_seconds, self._late)

    def on_headers_complete(self) -> None:
        """Cancel the header deadline and check the request target."""
        self._in_head, self._in_body, self._framing_bytes = False, True, 0
        self._cancel()
        check_target(self.url, self.headers, self.parser.get_http_version())
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Cancel the deadline at the end of the request."""
        self._in_body = False
        self._cancel()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Limit the time for the rest of a body after an early response; close after the last of too many."""
        is_last = self._is_full and not self.pipeline
        super().on_response_complete()
        if is_last:
            self.transport.close()
        if self._in_body and not self.transport.is_closing():
            self._set(LINGER_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        """Start to watch a response that the client doesn't read."""
        super().pause_writing()
        self._watch(self._unread())

    def _watch(self, before: int) -> None:
        """Abort the connection if the client has read too little since `before` bytes were left."""
        is_known = self.cycle is not None and KEY in self.cycle.scope
        seconds = self.write_seconds if is_known else min(self.keyless_seconds, self.write_seconds)

        def look() -> None:
            left = self._unread()
            if before - left < self.write_rate * seconds:
                # A plain close would wait for the reader, and so would the kernel for its buffer.
                held = self.transport.get_extra_info("socket")
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            else:
                self._watch(left)

        self._stop_watching()
        self._watching = self.loop.call_later(seconds, look)

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _unread(self) -> int:
        """Return the bytes not yet received by the client: ours and, where known, the kernel's."""
        unsent, socket_ = self.transport.get_write_buffer_size(), self.transport.get_extra_info("socket")
        # The kernel accepts more only after a good part of its buffer, up to some MB, is sent.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            unsent += struct.unpack("i", fcntl.ioctl(socket_.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
        return unsent

    def resume_writing(self) -> None:
        """Stop watching a response that is being read again."""
        super().resume_writing()
        self._stop_watching()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  the parser's message
        """Refuse malformed HTTP with a problem document, unless a limit has ended the parser."""
        if not (self.transport.is_closing() or self._is_full):
            self._refuse(400)

    def _late(self) -> None:
        if self._head_bytes:
            self._refuse(408)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        slug, title, detail = PLAIN[status]
        body = {"type": f"/problems/{slug}", "title": title, "status": status, "detail": detail}
        content = json.dumps(body | {"request_id": (name := secrets.token_hex(8)), "errors": []}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\nX-Request-ID: {name}\r\n"
            f"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
            f"{RETRY if status in LATER else ''}\r\n"
        )
        self.transport.write(head.encode() + content)
        self.transport.close()

    def _set(self, seconds: float, then: Any) -> None:
        self._cancel()
        self._timer = self.loop.call_later(seconds, then)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def check_target(target: bytes, headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Raise ValueError for a request with an ambiguous host, as RFC 9112, section 3.2, requires.

    Such a request has two Host headers, none (in HTTP/1.1), a malformed one, such as a name with userinfo, or
    a target with the absolute URL of another host.
    """
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version != "1.0") or not all(map(HOST.fullmatch, hosts)):
        raise ValueError("no single Host")
    if target.startswith(b"/") or target == b"*":
        return
    absolute = ABSOLUTE.match(target)
    if absolute is None or [absolute[1].lower()] != [host.lower() for host in hosts]:
        raise ValueError("the target names another host")


class Server(uvicorn.Server):
    """Server that ends event streams at shutdown; uvicorn alone would wait for them forever."""

    def __init__(self, config: uvicorn.Config, feed: Feed) -> None:
        super().__init__(config)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then shut down as uvicorn does."""
        self._feed.close()
        await super().shutdown(sockets)


def server(settings: Settings, *, port: int | None = None) -> Server:
    """Make a server of the application with these settings.

    Parameters
    ----------
    port
        Overrides the port of the settings, and the host with loopback.
    """
    app = create_app(settings)
    host, port = (settings.host, settings.port) if port is None else ("127.0.0.1", port)
    return Server(make_config(app, settings, host, port), app.state.feed)


def serve_app(app: ASGIApp, settings: Settings) -> None:
    """Serve another application with the same limits, until a signal."""
    uvicorn.Server(make_config(app, settings, settings.host, settings.port)).run()


def make_config(app: ASGIApp, settings: Settings, host: str, port: int) -> uvicorn.Config:
    """Configure a server of an application with the limits of the settings."""
    limits = {
        "head_seconds": settings.head_seconds,
        "write_seconds": settings.write_seconds,
        "write_rate": settings.body_bytes_per_second,
        "keyless_seconds": settings.keyless_seconds,
        "most": settings.max_connections,
        "most_each": settings.max_connections_per_address,
        "proxies": networks_of(settings.trusted_proxies),
        "addresses": Counter[str](),
    }
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=type("Limited", (Deadlines,), limits),
        ws="none",
        lifespan="on",
        log_config=None,  # configured by `app.logging`
        log_level="warning",
        access_log=False,  # a line per request is written by `app.web.middleware.metrics`
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
