"""Models over HTTP: creating, viewing, cancelling and deleting them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, BackgroundTasks, Depends, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

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
from app.web.idempotency import TheIdempotentRequest, render
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
            "description": "The name of the model in a model file.",
        }
    ],
}
LOOK_AGAIN = "1"  # Retry-After in seconds for the state of a new model

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class View(BaseModel):
    """An answer made of what a service returns."""

    model_config = ConfigDict(from_attributes=True)


class ChainView(View):
    """Progress of a chain."""

    chain: int
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    phase: Literal["compiling", "burn_in", "sampling"] | None
    iteration: int
    iterations: int


class ProgressView(View):
    """Progress of a model."""

    fraction: float = Field(description="The share of iterations done, 0 to 1; 1 when it has succeeded.")
    phase: Literal["compiling", "burn_in", "sampling", "finishing"] | None = Field(
        None,
        description="The phase of the running chain that is furthest behind. compiling: once per machine, "
        "a quarter of a minute for a default fit, up to a minute for others; finishing: all chains are done, "
        "the verdict and the scores are being computed.",
    )
    iterations_per_second: float | None = Field(description="The total over all running chains.")
    eta_seconds: float | None = Field(description="Remaining seconds at the present rate.")
    chains: list[ChainView]


class ErrorView(View):
    """The reason for a failure."""

    type: str
    detail: str


class StoppedView(View):
    """Reason why a fit with stop rules ended, and the figures at that time."""

    by: Literal["rules", "max_seconds", "max_draws"] = Field(description="rules: all given rules were met.")
    draws: int = Field(description="Kept draws per chain.")
    discarded: int = Field(
        0,
        description="Draws per chain that came before these and were discarded: the first third, where the "
        "rules hold without them only.",
    )
    held: dict[str, bool] = Field(description="Whether each rule was met, without limits of time and draws.")
    verdict: str
    rhat: float | None = Field(description="The largest R-hat that max_rhat considers.")
    ess: float | None = Field(description="The smallest ESS that min_ess considers; null without that rule.")


class ClaimView(View):
    """Promise of calibrated intervals, or prediction sets, of one level."""

    level: float
    rows: int = Field(description="Calibration rows.")
    at_least: float | None = Field(
        description="Expected share of new outcomes inside, at least; null where there is an estimate only."
    )
    text: str = Field(description="The same in words.")


class IntervalCalibrationView(View):
    """Calibration of a model's intervals."""

    kind: Literal["holdout", "folds", "outcomes"] = Field(
        description="By rows held out, by fits to the other folds, or by outcomes reported after the fit."
    )
    draws: int = Field(description="Draws per chain of the predictions that are calibrated: all of them.")
    rows: int
    checksum: str = Field(description="Another one after another calibration.")
    claims: list[ClaimView] = Field(description="Claims of the usual levels that the rows allow.")


class ChainAgreementView(View):
    """Agreement of the chains, and by how much figures may be off."""

    verdict: Literal["converged", "approximate", "not_converged"]
    mean: float | None = Field(
        description="Two Monte Carlo standard errors of means that 95% of the rows don't exceed, in the unit "
        "of the outcome (of classes as probabilities); null where they are unknown."
    )
    ends: float | None = Field(description="The same of the ends of 90% credible intervals.")
    noise_share: float | None = Field(description="`mean` as a share of the noise's standard deviation.")


class HeldOutIntervalsView(View):
    """Predictive intervals by held-out rows."""

    verdict: Literal["held", "not_held", "unknown"] = Field(description="unknown: too few rows.")
    rows: int
    level: float
    inside: float | None = Field(description="The share of outcomes inside; null where it wasn't measured.")
    lower: float | None = Field(description="That share's 95% interval.")
    upper: float | None


class AnotherFitView(View):
    """Difference from another fit of the same request with another seed, as the chains tell it."""

    moves: float | None = Field(
        description="What predictions would move by, in the unit of the outcome: root mean square over rows."
    )
    sds: float = Field(description="The same in posterior standard deviations.")


class UseView(View):
    """Uses of a model, by three questions answered apart."""

    predictions: Literal["usable", "not_yet"]
    intervals: Literal["usable", "unchecked", "not_usable"] = Field(
        description="Predictive intervals of 90%: usable where held-out rows say so, unchecked without "
        "enough of them, not_usable where these, or reported outcomes, say otherwise."
    )
    credible: Literal["usable", "roughly", "not_yet"] = Field(description="Credible intervals and effects.")
    chains: ChainAgreementView = Field(description="Do the chains agree?")
    held_out: HeldOutIntervalsView | None = Field(
        description="Do held-out rows say that predictive intervals hold? null: none was held out."
    )
    another_fit: AnotherFitView | None = Field(
        description="Would another fit say the same? null where one chain can't tell."
    )
    unit: str | None = Field(description="The unit of the outcome, where its file had one.")
    text: str = Field(description="All of it in sentences.")


