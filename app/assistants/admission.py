"""Admission of requests to the tools over HTTP: those with a known key, each key's few at once.

The SDK's server has none of this: anyone could send it bodies that never end, and one key hold every thread.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY = "bartserve.key"  # in the ASGI scope, by which `app.server` tells known clients
BODY_BYTES = 4 * 1024 * 1024  # a table given as text
BODY_SECONDS = 10.0
MOST_AT_ONCE = 4  # calls of one key; threads are forty
LATER = {"Retry-After": "2"}


class Admission:
    """An application behind a check of each request's key, its share and its body.

    Parameters
    ----------
    app
        The tools.
    url
        The service, which is asked whether it knows the key.
    """

    def __init__(self, app: ASGIApp, url: str) -> None:
        self.app = app
        self._url = url
        self._open: Counter[str] = Counter()  # calls by key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it."""
        if scope["type"] != "http":
            async with httpx.AsyncClient(base_url=self._url, timeout=10.0, trust_env=False) as self._asking:
                await self.app(scope, receive, send)
            return
        if scope["method"] != "POST":  # there are no streams to open, and no sessions to end
            await _refusal(405, "POST to this address.", {"Allow": "POST"})(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        key = headers.get(b"authorization", "")
        if self._open[key] >= MOST_AT_ONCE:
            await _refusal(429, f"One key has {MOST_AT_ONCE} calls at once.", LATER)(scope, receive, send)
            return
        self._open[key] += 1  # before anything is awaited, so that no others come between
        try:
            if (refused := await self._judged(key)) is not None:
                await refused(scope, receive, send)
                return
            scope[KEY] = key  # known, for the deadlines of the server
            body = await _body(receive)
            if isinstance(body, bytes):
                await self.app(scope, _replayed(body, receive), send)
            else:
                await body(scope, receive, send)
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    async def _judged(self, key: str) -> PlainTextResponse | None:
        """Return a refusal of a key that the service doesn't know."""
        try:
            headers = {"Authorization": key} if key else {}
            status = (await self._asking.get("/models", params={"limit": 1}, headers=headers)).status_code
        except UnicodeEncodeError:
            status = HTTPStatus.UNAUTHORIZED
        except httpx.HTTPError:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        if status == HTTPStatus.UNAUTHORIZED:
            bearer = {"WWW-Authenticate": "Bearer"}
            return _refusal(401, "Send an API key: Authorization: Bearer KEY.", bearer)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            return _refusal(status, "The service asks to try again later.", LATER)
        return None


async def _body(receive: Receive) -> bytes | PlainTextResponse:
    parts, more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                parts += message.get("body", b"")
                more = message.get("more_body", False)
                if len(parts) > BODY_BYTES:
                    return _refusal(413, f"A body has at most {BODY_BYTES >> 20} MiB.")
    except TimeoutError:
        return _refusal(408, "The body arrived too slowly.")
    return bytes(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    ahead: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return ahead.pop() if ahead else await receive()

    return received


def _refusal(status: int, text: str, headers: Mapping[str, str] | None = None) -> PlainTextResponse:
    return PlainTextResponse(text, status, {"Connection": "close", **(headers or {})})
