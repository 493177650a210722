"""Errors as RFC 9457 problem documents: one format, rendered in one place."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from app.services import errors
from app.services.errors import SHOWN, Fault, ServiceError
from app.store.errors import UnstorableTextError, is_disk_full, is_storable
from app.web.known_fields import known_fields, no_such_field
from app.web.scopes import in_thread

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
FULL_RETRY_SECONDS = 60
UNSTORABLE_TEXT = "text must not contain a NUL or half a surrogate pair"
INFERENCE = "/v2/"  # paths of the Open Inference Protocol
PROBLEM = "bartserve.problem"  # key in the scope for the problem type of a refused request
UNREACHABLE = (OperationalError, InterfaceError, PoolTimeoutError)  # errors of an unreachable database
OUTER = frozenset({"body", "query", "path", "header"})  # first steps of a path into a request
BRANCHES = ("list[", "dict[", "constrained-", "kind-", "function-")  # how the names of union branches begin
PLAIN_BRANCHES = frozenset({"str", "int", "float", "bool"})
NO_OBJECT = {  # findings about a whole body, by pydantic's types
    "missing": "the request has no body: send a JSON object, {} where nothing is to be said",
    "model_attributes_type": "the body must be a JSON object",
}
DATA = frozenset({"rows", "columns"})  # fields with data, which may have any names inside
log = logging.getLogger(__name__)
# (scope, document, headers) -> a page for browsers; None for other clients.
ProblemPage = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, str]], Response | None]


class Problem(BaseModel):
    """A problem document, the body of every error (RFC 9457)."""

    class Entry(BaseModel):
        """One fault and its place."""

        column: str | None = Field(description="A column of the data, or a field of the request.")
        row: int | None = Field(description="The data row, counted from 1; a CSV header doesn't count.")
        detail: str = Field(description="The fault and its remedy.")
        code: str | None = Field(
            None,
            description="The kind of fault, for programs, if a setting or a verdict is at fault: `unknown`, "
            "`not_accepted`, `out_of_range`, `too_large`, `not_applicable`, `contradiction`; "
            "`rows_disagree`, `sigma_disagrees`, `likelihood_disagrees`, `reproducible` (why a verdict is no "
            "worse), `one_chain`, `evidence_disagrees`, `chains_apart`, "
            "`too_few_draws`.",
        )

    type: str = Field(description="A stable relative URI that identifies the kind of problem.")
    title: str = Field(description="A short name of the kind of problem; constant for each type.")
    status: int = Field(description="The HTTP status code.")
    detail: str = Field(description="An explanation of this occurrence, and what to do.")
    request_id: str = Field(description="The id in the X-Request-ID header and in the logs.")
    errors: list[Entry] = Field(description="The faults, if the data or the request are at fault.")
    error: str | None = Field(
        None, description="Under /v2 the `detail`, which clients of that protocol read; absent elsewhere."
    )


# Errors of HTTP itself, which no service raises: status -> (type, title, detail)
PLAIN = {
    400: ("bad-request", "Bad request", "The request is not valid HTTP."),
    404: (
        "not-found",
        "Not found",
        "There is no resource at this URL; GET /openapi.json lists all.",
    ),
    405: (
        "method-not-allowed",
        "Method not allowed",
        "The Allow header lists the methods of this URL.",
    ),
    408: (
        "too-slow",
        "Request timeout",
        "The request arrived too slowly; send it again, faster.",
    ),
    413: ("too-large", "Too large", "Send less at once."),
    415: ("unsupported-media-type", "Unsupported media type", "Send another content type."),
    429: (
        "too-many-requests",
        "Too many requests",
        "There are too many connections from your address; try again.",
    ),
    431: ("headers-too-large", "Request headers too large", "Send at most 64 KiB in 200 headers."),
    500: (
        "internal-error",
        "Internal server error",
        "The error was logged under this request's id; a retry may succeed later.",
    ),
    503: ("busy", "Service busy", "There are too many connections; try again."),
}


PHRASES = {422: "Unprocessable Entity"}  # as documented on every Python: 3.13 has renamed it


def titles() -> dict[str, str]:
    """Return the title of every problem type."""
    by_slug = {slug: title for slug, title, _ in PLAIN.values()}
    left = [ServiceError]
    while left:
        kind = left.pop()
        by_slug[kind.slug] = kind.title
        left += kind.__subclasses__()
    return by_slug


def check_storable(fields: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidRequestError for fields whose name or text no database stores, by name."""
    names = [name for name, text in fields if not is_storable(name + text)]
    if names:
        raise errors.InvalidRequestError(errors=[Fault(name, None, UNSTORABLE_TEXT) for name in names])


def request_id_of(scope: Mapping[str, Any]) -> str:
    """Return the id that the outermost middleware gave to the request."""
    return str(scope.get("bartserve.request_id", ""))


