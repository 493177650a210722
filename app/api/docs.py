"""The OpenAPI document, and a page to try the API without any request to other hosts.

The page is Swagger UI from the `fastapi-offline` package; FastAPI's own page loads it from elsewhere.
"""

import importlib.util
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.responses import FileResponse, JSONResponse

from app.services.access.keys import SCOPES
from app.services.errors import NotFoundError
from app.services.predictions.inference import InferBody
from app.web.errors import Problem, titles
from app.web.scopes import GuardedRoute, Needs, list_needs, needs

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
<style>
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { background: #14191b; }
  #swagger { filter: invert(0.88) hue-rotate(180deg); }
}
</style>
<div id="swagger"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</html>
"""
START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger",
  deepLinking: true,
  validatorUrl: null,  // otherwise it calls a validator on the internet
  requestInterceptor: (request) => {
    const token = document.querySelector('meta[name="csrf-token"]');  // of the signed-in session
    if (token && token.content) request.headers["X-CSRF-Token"] = token.content;
    return request;
  },
});
"""


def _folder() -> Path:
    # Located without an import, since only its files are needed.
    spec = importlib.util.find_spec("fastapi_offline")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "static"


@router.api_route("/openapi.json", methods=["GET", "HEAD"])
@needs()
def openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get("/docs")
@needs()
async def page(request: Request) -> Response:
    """Return the page."""
    csrf = request.scope.get("bartserve.csrf", "")  # hexadecimal
    return Response(
        PAGE.replace("%s", csrf), media_type="text/html", headers={"Content-Security-Policy": POLICY}
    )


@router.get("/docs/start.js")
@needs()
async def start() -> Response:
    """Return the script of the page."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
@needs()
async def file(name: str) -> Response:
    """Return a file of Swagger UI."""
    if name not in FILES:
        raise NotFoundError("The page has no such file.")
    return FileResponse(_folder() / name, media_type=FILES[name])


@router.get("/problems/{slug}")
@needs()
async def problem_type(slug: str) -> dict[str, str]:
    """Return the document at a problem's `type` URI."""
    if slug not in titles():
        raise NotFoundError("There is no problem type of this name.")
    return {"type": f"/problems/{slug}", "title": titles()[slug]}


SERVERS = [
    {"url": "/", "description": "The service that serves this document."},
    {"url": "http://127.0.0.1:8000", "description": "`bartserve up` on this machine."},
]
CAR = {
    "cylinders": 4,
    "displacement": 97,
    "horsepower": 75,
    "weight": 2171,
    "acceleration": 16,
    "year": 75,
    "origin": 3,
}
MODEL_ID = (
    "A model's id or name. If several models share the name, it means the newest that has succeeded and "
    "isn't withheld; until one has, the newest."
)
SET_ID = (
    "A set's id or name. If several sets share the name, it means the newest of which a model has succeeded; "
    "until one has, the newest."
)
DESCRIBED = {"model_id": MODEL_ID, "set_id": SET_ID, "version": "The id of one of the models of the name."}
# Examples of parameters by name.
PARAMETERS: dict[str, Any] = {
    "model_id": "cars",
    "dataset_id": "ds_0123456789abcdef0123",
    "prediction_id": "prd_0123456789abcdef0123",
    "study_id": "std_0123456789abcdef0123",
    "set_id": "set_0123456789abcdef0123",
    "search": "leeds",
    "webhook_id": "wh_0123456789abcdef0123",
    "delivery_id": "msg_0123456789abcdef0123",
    "limit": 50,
    "rows": 20,
    "points": 250,
    "name": "cars",
    "version": "mdl_0123456789abcdef0123",
}
INFERENCE = {
    "inputs": [
        {"name": name, "shape": [1], "datatype": "FP64", "data": [cell]} for name, cell in CAR.items()
    ],
    "parameters": {"level": 0.9},
}
FIT = {"dataset_id": PARAMETERS["dataset_id"], "target": "mpg", "name": "cars", "holdout": 0.2, "seed": 1}
# Examples of JSON bodies, files and JSON responses by operation.
BODIES: dict[str, Any] = {
    "create_model": FIT,
    "estimate_model": FIT,
    "create_model_set": {"dataset_id": PARAMETERS["dataset_id"], "target": "mpg", "by": "origin", "seed": 1},
    "predict_by_group": {"rows": [CAR], "level": [0.5, 0.9], "unknown": "flag"},
    "forecast_by_group": {"groups": ["Leeds"], "level": 0.9, "totals": [{"steps": [1, 6]}]},
    "create_predictions_of_set": {"forecast": {"known": PARAMETERS["dataset_id"], "level": 0.9}},
    "amend_dataset": {"columns": {"weight": {"missing": ["-999"]}, "origin": {"kind": "category"}}},
    "refit_model": {"dataset_id": PARAMETERS["dataset_id"], "promote": "auto"},
    "set_schedule": {"every": "7d", "on_alarm": True, "promote": "auto"},
    "extend_model": {"num_draws": 250},
    "estimate_extension": {"stop": {"verdict": "converged"}},
    "predict": {"rows": [CAR], "level": [0.5, 0.9], "interval": "predictive"},
    "forecast": {
        "known": [{"week": "2026-01-05", "shop": "Leeds", "promo": True}],
        "series": ["Leeds"],
        "level": 0.9,
        "totals": [{"steps": [1, 6], "by": "region"}],
    },
    "create_prediction": {"dataset_id": PARAMETERS["dataset_id"], "interval": "predictive"},
    "infer_rows": INFERENCE,
    "infer_rows_by_version": INFERENCE,
    "invoke": {"dataframe_records": [CAR], "params": {"level": 0.9}},
    "report_outcomes": {"rows": [CAR | {"mpg": 31.5, "id": "car 17"}], "key": "id", "repeated": "skip"},
    "recalibrate_by_outcomes": {"since": None},
    "set_outcomes_policy": {"recalibrate": "weekly"},
    "refit_with_outcomes": {"name": "cars"},
    "create_webhook": {"url": "https://hooks.example/bart", "events": ["fit.ended", "outcomes.alarm"]},
    "create_study": {"kind": "selection", "permutations": 100, "level": 0.05, "seed": 0},
    "compute_partial_dependence": {"features": ["weight"], "level": 0.9},
    "compute_accumulated_effects": {"feature": "weight", "level": 0.9},
    "compute_contrast": {"first": {"weight": 2500}, "second": {"weight": 3500}, "by": "origin"},
    "compute_effects": {"of": "all", "by": "origin", "level": 0.9},
    "compute_aggregate": {"rows": [CAR | {"fleet": "north"}], "by": "fleet", "of": "sum", "level": 0.9},
    "compute_shap": {"rows": [CAR], "level": 0.9},
    "compute_distribution": {"rows": [CAR], "outcomes": [25.5], "at": [20, 30], "quantiles": [0.1, 0.5, 0.9]},
    "predict_jointly": {"rows": [CAR | {"mpg": 25.5}], "given": ["mpg"], "level": 0.9},
    "compute_survival": {"rows": [{"age": 60, "sex": "female"}], "times": [100, 365, 730], "level": 0.9},
}
TEXTS = {
    "text/csv": {
        "upload_dataset": "mpg,weight,year\n18,3504,70\n31,1773,71\n",
        "predict": f"{','.join(CAR)}\n{','.join(map(str, CAR.values()))}\n",
        "report_outcomes": f"{','.join(CAR)},mpg\n{','.join(map(str, CAR.values()))},31.5\n",
    }
}
ANSWERS: dict[str, Any] = {
    "get_live": {"status": "alive"},
    "get_ready": {"status": "ready"},
    "server_live": {"live": True},
    "server_ready": {"ready": True},
    "server_metadata": {"name": "bartserve", "version": "0.2.0", "extensions": ["binary_tensor_data"]},
}


