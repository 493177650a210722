"""Models over HTTP: accept, look, stop, remove."""

from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, BackgroundTasks, Response
from pydantic import BaseModel, Field

from app.services import health
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.fits import creation, models
from app.services.model_files import MEDIA_TYPE
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheBell,
    TheEngine,
    ThePredictor,
    TheSettings,
    TheTransactions,
    Writing,
)
from app.web.errors import responses
from app.web.fit_request import ModelRequest
from app.web.idempotency import TheAsked, render
from app.web.json_body import StrictRoute
from app.web.paging import Cursor, Limit
from app.web.scopes import MAX_SETTINGS_BYTES, needs


class _Json(StrictRoute):
    instead = f", or a model file as {MEDIA_TYPE}"


router = APIRouter(prefix="/models", tags=["models"], route_class=_Json)
# A body of that type is taken by `app.api.model_files`.
FILE_TOO: dict[str, Any] = {
    "requestBody": {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
    "parameters": [
        {
            "name": "name",
            "in": "query",
            "required": False,
            "schema": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "description": "Of the model in a model file.",
        }
    ],
}
LOOK_AGAIN = "1"  # seconds after which the state of a new model is worth asking for

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class ChainView(BaseModel):
    """How far a chain is."""

    chain: int
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    phase: Literal["compiling", "burn_in", "sampling"] | None
    iteration: int
    iterations: int


class ProgressView(BaseModel):
    """How far a model is."""

    fraction: float = Field(description="Of its iterations, 0 to 1; 1 when it has succeeded.")
    iterations_per_second: float | None = Field(description="Of all running chains together.")
    eta_seconds: float | None = Field(description="Left, at the present rate.")
    chains: list[ChainView]


class ErrorView(BaseModel):
    """Why a model failed."""

    type: str
    detail: str


class StoppedView(BaseModel):
    """What ended a fit with stop rules, and what was seen then."""

    by: Literal["rules", "max_seconds", "max_draws"] = Field(description="rules: all that were given held.")
    draws: int = Field(description="Kept per chain.")
    held: dict[str, bool] = Field(description="By rule, but for limits of time and draws.")
    verdict: str
    rhat: float | None = Field(description="The largest that max_rhat looks at.")
    ess: float | None = Field(description="The smallest that min_ess looks at; null when it wasn't asked.")


class ModelView(BaseModel):
    """A model: fitted, being fitted, or ended before its time."""

    id: str
    name: str | None
    state: State
    dataset_id: str | None
    target: str
    settings: dict[str, Any] = Field(description="All of them, resolved.")
    progress: ProgressView
    draws: int = Field(description="Kept per chain so far.")
    verdict: Literal["converged", "approximate", "not_converged"] | None
    diagnostics: dict[str, Any] | None
    holdout: dict[str, Any] | None = Field(description="Scores on the rows held out.")
    stopped: StoppedView | None = Field(None, description="Of a fit with stop rules: what ended it.")
    error: ErrorView | None
    warnings: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ModelPage(BaseModel):
    """Some models, newest first."""

    items: list[ModelView]
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


class EstimateView(BaseModel):
    """What a fit would take. Time is that of slots with a core each; within a factor of 1.5 of 21 fits."""

    seconds: float = Field(description="From its first chain to its end, once it is its turn.")
    most_seconds: float = Field(description="The same for a fit whose stop rules never hold.")
    slots: int = Field(description="Chains that this service works on at once; 0: no worker is there now.")
    memory_bytes: int = Field(description="Of a worker's process, at most.")
    memory_limit_bytes: int | None = Field(description="What a worker has for one fit; null: not known.")
    seconds_limit: float | None = Field(
        description="The longest `most_seconds` of a fit (BARTSERVE_FIT_SECONDS); null: any."
    )
    fits: bool = Field(
        description="Whether a worker has the memory, and the fit ends in time; else it would be refused."
    )
    settings: dict[str, Any] = Field(description="All of them, resolved.")
    warnings: list[str]


@router.post(
    "",
    status_code=202,
    response_model=ModelView,
    responses={
        **responses(409, 413, 415),
        201: {"model": ModelView, "description": "Of a model file: the finished model."},
    },
    openapi_extra=FILE_TOO,
)
@needs(TRAIN, body=MAX_SETTINGS_BYTES)
def create_model(
    body: ModelRequest,
    engine: TheEngine,
    transactions: TheTransactions,
    bell: TheBell,
    settings: TheSettings,
    owner: Owner,
    asked: TheAsked,
    after: BackgroundTasks,
) -> Response:
    """Fit a model in the background. 202 means that it is durably accepted; `Location` is where to look.

    Everything that can be refused is refused now: 422 names the field, or the column and row of the data.
    A model file (what `posterior.save` writes, up to 128 MiB) becomes a finished model at once: 201. Its
    verdict is found anew.
    """

    def make() -> StoredResponse:
        plan = creation.plan(engine, owner, body.fit_request(), slots=health.slots_now(engine, settings))
        with transactions() as session:
            shown = creation.accept(session, owner, plan)
            answer = accepted(shown)
            asked.remember(session, answer)
        after.add_task(bell.ring, len(shown["progress"]["chains"]))
        return answer

    return render(once(engine, asked, make))


@router.post("/estimate", responses=responses(413, 415))
@needs(TRAIN)
def estimate_model(
    body: ModelRequest, engine: TheEngine, session: Reading, settings: TheSettings, owner: Owner
) -> EstimateView:
    """What a fit would take, in memory and time, and its settings, all resolved; nothing is started.

    The body is that of `POST /models`, and what that refuses is refused here, but for a fit that no worker
    has the memory for, or that would take too long: then `fits` is false.
    """
    found = creation.estimated(engine, owner, body.fit_request(), health.slots(session, settings))
    return EstimateView(
        seconds=found.cost.seconds,
        most_seconds=found.most.seconds,
        slots=found.slots,
        memory_bytes=found.most.bytes,
        memory_limit_bytes=found.memory_limit,
        seconds_limit=found.seconds_limit,
        fits=found.fits,
        settings=found.settings,
        warnings=found.warnings,
    )


def accepted(shown: dict[str, Any]) -> StoredResponse:
    """That a model, as the service shows it, was taken on: 202 and where to look."""
    headers = {"Location": f"/models/{shown['id']}", "Retry-After": LOOK_AGAIN}
    return StoredResponse(202, headers, ModelView.model_validate(shown).model_dump_json().encode())


@router.get("", responses=responses())
@needs(READ)
def list_models(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> ModelPage:
    """Your models, newest first."""
    items, next_cursor = models.list_page(session, owner, limit, cursor)
    return ModelPage.model_validate({"items": items, "next_cursor": next_cursor})


@router.get("/{model_id}", responses=responses())
@needs(READ)
def get_model(model_id: str, session: Reading, owner: Owner) -> ModelView:
    """A model with its progress."""
    return ModelView.model_validate(models.view(session, owner, model_id))


@router.post("/{model_id}/cancel", responses=responses(409))
@needs(TRAIN)
def cancel_model(model_id: str, session: Writing, owner: Owner) -> ModelView:
    """Stop a model that is queued or running, at its next slice; what was drawn is kept."""
    return ModelView.model_validate(models.cancel(session, owner, model_id))


@router.delete("/{model_id}", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_model(
    model_id: str, session: Deleting, predictor: ThePredictor, owner: Owner, response: Response
) -> None:
    """Remove a model with its draws; one that is running stops. 409 for a name that several models have."""
    found = models.delete(session, owner, model_id)
    predictor.cache.drop(found)
    response.headers["Bartserve-Model-Id"] = found