def render(
    scope: Mapping[str, Any],
    status: int,
    slug: str,
    title: str,
    detail: str,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Render a problem document, as a page for a browser that shows pages."""
    body = {
        "type": f"/problems/{slug}",
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": request_id_of(scope),
        "errors": [fault.to_json() for fault in faults],
    }
    if f"{scope.get('path', '')}/".startswith(INFERENCE):
        body["error"] = detail
    if isinstance(scope, MutableMapping):
        scope[PROBLEM] = slug
    page = getattr(getattr(scope.get("app"), "state", None), "problem_page", None)
    if page is not None:
        rendered: Response | None = page(scope, body, dict(headers or {}))
        if rendered is not None:
            return rendered
    # ASCII only: a name with half a surrogate pair must not break the error response.
    content = json.dumps(body, allow_nan=False).encode("ascii")
    return Response(content, status, dict(headers or {}), media_type=MEDIA_TYPE)


def render_error(scope: Mapping[str, Any], error: ServiceError) -> Response:
    """Render a service error."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return render(scope, error.status, error.slug, error.title, error.detail, error.errors, headers)


def render_unreachable(scope: Mapping[str, Any], error: Exception) -> Response:
    """Render the failure of the database; the reason is only logged."""
    if is_disk_full(error):
        log.error("request %s: the database's disk is full", request_id_of(scope))
        message = "The disk of the database is full: delete objects you don't need, or enlarge the disk."
        return render_error(scope, errors.DiskFullError(message, retry_after=FULL_RETRY_SECONDS))
    log.error("request %s: the database doesn't respond: %s", request_id_of(scope), error)
    message = "The database doesn't respond; try again soon."
    return render_error(scope, errors.UnavailableError(message, retry_after=RETRY_SECONDS))


def render_plain(scope: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Render an error of HTTP itself."""
    phrase = HTTPStatus(status).phrase
    slug, title, detail = PLAIN.get(status, (phrase.lower().replace(" ", "-"), phrase, phrase))
    return render(scope, status, slug, title, detail, headers=headers)


def install(app: FastAPI, page: ProblemPage | None = None) -> None:
    """Install handlers that render every error of the app as a problem document."""
    app.state.problem_page = page

    async def service_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)
        return render_error(request.scope, error)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            # The router lists only the methods of the path's first route.
            headers["Allow"] = _methods(app, request.url.path) or headers.get("Allow", "")
        return render_plain(request.scope, error.status_code, headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        path = getattr(request.scope.get("route"), "path", "")
        if app.openapi_schema is None:
            await in_thread(app.openapi)  # which makes it once, in a third of a second
        faults = faults_of(error.errors(), known_fields(app.openapi(), path, request.method))
        return render_error(request.scope, errors.InvalidRequestError(errors=faults))

    async def database_error(request: Request, error: Exception) -> Response:
        return render_unreachable(request.scope, error)

    async def unstorable(request: Request, error: Exception) -> Response:
        return render_error(request.scope, errors.InvalidRequestError(str(error)))

    app.add_exception_handler(ServiceError, service_error)
    app.add_exception_handler(UnstorableTextError, unstorable)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid)
    for kind in UNREACHABLE:
        app.add_exception_handler(kind, database_error)


def _methods(app: FastAPI, path: str) -> str:
    """Return the value of the Allow header for a path; empty for an undocumented one."""
    allowed = {
        method.upper()
        for pattern, methods in app.openapi()["paths"].items()
        if compile_path(pattern)[0].match(path)
        for method in methods
    }
    return ", ".join(sorted(allowed))


def faults_of(findings: Sequence[Any], known: Collection[str] = ()) -> list[Fault]:
    """Convert pydantic's findings to one fault per place; a union reports once for each of its branches.

    `known` are the known fields, for suggestions.
    """
    faults: dict[tuple[str | None, int | None], Fault] = {}
    of_types: set[tuple[str | None, int | None]] = set()
    inside: set[tuple[str | int | None, int | None]] = set()
    for entry in findings[: 10 * SHOWN]:
        column, row = place(entry["loc"])
        detail = str(entry["msg"]).removeprefix("Value error, ")
        if entry["type"] == "extra_forbidden":
            detail = no_such_field(str(entry["loc"][-1]), known)
        elif tuple(entry["loc"]) == ("body",) and entry["type"] in NO_OBJECT:
            detail = NO_OBJECT[entry["type"]]
        # In a union, a branch that takes the type, though not the value, says more than one that doesn't.
        if (column, row) in of_types or (column, row) not in faults:
            faults[column, row] = Fault(column, row, detail)
            of_types.discard((column, row))
            if entry["type"].endswith(("_type", "_parsing")):
                of_types.add((column, row))
        steps = _fields(entry["loc"])
        if len(steps) > 1 and steps[0] not in DATA:
            inside.add((steps[0], None))
    # In a union, the branch that descended into the value says more than those that rejected its type.
    return [fault for where, fault in faults.items() if where not in inside]


def place(path: Sequence[str | int]) -> tuple[str | None, int | None]:
    """Return column and row of a path into a request: `rows` and `columns` hold data, the rest are fields."""
    steps = [step for step in path if step not in OUTER]
    if steps[:1] == ["rows"] and len(steps) > 1 and isinstance(steps[1], int):
        return (str(steps[2]) if len(steps) > 2 else None), steps[1] + 1
    if steps[:1] == ["columns"] and len(steps) > 1:
        row = steps[2] + 1 if len(steps) > 2 and isinstance(steps[2], int) else None
        return str(steps[1]), row
    return (".".join(map(str, _fields(path))) or None), None


def _fields(path: Sequence[str | int]) -> list[str | int]:
    """Return the steps of a path without pydantic's names of union branches."""
    no_field = OUTER | PLAIN_BRANCHES
    return [step for step in path if step not in no_field and not str(step).startswith(BRANCHES)]


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return a route's documented problems: these statuses and those common to all routes."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": PLAIN[status][1]
            if status in PLAIN
            else PHRASES.get(status, HTTPStatus(status).phrase),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in sorted({*statuses, 401, 403, 404, 408, 413, 422, 429, 500, 503})
    }
