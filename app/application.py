"""The FastAPI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from app.api import (
    amendments,
    audit,
    datasets,
    docs,
    drift,
    events,
    explanations,
    forecasts,
    health,
    inference,
    invocations,
    model_files,
    model_restarts,
    models,
    outcomes,
    predict,
    predictions,
    studies,
    webhooks,
)
from app.api.sets import model_sets
from app.dashboard import render
from app.dashboard import routes as dashboard
from app.dashboard.effects import Effects
from app.dashboard.studio import Studio
from app.services.access import keys, sessions
from app.services.access.quotas import SharedRoom
from app.services.access.tokens import tokens_of
from app.services.doorbell import Bell
from app.services.drift.traffic import Traffic
from app.services.fits.event_stream import Feed
from app.services.health import Readiness, limits
from app.services.metrics import Scrape
from app.services.predictions.predict_rows import Predictor
from app.services.readers.process.confined import model_readers, readers
from app.services.readers.scratch import free_bytes
from app.settings import Settings
from app.store.engine import make_engine
from app.web import errors
from app.web.middleware.auth import Access
from app.web.middleware.concurrency import Gate, SharedPlaces
from app.web.middleware.metrics import Measured
from app.web.middleware.outermost import Edge
from app.web.scopes import list_needs
from sampler.host.cores import count_cores

ROUTERS = (
    datasets.router,
    amendments.router,
    model_files.files,
    model_files.router,
    models.router,
    model_restarts.router,
    events.router,
    predict.router,
    predictions.router,
    forecasts.router,
    outcomes.router,
    drift.router,
    studies.router,
    model_sets.router,
    model_sets.rows_router,
    invocations.router,
    inference.router,
    explanations.router,
    webhooks.router,
    audit.router,
    health.router,
    docs.router,
)
PLACES = 8  # requests of all owners in threads at once; one owner has half of them at most
FIRST = (predict.router,)  # matched before all other routes


@cache
def _routes() -> list[BaseRoute]:
    """Return all routes, guarded; their models take half a second to build, for all applications once.

    Raises TypeError for an unguarded route.
    """
    # the function names of generated clients
    every = APIRouter(generate_unique_id_function=lambda route: route.name)
    for router in ROUTERS:
        every.include_router(router)
    dashboard.install(every)
    for _ in list_needs(every.routes):
        pass  # raises for an unguarded route
    # Routes are tried one by one, and most requests are predictions.
    return sorted(every.routes, key=lambda route: getattr(route, "original_router", None) not in FIRST)


def create_app(settings: Settings) -> FastAPI:
    """Make the FastAPI application; it opens the database at startup and closes it at shutdown."""
    # Every place may hold a connection; beside them predictions, keys, streams and metrics ask for moments.
    engine = make_engine(settings.database_url, max_overflow=2 * PLACES + count_cores())
    bell = Bell(settings)
    traffic = Traffic(engine, counts=settings.drift_watch)
    predictor = Predictor(
        engine, settings.cache_bytes, settings.max_predict_rows, settings.max_predict_work, traffic
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.gate = Gate()
        app.state.places = SharedPlaces(PLACES, PLACES // 2)
        app.state.uploads = SharedPlaces(PLACES, PLACES // 2, wait_seconds=30)
        app.state.large_bodies = Gate()
        app.state.model_files = Gate(2, wait_seconds=30)
        readers.start()
        predictor.start(compile_kernels=not settings.embedded)
        traffic.start()
        yield
        model_readers.close()
        readers.close()  # here, because a server stopped by a signal runs nothing afterwards
        traffic.close()
        predictor.close()
        bell.close()
        engine.dispose()

    app = FastAPI(
        title="bartserve",
        version=version("bartserve"),
        summary="Predictions that carry honest intervals.",
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,  # the route in `docs` requires a key
        servers=docs.SERVERS,
        routes=_routes(),
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(Measured),
            Middleware(
                Edge,
                limit=settings.max_body_bytes,
                seconds=settings.body_seconds,
                rate=settings.body_bytes_per_second,
                keyless_seconds=settings.keyless_seconds,
                memory=SharedRoom("memory", lambda held: settings.body_memory_bytes - held),
                disk=SharedRoom("the temporary disk", lambda _held: free_bytes()),
            ),
            Middleware(
                Access,
                host=settings.host,
                authenticate=partial(keys.authenticate, engine),
                recall=partial(sessions.recall, engine),
                limits=limits(engine, settings),
                per_second=settings.quota_requests_per_second,
                public_url=settings.public_url,
                tokens=tokens_of(settings),
                token_header=settings.oidc_header,
            ),
        ],
    )
    app.state.engine = engine
    app.state.bell = bell
    app.state.feed = Feed(engine, max(1, settings.max_connections // 2))  # the other half serves requests
    app.state.settings = settings
    app.state.predictor = predictor
    app.state.studio, app.state.effects = Studio(), Effects()
    app.state.readiness = Readiness(engine, settings)
    app.state.scrape = Scrape(engine, predictor.cache, settings.dispatch_seconds)
    errors.install(app, page=render.problem_page)
    docs.document(app)
    return app
