"""GET /health/live, /health/ready and /metrics."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from app.services.access.keys import METRICS
from app.services.errors import UnavailableError
from app.services.metrics import CONTENT_TYPE
from app.web.dependencies import TheReadiness
from app.web.errors import RETRY_SECONDS, responses
from app.web.scopes import GuardedRoute, keyless, needs

router = APIRouter(tags=["health"], route_class=GuardedRoute)
EXAMPLE = 'bart_models{state="running"} 1.0\nbart_models{state="succeeded"} 3.0\n'


class Alive(BaseModel):
    """The process responds."""

    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    """The database schema is current and a worker sends heartbeats."""

    status: Literal["ready"] = "ready"


@router.get("/health/live", responses=responses())
@keyless
async def get_live() -> Alive:
    """Report that this process responds; nothing else is checked."""
    return Alive()


@router.get("/health/ready", responses=responses())
@keyless
def get_ready(readiness: TheReadiness) -> Ready:
    """Report whether work is accepted: the schema is current and a worker is alive.

    503 says what is missing.
    """
    if missing := readiness.missing():
        raise UnavailableError(errors=missing, retry_after=RETRY_SECONDS)
    return Ready()


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **responses(),
        200: {
            "description": "Metrics in the Prometheus text format.",
            "content": {CONTENT_TYPE: {"schema": {"type": "string"}, "example": EXAMPLE}},
        },
    },
)
@needs(METRICS)
def get_metrics(request: Request) -> Response:
    """Return the metrics for Prometheus. Beyond loopback this requires a key with the scope `metrics`."""
    return Response(request.app.state.scrape.text(), headers={"Content-Type": CONTENT_TYPE})
