"""GET /metrics."""

from fastapi import APIRouter, Request, Response

from app.services.access.keys import METRICS
from app.services.metrics import CONTENT_TYPE
from app.web.errors import responses
from app.web.scopes import GuardedRoute, needs

router = APIRouter(tags=["health"], route_class=GuardedRoute)
EXAMPLE = 'bart_models{state="running"} 1.0\nbart_models{state="succeeded"} 3.0\n'


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
