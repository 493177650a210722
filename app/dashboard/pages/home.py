"""The start page: the newest objects, and what to do next."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.services import datasets
from app.services.access.keys import READ
from app.services.fits import models
from app.web.dependencies import Owner, Reading, TheReadiness
from app.web.scopes import GuardedRoute, needs

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)
FEW = 6


@router.get("/")
@needs(READ)
def home(request: Request, session: Reading, owner: Owner, readiness: TheReadiness) -> Response:
    """Show the newest models and datasets, and whether the service is ready."""
    newest = models.list_page(session, owner, FEW, None)
    page = datasets.list_page(session, owner, FEW, None)
    return render.render(
        request.scope,
        "home.html",
        datasets=page.items,
        more_datasets=page.next_cursor,
        models=newest.items,
        more_models=newest.next_cursor,
        missing=readiness.missing(),
        snippets=snippets.upload(request),
    )
