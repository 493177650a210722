"""Authentication.

On loopback any local client is trusted except pages of other sites (Host and Origin are checked); elsewhere
an API key is required, or a token of the team's own sign-in.
"""

import hmac
import math
import secrets
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from anyio import to_thread
from anyio.to_thread import current_default_thread_limiter
from limits import RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.services.access import sessions
from app.services.access.keys import LOCAL_KEY, Key
from app.services.access.tokens import Tokens, is_token
from app.services.errors import (
    BusyError,
    ForbiddenError,
    ServiceError,
    TooManyRequestsError,
    UnauthorizedError,
)
from app.services.request_context import Actor, OwnerLimits, acting
from app.settings import is_loopback
from app.web.addresses import counted_as
from app.web.errors import UNREACHABLE, render_error, render_unreachable, request_id_of
from app.web.middleware.concurrency import SharedPlaces
from app.web.scopes import KEY

ASKED = 4  # keys looked up at once
MAX_WAITING = 40  # requests waiting for a thread
RETRY_SECONDS = 2
WINDOW = 10  # seconds over which requests are counted
SIGNED_IN = "bartserve.signed_in"  # in the ASGI scope: whether a proxy has signed the browser in
NEW_COOKIE = "bartserve.new_cookie"  # in the ASGI scope: a cookie to set
CSRF = "bartserve.csrf"  # in the ASGI scope: the CSRF token of a browser session
COOKIE = "bartserve_session"
PUBLIC = "bartserve.public_url"  # in the ASGI scope: the public URL, if set
FOREIGN = "This service refuses requests from web pages of other sites."
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Paths that skip authentication. This grants nothing: a route that is not `keyless` still requires a key.
OPEN = ("/health/", "/v2/health/", "/ui/static", "/ui/sign-in")


class Access:
    """ASGI middleware that determines the key of a request, or responds with 401 or 403.

    It precedes routing, so that a client without a key can't learn which routes exist. The matched route
    checks the key's scopes (`app.web.scopes`).

    Parameters
    ----------
    app
        The inner application.
    host
        The address the service listens on: on loopback no key is required.
    authenticate
        Returns the valid key for a text, else None; may block.
    recall
        Returns the key for a browser session's token, else None; may block.
    limits
        Quotas per owner.
    per_second
        Requests per second and owner, averaged over `WINDOW` seconds; None: unlimited.
    public_url
        The URL at which browsers reach the service through a proxy.
    tokens
        Checks tokens of the team's own sign-in, if there is one.
    token_header
        The header in which a proxy hands on a signed-in browser's token.
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
        tokens: Tokens | None = None,
        token_header: str | None = None,
    ) -> None:
        self.app = app
        self.loopback = is_loopback(host)
        self.authenticate = authenticate
        self.recall = recall
        self.limits = limits
        self.public_url = public_url
        self.rate = None if per_second is None else Rate(per_second)
        self.asking = SharedPlaces(ASKED, ASKED - 1)
        self.tokens = tokens
        self.token_header = token_header
        # Places of their own: tokens may wait for the provider, and keys don't wait for tokens.
        self.checking = SharedPlaces(ASKED, ASKED - 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})  # the service has no WebSockets
            return
        scope["bartserve.asks_keys"] = not self.loopback
        scope[PUBLIC], scope[SIGNED_IN] = self.public_url, False
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
            await self.app(scope, receive, _with_cookie(scope, send) if NEW_COOKIE in scope else send)

    async def _asked(self, ask: Callable[[], Key | None], scope: Scope, places: SharedPlaces) -> Key | None:
        """Look a key up in a thread, of which one address never takes all."""
        async with places.place(_address(scope)):
            return await to_thread.run_sync(ask)

    async def _counted(self, scope: Scope, error: ServiceError) -> ServiceError:
        """Count a request without a valid key by address; return its error, or one for too many."""
        if self.rate is None or not isinstance(error, UnauthorizedError):
            return error
        try:
            await self.rate.count(_address(scope))
        except TooManyRequestsError as too_many:
            return too_many
        return error

    async def _key_of(self, headers: Headers, scope: Scope) -> tuple[Key, Callable[[], bool]]:
        """Return the key of a request, and a function that checks its validity again later."""
        kind, _, presented = headers.get("authorization", "").partition(" ")
        presented = presented.strip()
        key, ask = None, partial(self.authenticate, presented)
        handed = headers.get(self.token_header, "") if self.token_header and not kind else ""
        if self.tokens is not None and (handed or (kind.lower() == "bearer" and is_token(presented))):
            return await self._key_of_token(self.tokens, handed, presented, headers, scope)
        if kind.lower() == "bearer":
            key = await self._asked(ask, scope, self.asking)
        elif not kind and (token := token_of(headers, scope)):
            ask = partial(self.recall, token)
            key = await self._asked(ask, scope, self.asking)
            if key is not None:
                scope[CSRF] = sessions.csrf(token)
                check_own(headers, scope)
        if key is None:
            raise UnauthorizedError(
                "Send a valid key in the header  Authorization: Bearer KEY  "
                "(the operator of the service creates one with  bartserve keys create)."
            )
        return key, lambda: ask() is not None

    async def _key_of_token(
        self, tokens: Tokens, handed: str, presented: str, headers: Headers, scope: Scope
    ) -> tuple[Key, Callable[[], bool]]:
        """Return the key of a token that the client presents, or that a proxy has handed on for a browser.

        A browser sends what proves a form to be ours by a cookie, whose value gives access to nothing. It is
        not only for a handed token that a page of another site may be the sender: some proxies set
        Authorization.
        """
        ask = partial(tokens.authenticate, handed.removeprefix("Bearer ").strip() or presented)
        key = await self._asked(ask, scope, self.checking)
        assert key is not None
        if handed:
            scope[SIGNED_IN] = True
            cookie = token_of(headers, scope)
            if not cookie:
                cookie = scope[NEW_COOKIE] = secrets.token_urlsafe(32)
            scope[CSRF] = sessions.csrf(cookie)
            check_own(headers, scope)
        else:
            check_sender(headers, scope)
        return key, partial(_is_in_force, ask)


def _is_in_force(ask: Callable[[], Key]) -> bool:
    try:
        ask()
    except UnauthorizedError:
        return False
    except ServiceError:  # the provider doesn't respond: what was admitted goes on
        return True
    return True


def _with_cookie(scope: Scope, send: Send) -> Send:
    """Add the new cookie of a browser to its response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            secure = "; Secure" if (scope[PUBLIC] or "").startswith("https:") else ""
            cookie = f"{cookie_of(scope)}={scope[NEW_COOKIE]}; Path=/; HttpOnly; SameSite=Strict{secure}"
            MutableHeaders(scope=message).append("set-cookie", cookie)
        await send(message)

    return sending


