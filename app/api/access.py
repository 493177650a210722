"""Who may: on loopback whoever is on this machine, but no web page; anywhere else whoever holds a key."""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import UNREACHABLE, render_error, render_unreachable
from app.services.errors import ForbiddenError, ServiceError, UnauthorizedError

LOCAL_OWNER = "local"  # owns what is made without a key
OPEN = "/health/"  # answers to whoever asks


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Access:
    """ASGI middleware that lets a request in, with the owner it acts for, or answers 401 or 403.

    It stands before the routes, so that no route can forget it and a stranger can't learn which exist.

    Parameters
    ----------
    app
        What is inside.
    host
        The address the service listens on: loopback asks no key.
    authenticate
        The owner of a key in force, None for any other text; may block.
    """

    def __init__(self, app: ASGIApp, *, host: str, authenticate: Callable[[str], str | None]) -> None:
        self.app = app
        self.loopback = is_loopback(host)
        self.authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # there are none, so nobody has to be let in
            return
        if scope["type"] != "http" or scope["path"].startswith(OPEN):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if self.loopback:
                check_local(headers, scope["scheme"])
                scope["bartserve.owner"] = LOCAL_OWNER
            else:
                scope["bartserve.owner"] = await self._owner_of_key(headers)
        except ServiceError as error:
            await render_error(scope, error)(scope, receive, send)
            return
        except UNREACHABLE as error:
            await render_unreachable(scope, error)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def _owner_of_key(self, headers: Headers) -> str:
        kind, _, key = headers.get("authorization", "").partition(" ")
        owner = None
        if kind.lower() == "bearer":
            owner = await to_thread.run_sync(self.authenticate, key.strip())
        if owner is None:
            raise UnauthorizedError(
                "Send a key in force as the header  Authorization: Bearer KEY  "
                "(whoever runs the service makes one with  bartserve keys create)."
            )
        return owner


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
