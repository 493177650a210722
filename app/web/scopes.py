"""Authorization: every route declares the scopes it needs, and is guarded where it is matched.

Nothing here inspects a path, so no spelling of a path can combine one route with the rule of another. A route
without a declaration is an error when the application is created.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from app.services.access.keys import Key
from app.services.errors import ScopeMissingError, UnauthorizedError

KEY = "bartserve.key"  # in the ASGI scope: the request's `Key`
BODY_LIMIT = "bartserve.body_limit"  # in the ASGI scope: the route's limit in bytes
# For rows to predict: JSON takes up to twenty times its length in memory (a list of empty objects).
MAX_JSON_BYTES = 16 * 1024 * 1024
KEYLESS_BYTES = 1024  # before a key is known: a form with one has a hundred
MAX_SETTINGS_BYTES = 4 * 1024 * 1024  # for a fit, with the names of thousands of columns
ANY_UPLOAD = sys.maxsize  # limited only by the service's setting
ATTRIBUTE = "bartserve_needs"
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


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
    """

    any_of: frozenset[str]
    body: int = MAX_JSON_BYTES
    keyless: bool = False

    def check(self, key: Key | None) -> None:
        """Raise UnauthorizedError without a key, ScopeMissingError for a key without a required scope."""
        if self.keyless:
            return
        if key is None:
            raise UnauthorizedError("Send a valid key in the header  Authorization: Bearer KEY")
        if not key.may(self.any_of):
            raise ScopeMissingError(
                f"This requires a key with the scope {' or '.join(sorted(self.any_of))}; "
                f"yours has {', '.join(sorted(key.scopes))}."
            )


def needs(*any_of: str, body: int = MAX_JSON_BYTES) -> Callable[[Endpoint], Endpoint]:
    """Declare the scopes of which a key needs one (none: any key suffices), and the largest body."""
    return _declare(Needs(frozenset(any_of), body))


def keyless(endpoint: Endpoint) -> Endpoint:
    """Declare a route that needs no key."""
    return _declare(Needs(frozenset(), keyless=True))(endpoint)


def _declare(needed: Needs) -> Callable[[Endpoint], Endpoint]:
    def declared(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, ATTRIBUTE, needed)
        return endpoint

    return declared


class GuardedRoute(APIRoute):
    """Route that admits requests according to its endpoint's declaration, once it is matched.

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

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, set the body limit, then handle the request as usual."""
        self.needs.check(scope.get(KEY))
        scope[BODY_LIMIT] = self.needs.body
        await super().handle(scope, receive, send)


def list_needs(app: FastAPI) -> Iterator[tuple[str, str, Needs]]:
    """Yield method, path template and needs of every route except the static files.

    Raises
    ------
    TypeError
        A route has no guard.
    """
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, Mount):
            continue  # the pages' static files
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{context.path} is not guarded: give its router route_class=GuardedRoute")
        for method in context.methods or ():
            yield method, str(context.path), route.needs
