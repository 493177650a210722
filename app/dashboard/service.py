"""Pages about the service itself: health, workers, keys."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.deps import Reading, TheReadiness, TheSettings
from app.dashboard import pages, snippets
from app.services import health

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/service")
def service(request: Request, session: Reading, readiness: TheReadiness, settings: TheSettings) -> Response:
    """Whether work is taken, who does it, and how much waits."""
    return pages.render(
        request.scope,
        "service.html",
        missing=readiness.missing(),
        workers=health.workers_seen(session, settings),
        queue=health.queue(session),
        embedded=settings.embedded,
        snippets=snippets.ask(request, "/health/ready"),
    )