class ModelView(View):
    """A model: fitted, being fitted, or ended early."""

    id: str
    name: str | None
    label: str = Field(
        description="The name, or what it predicts from which dataset, numbered: mpg from auto_mpg, 2."
    )
    state: State
    dataset_id: str | None
    target: str
    settings: dict[str, Any] = Field(description="All settings, resolved.")
    progress: ProgressView
    draws: int = Field(description="Kept draws per chain so far.")
    verdict: Literal["converged", "approximate", "not_converged"] | None
    diagnostics: dict[str, Any] | None = Field(
        description="The verdict with its figures; `chosen` has what settings left to the data."
    )
    holdout: dict[str, Any] | None = Field(description="Scores on the held-out rows.")
    use: UseView | None = Field(None, description="What it can be used for; null before the verdict.")
    calibration: IntervalCalibrationView | None = Field(
        None, description="How intervals are calibrated; null where they are not."
    )
    outcomes: Literal["holds", "too_few", "no_longer_hold"] | None = Field(
        None, description="Whether the intervals hold by reported outcomes; null where there are none."
    )
    stopped: StoppedView | None = Field(None, description="Why a fit with stop rules ended.")
    error: ErrorView | None
    warnings: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ModelPage(View):
    """A page of models, newest first."""

    items: list[ModelView]
    next_cursor: str | None = Field(description="The cursor of the next page; null on the last page.")


class EstimateView(BaseModel):
    """The estimated cost of a fit. Time assumes a core per slot; it was within a factor of 1.5 in 21 fits."""

    seconds: float = Field(description="Duration from the start of the first chain to the end.")
    most_seconds: float = Field(description="Duration if the stop rules are never met.")
    slots: int = Field(description="Chains that this service runs at once; 0: there is no worker now.")
    memory_bytes: int = Field(description="Peak memory of a worker process.")
    memory_limit_bytes: int | None = Field(description="Memory that a worker has for one fit; null: unknown.")
    seconds_limit: float | None = Field(
        description="The largest accepted `most_seconds` (BARTSERVE_FIT_SECONDS); null: unlimited."
    )
    fits: bool = Field(
        description="Whether a worker has the memory and the fit is not too long; else it would be refused."
    )
    settings: dict[str, Any] = Field(description="All settings, resolved.")
    warnings: list[str]


@dataclass(frozen=True)
class Acceptance:
    """Consequences of an accepted fit: its response is stored for repeated requests, workers are woken."""

    request: TheIdempotentRequest
    bell: TheBell
    after: BackgroundTasks

    def of(self, session: Session, model: models.FittedModel) -> StoredResponse:
        """Make the 202 response with the URL of a new or continued model, in the session of the change."""
        headers = {"Location": f"/models/{model.id}", "Retry-After": LOOK_AGAIN}
        body = ModelView.model_validate(model).model_dump_json().encode()
        response = StoredResponse(202, headers, body)
        self.request.remember(session, response)
        self.after.add_task(self.bell.ring, len(model.progress.chains))
        return response


TheAcceptance = Annotated[Acceptance, Depends()]


@router.post(
    "",
    status_code=202,
    response_model=ModelView,
    responses={
        **responses(409, 413, 415),
        201: {"model": ModelView, "description": "The finished model, for a model file."},
    },
    openapi_extra=FILE_TOO,
)
@needs(TRAIN, body=MAX_SETTINGS_BYTES)
def create_model(
    body: ModelRequest,
    engine: TheEngine,
    transactions: TheTransactions,
    settings: TheSettings,
    owner: Owner,
    acceptance: TheAcceptance,
) -> Response:
    """Fit a model in the background. 202 means that the fit is durably accepted; `Location` is its URL.

    All checks happen now: 422 names the field, or the column and row of the data.

    A model file (written by `posterior.save`, up to 128 MiB) becomes a finished model at once: 201. Its
    verdict is computed again.
    """

    def make() -> StoredResponse:
        plan = creation.plan(engine, owner, body.fit_request(), slots=health.slots_now(engine, settings))
        with transactions() as session:
            return acceptance.of(session, creation.accept(session, owner, plan))

    return render(once(engine, acceptance.request, make))


@router.post("/estimate", responses=responses(413, 415))
@needs(TRAIN)
def estimate_model(
    body: ModelRequest, engine: TheEngine, session: Reading, settings: TheSettings, owner: Owner
) -> EstimateView:
    """Estimate the memory and duration of a fit, and resolve its settings; nothing is started.

    The body and the checks are those of `POST /models`, except that a fit which needs too much memory or time
    is not refused: `fits` is false.
    """
    plan = creation.estimated(engine, owner, body.fit_request(), health.slots(session, settings))
    return EstimateView(
        seconds=plan.cost.seconds,
        most_seconds=plan.most.seconds,
        slots=plan.slots,
        memory_bytes=plan.most.bytes,
        memory_limit_bytes=plan.memory_limit,
        seconds_limit=plan.seconds_limit,
        fits=plan.fits,
        settings=plan.settings,
        warnings=plan.warnings,
    )


@router.get("", responses=responses())
@needs(READ)
def list_models(session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None) -> ModelPage:
    """List your models, newest first."""
    return ModelPage.model_validate(models.list_page(session, owner, limit, cursor))


@router.get("/{model_id}", responses=responses())
@needs(READ)
def get_model(model_id: str, session: Reading, owner: Owner) -> ModelView:
    """Return a model with its progress."""
    return ModelView.model_validate(models.view(session, owner, model_id))


@router.post("/{model_id}/cancel", responses=responses(409))
@needs(TRAIN)
def cancel_model(model_id: str, session: Writing, owner: Owner) -> ModelView:
    """Cancel a queued or running model at its next slice; its draws are kept."""
    return ModelView.model_validate(models.cancel(session, owner, model_id))


@router.delete("/{model_id}", status_code=204, responses=responses(409))
@needs(TRAIN)
def delete_model(
    model_id: str, session: Deleting, predictor: ThePredictor, owner: Owner, response: Response
) -> None:
    """Delete a model with its draws; a running one stops. 409 for a name that several models share."""
    deleted_id = models.delete(session, owner, model_id)
    predictor.cache.drop(deleted_id)
    response.headers["Bartserve-Model-Id"] = deleted_id
