"""What a key must be for: every route says it itself, and is guarded where it is matched.

Nothing here looks at a path, so no spelling of one can meet a route and another route's rule. A route that
says nothing is an error when the application is made.
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

KEY = "bartserve.key"  # where the scope of a request has the `Key` it was let in with
BODY_LIMIT = "bartserve.body_limit"  # and where it has the bytes that its route takes
# Rows to predict: JSON takes up to twenty times its length in memory (a list of empty objects).
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_SETTINGS_BYTES = 4 * 1024 * 1024  # of a fit: names of thousands of columns at most
ANY_UPLOAD = sys.maxsize  # as large as the service's setting lets any body be
ATTRIBUTE = "bartserve_needs"
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class Needs:
    """What a route asks of a request.

    Parameters
    ----------
    any_of
        The scopes of which a key needs one; none: any key in force will do.
    body
        The largest body it takes, in bytes.
    keyless
        It answers without any key.
    """

    any_of: frozenset[str]
    body: int = MAX_JSON_BYTES
    keyless: bool = False

    def check(self, key: Key | None) -> None:
        """Raise UnauthorizedError without a key, ScopeMissingError for one that is for something else."""
        if self.keyless:
            return
        if key is None:
            raise UnauthorizedError("Send a key in force as the header  Authorization: Bearer KEY")
        if not key.may(self.any_of):
            raise ScopeMissingError(
                f"This takes a key with the scope {' or '.join(sorted(self.any_of))}; "
                f"yours has {', '.join(sorted(key.scopes))}."
            )


def needs(*any_of: str, body: int = MAX_JSON_BYTES) -> Callable[[Endpoint], Endpoint]:
    """Declare the scopes of which a key needs one (none: any key will do), and the largest body."""
    return _declare(Needs(frozenset(any_of), body))


def keyless(endpoint: Endpoint) -> Endpoint:
    """Declare a route that answers whoever asks."""
    return _declare(Needs(frozenset(), keyless=True))(endpoint)


def _declare(what: Needs) -> Callable[[Endpoint], Endpoint]:
    def declared(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, ATTRIBUTE, what)
        return endpoint

    return declared


class GuardedRoute(APIRoute):
    """A route that lets in whom its endpoint's declaration lets in, once it has been matched.

    Raises
    ------
    TypeError
        When it is made: its endpoint declares nothing.
    """

    needs: Needs

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        declared = getattr(endpoint, ATTRIBUTE, None)
        if not isinstance(declared, Needs):
            raise TypeError(f"{path}: say with @needs(...) or @keyless who may ask {endpoint.__name__}")
        self.needs = declared
        super().__init__(path, endpoint, **options)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, set the body's limit, then as any route."""
        self.needs.check(scope.get(KEY))
        scope[BODY_LIMIT] = self.needs.body
        await super().handle(scope, receive, send)


def guarded(app: FastAPI) -> Iterator[tuple[str, str, Needs]]:
    """Method, path template and needs of every route but the static files.

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