def _address(scope: Scope) -> str:
    """Return as whom a client without a key is counted, which is no owner's name."""
    return f"\n{counted_as((scope.get('client') or ('',))[0])}"


def _always() -> bool:
    return True


def cookie_of(scope: Scope) -> str:
    """Return the name of the session cookie; with TLS, one that no other host or plain page can set."""
    return f"__Host-{COOKIE}" if (scope[PUBLIC] or "").startswith("https:") else COOKIE


def token_of(headers: Headers, scope: Scope) -> str:
    """Return the session token sent by a browser; empty if there is none."""
    return cookie_parser(headers.get("cookie", "")).get(cookie_of(scope), "")


def check_own(headers: Headers, scope: Scope) -> None:
    """Check that a change requested in a browser session comes from our own pages.

    Forms prove it by a field, which their route checks (`app.dashboard.forms.fields`); other requests by a
    header.

    Raises
    ------
    ForbiddenError
        The request comes from another site, or lacks the CSRF token.
    """
    check_sender(headers, scope)
    if scope["method"] in SAFE or scope["path"].startswith("/ui/"):
        return
    if not hmac.compare_digest(headers.get("x-csrf-token", "").encode(), scope[CSRF].encode()):
        raise ForbiddenError("The X-CSRF-Token of the browser session is missing or wrong: reload the page.")


def check_sender(headers: Headers, scope: Scope) -> None:
    """Raise ForbiddenError for a request from another site's page, as far as the browser reveals it."""
    origin = headers.get("origin", "").lower()
    host = origin.partition("://")[2]
    if "origin" in headers and origin != scope[PUBLIC] and host != headers.get("host", "").lower():
        raise ForbiddenError(FOREIGN)
    check_site(headers)


def check_site(headers: Headers) -> None:
    """Raise ForbiddenError if the browser marks the request as initiated by another site."""
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise ForbiddenError(FOREIGN)


def check_line() -> None:
    """Raise BusyError when too many requests wait for a thread.

    Measured without this check: at five times the sustainable rate, responses came after 37 s.
    """
    if current_default_thread_limiter().statistics().tasks_waiting >= MAX_WAITING:
        raise BusyError("There are too many requests at once; try again.", retry_after=RETRY_SECONDS)


class Rate:
    """Rate limit per owner in this process."""

    def __init__(self, per_second: int) -> None:
        self._item = RateLimitItemPerSecond(per_second * WINDOW, WINDOW)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    async def count(self, owner: str) -> None:
        """Count one more request; raises TooManyRequestsError beyond the limit."""
        if not await self._limiter.hit(self._item, owner):
            window = await self._limiter.get_window_stats(self._item, owner)
            raise TooManyRequestsError(
                f"The limit is {self._item.amount} requests in {WINDOW} seconds.",
                retry_after=max(1, math.ceil(window.reset_time - time.time())),
            )


def check_local(headers: Headers, scope: Scope) -> None:
    """Refuse web pages of other origins (Origin), and other host names that resolve to this machine (Host).

    A link on another page (such as a notebook) may lead here, because the user sees where it goes.

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
        raise ForbiddenError(
            "This service is only for its own machine: address it as 127.0.0.1 or localhost."
        )
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
        raise ForbiddenError(FOREIGN)
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if not (followed and scope["method"] == "GET"):
        check_site(headers)
