"""Who may: on loopback whoever is on this machine, but no web page; anywhere else whoever holds a key."""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import UNREACHABLE, render_error, render_unreachable
from app.api.scopes import scopes_for
from app.services.errors import ForbiddenError, ScopeMissingError, ServiceError, UnauthorizedError
from app.services.keys import LOCAL_KEY, Key

KEY = "bartserve.key"  # where the scope of a request that was let in has its `Key`
OPEN = ("/health/", "/ui/static")  # answer to whoever asks


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Access:
    """ASGI middleware that lets a request in, with the key it came with, or answers 401 or 403.

    It stands before the routes, so that no route can forget it and a stranger can't learn which exist. What
    a key must be for is said by `app.api.scopes`.

    Parameters
    ----------
    app
        What is inside.
    host
        The address the service listens on: loopback asks no key.
    authenticate
        The key in force that a text is, None for any other; may block.
    """

    def __init__(self, app: ASGIApp, *, host: str, authenticate: Callable[[str], Key | None]) -> None:
        self.app = app
        self.loopback = is_loopback(host)
        self.authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # there are none, so nobody has to be let in
            return
        scope["bartserve.asks_keys"] = not self.loopback
        if scope["type"] != "http" or scope["path"].startswith(OPEN):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if self.loopback:
                check_local(headers, scope["scheme"])
                key = LOCAL_KEY
            else:
                key = await self._key_of(headers)
            check_scope(key, scope["method"], scope["path"])
        except ServiceError as error:
            await render_error(scope, error)(scope, receive, send)
            return
        except UNREACHABLE as error:
            await render_unreachable(scope, error)(scope, receive, send)
            return
        scope[KEY] = key
        await self.app(scope, receive, send)

    async def _key_of(self, headers: Headers) -> Key:
        kind, _, presented = headers.get("authorization", "").partition(" ")
        key = None
        if kind.lower() == "bearer":
            key = await to_thread.run_sync(self.authenticate, presented.strip())
        if key is None:
            raise UnauthorizedError(
                "Send a key in force as the header  Authorization: Bearer KEY  "
                "(whoever runs the service makes one with  bartserve keys create)."
            )
        return key


def check_scope(key: Key, method: str, path: str) -> None:
    """Raise ScopeMissingError unless the key may do this."""
    needed = scopes_for(method, path)
    if not key.may(needed):
        raise ScopeMissingError(
            f"This takes a key with the scope {' or '.join(sorted(needed))}; "
            f"yours has {', '.join(sorted(key.scopes))}."
        )


def check_local(headers: Headers, scheme: str) -> None:
    """Keep web pages out: a page elsewhere (Origin), or a name that was pointed at this machine (Host).

    Raises
    ------
    ForbiddenError
        The request comes from a web page of another site.
    """
    host = headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if not is_loopback(name):
        raise ForbiddenError("This service is for its own machine: address it as 127.0.0.1 or localhost.")
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"{scheme}://{host}".lower():
        raise ForbiddenError("This service doesn't answer to web pages of other sites.")
