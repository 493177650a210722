"""Continuation of models that have ended, over HTTP: retry, extend and refit; and which one a name means."""

from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Response
from pydantic import Field

from app.api.models import TheAcceptance
from app.services import health
from app.services.access.idempotency import StoredResponse
from app.services.access.keys import TRAIN
from app.services.fits import champions, creation, requests, restarts
from app.services.fits.fit_request import StopRequest
from app.services.fits.models import ModelView
from app.services.fits.restarts import ExtensionView
from app.services.request_bodies import StrictBody
from app.web.dependencies import Owner, Reading, TheBell, TheSettings, Writing
from app.web.errors import responses
from app.web.idempotency import LOOK_AGAIN, TheChange
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)


@router.post("/{model_id}/retry", status_code=202, responses=responses(409))
@needs(TRAIN)
def retry_model(
    model_id: str, session: Writing, bell: TheBell, owner: Owner, response: Response, after: BackgroundTasks
) -> ModelView:
    """Continue a cancelled or failed model where its chains ended.

    The draws equal those of an uninterrupted fit, bit for bit.
    """
    model = restarts.retry(session, owner, model_id)
    response.headers["Location"] = f"/models/{model.id}"
    response.headers["Retry-After"] = LOOK_AGAIN
    after.add_task(bell.ring, len(model.progress.chains))
    return model


class ExtendRequest(StrictBody):
    """A request for more draws: a number, or stop rules, such as `{"stop": {"verdict": "converged"}}`."""

    num_draws: int | None = Field(
        None,
        ge=1,
        le=restarts.MAX_DRAWS,
        description="Additional kept draws per chain; with stop rules, until they are checked first (by "
        "default half as many as there are).",
    )
    stop: StopRequest | None = Field(
        None,
        description="Sample until these rules hold. By default `max_draws`, the most kept draws per chain "
        f"in all, is {restarts.TIMES[0]} times those at the first check, or less if the service would refuse "
        "that.",
    )


Promote = Annotated[
    Literal["auto", "always", "never"] | None,
    Field(
        description="Whether the name moves to the new model. auto: if its log score, on held-out rows that "
        "neither model was fitted to, and its verdict are no worse; always: in any case, with both recorded; "
        "never: they are recorded only. Default: auto with `dataset_id`, else in any case, uncompared."
    ),
]


class RefitRequest(StrictBody):
    """Differences of a new fit from another model."""

    dataset_id: str | None = Field(
        None, description="A newer dataset with the same columns; defaults to that of the old model."
    )
    holdout: float | None = Field(
        None,
        ge=0,
        le=0.9,
        description="The fraction of rows held out. Default: as of the old model where `dataset_id` or "
        "`promote` is given, else the model sees all rows.",
    )
    promote: Promote = None
    name: str | None = Field(None, description="The name of the new model; defaults to that of the old.")


@router.post("/{model_id}/extend", status_code=202, response_model=ModelView, responses=responses(409, 415))
@needs(TRAIN)
def extend_model(
    model_id: str,
    body: ExtendRequest,
    settings: TheSettings,
    owner: Owner,
    acceptance: TheAcceptance,
) -> Response:
    """Continue the chains of a succeeded model for more draws, followed by a new verdict and new scores.

    `{"num_draws": 500}` draws that many more per chain, `{"stop": {"verdict": "converged"}}` until the chains
    agree. Estimate both with `POST /models/{id}/extend/estimate`.

    The model keeps answering meanwhile: a request that pins `draws` gets the same answer as before, others
    use all present draws. Until the model has succeeded again, its verdict and scores are those of the
    earlier draws.
    """

    def make() -> StoredResponse:
        with acceptance.transactions() as session:
            model = restarts.extend(
                session,
                owner,
                model_id,
                body.num_draws,
                None if body.stop is None else body.stop.model_dump(),
                slots=health.slots(session, settings),
            )
            return acceptance.of(session, model)

    return acceptance.once(make)


@router.post("/{model_id}/extend/estimate", responses=responses(409, 415))
@needs(TRAIN)
def estimate_extension(
    model_id: str, body: ExtendRequest, session: Reading, settings: TheSettings, owner: Owner
) -> ExtensionView:
    """Estimate the duration of an extension; nothing is started. Body and checks are those of the extension.

    Time excludes waiting for a worker.
    """
    stop = None if body.stop is None else body.stop.model_dump()
    slots = health.slots(session, settings)
    return restarts.plan_extension(session, owner, model_id, body.num_draws, stop, slots=slots)


@router.post("/{model_id}/refit", status_code=202, response_model=ModelView, responses=responses(409, 415))
@needs(TRAIN)
def refit_model(
    model_id: str,
    body: RefitRequest,
    settings: TheSettings,
    owner: Owner,
    acceptance: TheAcceptance,
) -> Response:
    """Fit a new model with the settings of another: to all rows, or to a newer dataset.

    Without a `name` it gets that of the other, and predicts under it once it has succeeded; with `promote`,
    only if it is no worse than the model that the name means by then. `refit` of the model has the decision.
    Intervals that held-out rows make hold are not made to hold in a fit to all rows: its `warnings` say so.
    """
    promote = body.promote or (None if body.dataset_id is None else "auto")

    engine = acceptance.engine

    def make() -> StoredResponse:
        request = requests.request_like(
            engine,
            owner,
            model_id,
            holdout=(0.0 if promote is None else None) if body.holdout is None else body.holdout,
            name=body.name,
            dataset_id=body.dataset_id,
            promote=promote,
        )
        plan = creation.plan(engine, owner, request, slots=health.slots_now(engine, settings))
        with acceptance.transactions() as session:
            return acceptance.of(session, creation.accept(session, owner, plan))

    return acceptance.once(make)


@router.post("/{model_id}/promote", responses=responses(409))
@needs(TRAIN)
def promote_model(model_id: str, session: Writing, owner: Owner) -> ModelView:
    """Let a model's name mean it from now on, such as a refit that was refused or rolled back."""
    return champions.promote(session, owner, model_id)


@router.post("/{model_id}/rollback", response_model=ModelView, responses=responses(409))
@needs(TRAIN)
def roll_back(
    model_id: str,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Let a name mean the model before the present one again, and return that one.

    `model_id` is the name, or the id of the model that it means now; `promote` undoes it, by the id.
    """

    def make() -> StoredResponse:
        with change.transactions() as session:
            return change.done(session, champions.roll_back(session, owner, model_id))

    return change.once(make)
