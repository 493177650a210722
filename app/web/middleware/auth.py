"""Who may: on loopback whoever is on this machine, but no web page; anywhere else whoever holds a key."""

import hmac
import math
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from anyio import to_thread
from anyio.to_thread import current_default_thread_limiter
from limits import RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from app.services.access import sessions
from app.services.access.keys import LOCAL_KEY, Key
from app.services.errors import (
    BusyError,
    ForbiddenError,
    ServiceError,
    TooManyRequestsError,
    UnauthorizedError,
)
from app.services.request_context import Actor, OwnerLimits, acting
from app.settings import is_loopback
from app.web.errors import UNREACHABLE, render_error, render_unreachable, request_id_of
from app.web.scopes import KEY

MAX_WAITING = 40  # requests in line for a thread
RETRY_SECONDS = 2
WINDOW = 10  # seconds over which requests are counted
CSRF = "bartserve.csrf"  # where the scope of a browser's session has what its forms must send
COOKIE = "bartserve_session"
PUBLIC = "bartserve.public_url"  # where the scope has the address that browsers know, when it was set
FOREIGN = "This service doesn't answer to web pages of other sites."
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Asked without a look at any key. It opens nothing by itself: a route that is not `keyless` asks for one.
OPEN = ("/health/", "/ui/static", "/ui/sign-in")


class Access:
    """ASGI middleware that finds out with which key a request comes, or answers 401 or 403.

    It stands before the routes, so that a stranger can't learn which exist. What a key must be for is
    asked by the route that the request meets (`app.web.scopes`).

    Parameters
    ----------
    app
        What is inside.
    host
        The address the service listens on: loopback asks no key.
    authenticate
        The key in force that a text is, None for any other; may block.
    recall
        The key of a browser session's token, None for any other; may block.
    limits
        What one owner may have at once.
    per_second
        Requests one owner may send, over `WINDOW` seconds; None: any number.
    public_url
        Where browsers reach the service, when a proxy stands before it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        authenticate: Callable[[str], Key | None],
        recall: Callable[[str], Key | None],
        limits: OwnerLimits,
        per_second: int | None,
        public_url: str | None = None,
    ) -> None:
        self.app = app
        self.loopback = is_loopback(host)
        self.authenticate = authenticate
        self.recall = recall
        self.limits = limits
        self.public_url = public_url
        self.rate = None if per_second is None else Rate(per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # there are none, so nobody has to be let in
            return
        scope["bartserve.asks_keys"] = not self.loopback
        scope[PUBLIC] = self.public_url
        if scope["type"] != "http" or scope["path"].startswith(OPEN):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            check_line()
            if self.loopback:
                check_local(headers, scope)
                key, in_force = LOCAL_KEY, _always
            else:
                key, in_force = await self._key_of(headers, scope)
            scope[KEY] = key
            if self.rate is not None:
                await self.rate.count(key.owner)
        except ServiceError as error:
            await render_error(scope, await self._counted(scope, error))(scope, receive, send)
            return
        except UNREACHABLE as error:
            await render_unreachable(scope, error)(scope, receive, send)
            return
        with acting(Actor(key.id, key.owner, request_id_of(scope), self.limits, in_force)):
            await self.app(scope, receive, send)

    async def _counted(self, scope: Scope, error: ServiceError) -> ServiceError:
        """The refusal of a request without a key in force; another one when its address sends too many."""
        if self.rate is None or not isinstance(error, UnauthorizedError):
            return error
        try:
            await self.rate.count(f"\n{(scope.get('client') or ('',))[0]}")  # no owner has such a name
        except TooManyRequestsError as too_many:
            return too_many
        return error

    async def _key_of(self, headers: Headers, scope: Scope) -> tuple[Key, Callable[[], bool]]:
        """The key of a request, and what asks later whether it, or its browser's session, is in force."""
        kind, _, presented = headers.get("authorization", "").partition(" ")
        key, ask = None, partial(self.authenticate, presented.strip())
        if kind.lower() == "bearer":
            key = await to_thread.run_sync(ask)
        elif not kind and (token := token_of(headers, scope)):
            ask = partial(self.recall, token)
            key = await to_thread.run_sync(ask)
            if key is not None:
                scope[CSRF] = sessions.csrf(token)
                check_own(headers, scope)
        if key is None:
            raise UnauthorizedError(
                "Send a key in force as the header  Authorization: Bearer KEY  "
                "(whoever runs the service makes one with  bartserve keys create)."
            )
        return key, lambda: ask() is not None


def _always() -> bool:
    return True


def cookie_of(scope: Scope) -> str:
    """The name of a session's cookie: where all is TLS one that no other host, and no plain page, can set."""
    return f"__Host-{COOKIE}" if (scope[PUBLIC] or "").startswith("https:") else COOKIE


def token_of(headers: Headers, scope: Scope) -> str:
    """The session's token that a browser sent; empty when it sent none."""
    return cookie_parser(headers.get("cookie", "")).get(cookie_of(scope), "")


def check_own(headers: Headers, scope: Scope) -> None:
    """Of a browser's session: what changes something must come from our own pages, and say so.

    Forms say it by a field, which their route checks (`app.dashboard.forms.fields`); any other request by a
    header.

    Raises
    ------
    ForbiddenError
        Another site sent it, or nobody who knows the session.
    """
    check_sender(headers, scope)
    if scope["method"] in SAFE or scope["path"].startswith("/ui/"):
        return
    if not hmac.compare_digest(headers.get("x-csrf-token", "").encode(), scope[CSRF].encode()):
        raise ForbiddenError("A browser's session sends X-CSRF-Token: load the page again, then try again.")


def check_sender(headers: Headers, scope: Scope) -> None:
    """Raise ForbiddenError for what a page of another site sent, as far as a browser tells."""
    origin = headers.get("origin", "").lower()
    host = origin.partition("://")[2]
    if "origin" in headers and origin != scope[PUBLIC] and host != headers.get("host", "").lower():
        raise ForbiddenError(FOREIGN)
    check_site(headers)


def check_site(headers: Headers) -> None:
    """Raise ForbiddenError for what a browser says that another site asked for."""
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise ForbiddenError(FOREIGN)


def check_line() -> None:
    """Raise BusyError while so many requests wait for a thread that another one would wait for long.

    Measured without: at five times the rate that the service can answer, answers came after 37 s.
    """
    if current_default_thread_limiter().statistics().tasks_waiting >= MAX_WAITING:
        raise BusyError("Too much is asked for at once; try again.", retry_after=RETRY_SECONDS)


class Rate:
    """How often each owner may ask this process."""

    def __init__(self, per_second: int) -> None:
        self._item = RateLimitItemPerSecond(per_second * WINDOW, WINDOW)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    async def count(self, owner: str) -> None:
        """One more request; raises TooManyRequestsError when it is one too many."""
        if not await self._limiter.hit(self._item, owner):
            window = await self._limiter.get_window_stats(self._item, owner)
            raise TooManyRequestsError(
                f"You may send {self._item.amount} requests in {WINDOW} seconds.",
                retry_after=max(1, math.ceil(window.reset_time - time.time())),
            )


def check_local(headers: Headers, scope: Scope) -> None:
    """Keep web pages out: a page elsewhere (Origin), or a name that was pointed at this machine (Host).

    A link on another page (a notebook's) may lead here: a person sees where it does.

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
    if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
        raise ForbiddenError(FOREIGN)
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if not (followed and scope["method"] == "GET"):
        check_site(headers)
