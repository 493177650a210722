"""The OpenAPI document as we promise it, and a page to try it: no request leaves the machine.

The page is Swagger UI as the `fastapi-offline` package ships it; FastAPI's own fetches it from elsewhere.
"""

import importlib.util
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.responses import FileResponse, JSONResponse

from app.api.problems import Problem, titles
from app.api.scopes import GuardedRoute, Needs, guarded, needs
from app.services.errors import NotFoundError
from app.services.keys import SCOPES

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)
FILES = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
# Swagger UI styles its elements one by one and draws its arrows as data: images.
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'"
)
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="csrf-token" content="%s">
<title>bartserve: the API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<div id="swagger"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</html>
"""
START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger",
  deepLinking: true,
  validatorUrl: null,  // else it asks a validator on the internet
  requestInterceptor: (request) => {
    const token = document.querySelector('meta[name="csrf-token"]');  // of whoever is signed in
    if (token && token.content) request.headers["X-CSRF-Token"] = token.content;
    return request;
  },
});
"""


def _folder() -> Path:
    # Found, not imported: only its files are wanted.
    found = importlib.util.find_spec("fastapi_offline")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "static"


@router.api_route("/openapi.json", methods=["GET", "HEAD"])
@needs()
async def openapi_document(request: Request) -> Response:
    """The OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
@needs()
async def page(request: Request) -> Response:
    """The page."""
    csrf = request.scope.get("bartserve.csrf", "")  # hexadecimal
    return Response(PAGE % csrf, media_type="text/html", headers={"Content-Security-Policy": POLICY})


@router.get("/docs/start.js")
@needs()
async def start() -> Response:
    """What the page runs."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
@needs()
async def file(name: str) -> Response:
    """Swagger UI's own files."""
    if name not in FILES:
        raise NotFoundError("The API's page has no such file.")
    return FileResponse(_folder() / name, media_type=FILES[name])


@router.get("/problems/{slug}")
@needs()
async def problem_type(slug: str) -> dict[str, str]:
    """What a problem document's `type` points at."""
    if slug not in titles():
        raise NotFoundError("There is no problem of this type.")
    return {"type": f"/problems/{slug}", "title": titles()[slug]}


# What makes a thing, with which status, and the parameter by which others name it.
MAKERS = {
    "/datasets": ("201", "dataset_id"),
    "/models": ("202", "model_id"),
    "/models/{model_id}/predictions": ("202", "prediction_id"),
}


def _link(paths: dict[str, Any]) -> None:
    """Say what can be done with what an answer made: the id in it is a parameter there."""
    for maker, (status, name) in MAKERS.items():
        links = {
            operation["operationId"]: {
                "operationId": operation["operationId"],
                "parameters": {name: "$response.body#/id"},
            }
            for path, operations in paths.items()
            if f"{{{name}}}" in path
            for operation in operations.values()
        }
        if name == "dataset_id":
            fit = {"operationId": paths["/models"]["post"]["operationId"]}
            links["fit"] = fit | {"requestBody": {"dataset_id": "$response.body#/id"}}
        paths[maker]["post"]["responses"][status]["links"] = links


def _security(asked: Needs) -> list[dict[str, list[str]]]:
    """Nothing on loopback; elsewhere a key with one of the scopes (roles, as OpenAPI 3.1 names them)."""
    if asked.keyless:
        return []
    needed = sorted(asked.any_of)
    return [{}, *({"key": [scope]} for scope in needed)] if needed else [{}, {"key": []}]


def document(app: FastAPI) -> None:
    """Make the app's OpenAPI document say what errors look like and how a key is sent."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            parts = made.setdefault("components", {})
            schemas = parts.setdefault("schemas", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= {f"{name}": part for name, part in problem.pop("$defs").items()}
            schemas["Problem"] = problem
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            parts["securitySchemes"] = {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Demanded unless the service listens on loopback. A key needs a scope; "
                    "each call says which. " + "; ".join(f"`{s}`: {told}" for s, told in SCOPES.items()),
                }
            }
            asked = {(method, path): what for method, path, what in guarded(app)}
            for path, operations in made["paths"].items():
                for method, operation in operations.items():
                    operation["security"] = _security(asked[method.upper(), path])
            _link(made["paths"])
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
