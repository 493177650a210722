"""The page of the service: readiness, workers and the queue."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.services import health
from app.services.access.keys import READ
from app.web.dependencies import Reading, TheReadiness, TheSettings
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)


@router.get("/service")
@needs(READ)
def service(request: Request, session: Reading, readiness: TheReadiness, settings: TheSettings) -> Response:
    """Show whether the service is ready, its workers, and the waiting work."""
    return render.render(
        request.scope,
        "service.html",
        missing=readiness.missing(),
        workers=health.workers_seen(session, settings),
        queue=health.queue(session),
        embedded=settings.embedded,
        snippets=snippets.ask(request, "/health/ready", snippets.call("ready")),
    )