# Operations that create objects: the status, and the parameter that identifies the object elsewhere.
MAKERS = {
    "/datasets": ("201", "dataset_id"),
    "/models": ("202", "model_id"),
    "/models/{model_id}/predictions": ("202", "prediction_id"),
    "/models/{model_id}/studies": ("202", "study_id"),
    "/model-sets": ("202", "set_id"),
    "/webhooks": ("201", "webhook_id"),
}


def _link(paths: dict[str, Any]) -> None:
    """Add OpenAPI links: the id in a creation response is a parameter of other operations."""
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


def _exemplify(operation: dict[str, Any]) -> None:
    """Add the examples for the parameters, the body and the response of an operation."""
    for parameter in operation.get("parameters", []):
        if parameter["name"] in PARAMETERS:
            parameter["example"] = PARAMETERS[parameter["name"]]
        if parameter["name"] in DESCRIBED:
            parameter["description"] = DESCRIBED[parameter["name"]]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if kind == "application/json":
            content["example"] = BODIES[operation["operationId"]]
        elif kind in TEXTS and operation["operationId"] in TEXTS[kind]:
            content["example"] = TEXTS[kind][operation["operationId"]]
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get("application/json")
        if content is not None and status.startswith("2") and operation["operationId"] in ANSWERS:
            content["example"] = ANSWERS[operation["operationId"]]


def _security(needs: Needs) -> list[dict[str, list[str]]]:
    """Return the security requirements: none on loopback, elsewhere a key with one of the scopes."""
    if needs.keyless:
        return []
    needed = sorted(needs.any_of)
    return [{}, *({"key": [scope]} for scope in needed)] if needed else [{}, {"key": []}]


def document(app: FastAPI) -> None:
    """Extend the app's OpenAPI document by errors, keys, examples and links; it has the present routes."""
    routes = list(app.routes)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            openapi_document = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                servers=app.servers,
                routes=routes,
            )
            parts = openapi_document.setdefault("components", {})
            schemas = parts.setdefault("schemas", {})
            for kind in (Problem, InferBody):
                schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= {f"{name}": part for name, part in schema.pop("$defs").items()}
                schemas[kind.__name__] = schema
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            parts["securitySchemes"] = {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key, or a token of the sign-in that the service trusts; neither where "
                    "the service listens on loopback. Operations list the scopes that they accept. "
                    + "; ".join(f"`{s}`: {meaning}" for s, meaning in SCOPES.items()),
                }
            }
            guards = {(method, path): need for method, path, need in list_needs(app.routes)}
            for path, operations in openapi_document["paths"].items():
                for method, operation in operations.items():
                    operation["security"] = _security(guards[method.upper(), path])
                    _exemplify(operation)
            _link(openapi_document["paths"])
            app.openapi_schema = openapi_document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
