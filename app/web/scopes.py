"""Authorization: every route declares the scopes it needs, and is guarded where it is matched.

Nothing here inspects a path, so no spelling of a path can combine one route with the rule of another. A route
without a declaration is an error when the application is created.
"""

import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isroutine
from typing import Any, ParamSpec, TypeVar

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute, Mount
from starlette.types import Receive, Scope, Send

from app.services.access.keys import READ, Key
from app.services.errors import ScopeMissingError, UnauthorizedError
from app.web.addresses import counted_as
from app.web.middleware.concurrency import while_wanted
from sampler.host.data import interrupt

KEY = "bartserve.key"  # in the ASGI scope: the request's `Key`
BODY_LIMIT = "bartserve.body_limit"  # in the ASGI scope: the route's limit in bytes
MAX_JSON_BYTES = 16 * 1024 * 1024  # for rows to predict
KEYLESS_BYTES = 1024  # before a key is known: a form with one has a hundred
MAX_SETTINGS_BYTES = 4 * 1024 * 1024  # for all else: a fit has the names of thousands of columns
ANY_UPLOAD = sys.maxsize  # limited only by the service's setting
ATTRIBUTE = "bartserve_needs"
PLACE = "bartserve_place"
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")
_place: ContextVar[Callable[[], AbstractAsyncContextManager[None]]] = ContextVar("place")
_receive: ContextVar[Receive] = ContextVar("receive")


@dataclass(frozen=True)
class Needs:
    """Requirements of a route.

    Parameters
    ----------
    any_of
        The scopes of which a key needs one; empty: any valid key suffices.
    body
        The largest body in bytes.
    keyless
        Whether the route needs no key.
    of_kept_rows
        Whether the answer shows figures of rows that the service keeps (`check_sees_kept_rows`).
    """

    any_of: frozenset[str]
    body: int = MAX_SETTINGS_BYTES
    keyless: bool = False
    of_kept_rows: bool = False

    @property
    def is_upload(self) -> bool:
        """Whether the route takes files, which may take minutes to read."""
        return self.body == ANY_UPLOAD

    def check(self, key: Key | None) -> None:
        """Raise UnauthorizedError without a key, ScopeMissingError for a key without a required scope."""
        if self.keyless:
            return
        if key is None:
            raise UnauthorizedError("Send a valid key in the header  Authorization: Bearer KEY")
        if not key.may(self.any_of):
            raise ScopeMissingError(
                f"This requires a key with the scope {' or '.join(sorted(self.any_of))}; "
                f"yours has {', '.join(sorted(key.scopes)) or 'none'}."
            )
        if self.of_kept_rows:
            check_sees_kept_rows(key)


def check_sees_kept_rows(key: Key) -> None:
    """Raise ScopeMissingError for a key that may predict, but not see rows that the service keeps."""
    if not key.may({READ}):
        raise ScopeMissingError(
            "Without rows this is about the model's own, and requires a key with the scope read too: use "
            "such a key, or send rows."
        )


def needs(
    *any_of: str, body: int = MAX_SETTINGS_BYTES, of_kept_rows: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Declare what `Needs` has: the scopes of which a key needs one (none: any key suffices), and more."""
    return _declare(Needs(frozenset(any_of), body, of_kept_rows=of_kept_rows))


def keyless(endpoint: Endpoint) -> Endpoint:
    """Declare a route that needs no key."""
    return _declare(Needs(frozenset(), keyless=True))(endpoint)


def _declare(needed: Needs) -> Callable[[Endpoint], Endpoint]:
    def declared(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, ATTRIBUTE, needed)
        return endpoint

    return declared


def place() -> AbstractAsyncContextManager[None]:
    """Return the request's place among those of all owners, for work in a thread or in a transaction."""
    return _place.get()()


async def in_thread(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Run work in a thread, in the request's place."""
    async with place():
        return await run_in_threadpool(work, *args, **options)


def holds_place(dependency: Endpoint) -> Endpoint:
    """Declare a dependency that takes the request's place for as long as the endpoint runs."""
    setattr(dependency, PLACE, True)
    return dependency


def _in_place(endpoint: Callable[..., Any], needs: Needs) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(endpoint)
    async def run(**values: Any) -> Any:
        if not needs.is_upload:
            return await in_thread(endpoint, **values)
        with interrupt.by(flag := interrupt.StopFlag()):  # a file isn't read for a client that has gone
            return await while_wanted(partial(in_thread, endpoint, **values), flag, _receive.get())

    return run


def _is_placed(dependant: Dependant) -> bool:
    return getattr(dependant.call, PLACE, False) or any(map(_is_placed, dependant.dependencies))


class GuardedRoute(APIRoute):
    """Route that admits requests according to its endpoint's declaration, once it is matched.

    What leaves the event loop takes a place among those that owners share, whichever route it is.

    Raises
    ------
    TypeError
        At creation, if the endpoint declares nothing.
    """

    needs: Needs

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        declared = getattr(endpoint, ATTRIBUTE, None)
        if not isinstance(declared, Needs):
            raise TypeError(f"{path}: declare {endpoint.__name__} with @needs(...) or @keyless")
        self.needs = declared
        super().__init__(path, endpoint, **options)

    @property
    def takes_place(self) -> bool:
        """Whether all that the route runs in threads of the whole process has a place."""
        return _is_placed(self.dependant) or not _leaves_the_loop(self.dependant)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, whose endpoint takes a place unless a dependency has it."""
        if self.dependant.call is not None and not self.takes_place:
            self.dependant = replace(self.dependant, call=_in_place(self.dependant.call, self.needs))
        return super().get_route_handler()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, set the body limit, then handle the request as usual."""
        key: Key | None = scope.get(KEY)
        self.needs.check(key)
        scope[BODY_LIMIT] = self.needs.body
        who = key.owner if key else f"\n{counted_as((scope.get('client') or ('',))[0])}"  # no owner's name
        state = scope["app"].state
        places = state.uploads if self.needs.is_upload else state.places
        before, received = _place.set(partial(places.place, who)), _receive.set(receive)
        try:
            await super().handle(scope, receive, send)
        finally:
            _place.reset(before)
            _receive.reset(received)


def _leaves_the_loop(dependant: Dependant) -> bool:
    """Tell whether an endpoint or a dependency of it runs in a thread."""
    call = dependant.call
    threaded = isroutine(call) and not (iscoroutinefunction(call) or isasyncgenfunction(call))
    return threaded or any(map(_leaves_the_loop, dependant.dependencies))


def list_needs(routes: Sequence[BaseRoute]) -> Iterator[tuple[str, str, Needs]]:
    """Yield method, path template and needs of every route except the static files.

    Raises
    ------
    TypeError
        A route has no guard.
    """
    for context in iter_route_contexts(routes):
        route = context.original_route
        if isinstance(route, Mount):
            continue  # the pages' static files
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{context.path} is not guarded: give its router route_class=GuardedRoute")
        for method in context.methods or ():
            yield method, str(context.path), route.needs
