"""Middleware that counts and logs requests."""

import logging
import re
import time
from collections.abc import Sequence
from functools import lru_cache

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.services import metrics
from app.services.metrics import NO_ROUTE
from app.web.errors import PROBLEM, request_id_of

QUIET = ("/health/", "/metrics")  # polled every few seconds by machines: logged only on failure
UNAUTHORIZED = 401
ID = re.compile(r"[a-z]{2,4}_[0-9a-f]{20}")
log = logging.getLogger("app.api.requests")


class Measured:
    """Outermost ASGI middleware: counts every response and logs a line."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 499  # the status that proxies log for an early disconnect

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_see)
        finally:
            _record(scope, status, time.perf_counter() - began)


@lru_cache(maxsize=4)
def _templates(app: FastAPI) -> Sequence[tuple[re.Pattern[str], frozenset[str], str]]:
    return [
        (compile_path(str(each.path))[0], frozenset(each.methods or ()), str(each.path))
        for each in iter_route_contexts(app.routes)
    ]


def _refused(scope: Scope) -> str:
    """Return the template of a route that was refused before routing, for want of a key."""
    path, method = scope["path"], scope["method"]
    found = (
        name for form, methods, name in _templates(scope["app"]) if method in methods and form.match(path)
    )
    return next(found, NO_ROUTE)


def _record(scope: Scope, status: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", None) or (
        _refused(scope) if status == UNAUTHORIZED else NO_ROUTE
    )
    method = scope["method"]
    label = method if route != NO_ROUTE else "(any)"  # bounded, whoever sends what without a key
    metrics.requests.labels(route, label, str(status)).inc()
    metrics.request_seconds.labels(route, label).observe(seconds)
    problem = scope.get(PROBLEM)
    if problem is not None and scope["method"] == "POST":
        if route in {"/datasets", "/ui/datasets"}:
            metrics.upload_rejected.labels(problem).inc()
        elif route.endswith("/predict"):
            metrics.predict_rejected.labels(problem).inc()
    quiet = route.startswith(QUIET) and status < 500
    # The template, not the path, which may contain a model's name.
    ids = {
        name: value for name, value in (scope.get("path_params") or {}).items() if ID.fullmatch(str(value))
    }
    facts = {
        "event": "request",
        "request_id": request_id_of(scope),
        "trace_id": scope.get("bartserve.trace_id"),
        "method": method,
        "route": route,
        "status": status,
        "duration_ms": round(1000 * seconds, 1),
        "problem": problem,
    }
    log.log(logging.DEBUG if quiet else logging.INFO, "%s %s %d", method, route, status, extra=facts | ids)
