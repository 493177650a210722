"""All routes of the dashboard."""

from fastapi import APIRouter
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.dashboard import charts, render
from app.dashboard.pages import (
    datasets,
    forecast,
    home,
    live,
    model_sets,
    model_tabs,
    models,
    new_model,
    outcomes,
    predict_file,
    predict_row,
    refits,
    service,
    studies,
    treatment,
    what_if,
)
from app.dashboard.pages.access import keys, sign_in, webhooks

ROUTERS: tuple[APIRouter, ...] = (
    home.router,
    datasets.router,
    new_model.router,
    models.router,
    model_sets.router,
    model_tabs.router,
    forecast.router,
    predict_row.router,
    what_if.router,
    treatment.router,
    studies.router,
    outcomes.router,
    refits.router,
    predict_file.router,
    charts.router,
    service.router,
    live.router,
    webhooks.router,
    keys.router,
    sign_in.router,
)
FOR_GOOD = "public, max-age=31536000, immutable"


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if b"v=" in scope.get("query_string", b""):  # the URL changes with the file
            response.headers["Cache-Control"] = FOR_GOOD
        return response


def install(every: APIRouter) -> None:
    """Add the pages to the routes of the application."""
    every.mount(render.STATIC, _Static(directory=render.FOLDER / "static"), name="static")
    for router in ROUTERS:
        every.include_router(router)
