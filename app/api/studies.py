"""Studies of models over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, BackgroundTasks, Body, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from app.api.models import ErrorView, State, View
from app.services import health
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.studies import stored
from app.services.studies.calibration import CalibrationRequest
from app.services.studies.selection import SelectionRequest
from app.services.studies.tuning import TuningRequest
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheBell,
    TheEngine,
    TheSettings,
    TheTransactions,
    Writing,
)
from app.web.errors import responses
from app.web.fit_request import CandidateSettings
from app.web.idempotency import TheIdempotentRequest, render
from app.web.json_body import StrictRoute
from app.web.paging import Cursor, Limit
from app.web.scopes import needs
from sampler.studies.selection import LEVEL, PERMUTATIONS
from sampler.studies.tuning import FOLDS

router = APIRouter(tags=["studies"], route_class=StrictRoute)
LOOK_AGAIN = "1"  # Retry-After in seconds for the state of a new study


def _check_kind(kind: Any) -> Any:
    """Refuse a kind that doesn't exist; a body without a known one is read as a selection."""
    if kind != "selection":
        raise PydanticCustomError("kind", "Input should be 'selection', 'tuning' or 'calibration'")
    return kind


class SelectionBody(BaseModel):
    """A question about a model: which of its features matter beyond chance."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Annotated[Literal["selection"], BeforeValidator(_check_kind)] = Field(
        "selection",
        description="selection: compare each feature's share of the split rules with its share in fits to "
        "permuted outcomes (Bleich et al. 2014).",
    )
    permutations: int = Field(SelectionRequest.permutations, description=PERMUTATIONS.about)
    level: float = Field(SelectionRequest.level, description=LEVEL.about)
    seed: int = Field(SelectionRequest.seed, description="Seed of the permutations and of all chains.")

    def study_request(self) -> SelectionRequest:
        """Convert to the service's request."""
        return SelectionRequest(self.permutations, self.level, self.seed)


def _is_list(value: Any) -> str:
    return "kind-list" if isinstance(value, list) else "kind-grid"


class TuningBody(BaseModel):
    """A question about a model: which settings predict unseen rows best."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["tuning"] = Field(
        description="tuning: compare settings by K-fold cross-validation of the log score."
    )
    candidates: Annotated[
        Annotated[str, Tag("kind-grid")] | Annotated[list[CandidateSettings], Tag("kind-list")],
        Discriminator(_is_list),
    ] = Field(
        "model",
        description="Settings to compare, simpler ones first, at most 50; all share those in which the model "
        "differs from the defaults. Or a grid: model (noise, transform, linear part; of numbers) or prior "
        "(k, the noise's prior, number of trees). Fits have two chains of 100 draws unless a candidate says "
        "otherwise.",
    )
    folds: int = Field(TuningRequest.folds, description=f"{FOLDS.about} From 2 to 20.")
    parsimony: bool = Field(
        TuningRequest.parsimony,
        description="Choose the first candidate that is at most one standard error behind the best.",
    )
    seed: int = Field(TuningRequest.seed, description="Seed of the folds and of all fits.")

    def study_request(self) -> TuningRequest:
        """Convert to the service's request."""
        grid = self.candidates
        candidates = grid if isinstance(grid, str) else [each.given() for each in grid]
        return TuningRequest(candidates, self.folds, self.parsimony, self.seed)


class CalibrationBody(BaseModel):
    """A calibration of a model's intervals by its training rows, each scored by a fit to other folds."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["calibration"] = Field(
        description="calibration: five more fits, each to four fifths of the rows. Then the model answers "
        "interval=calibrated, and its `calibration` says what that promises."
    )

    def study_request(self) -> CalibrationRequest:
        """Convert to the service's request."""
        return CalibrationRequest()


def _kind(body: Any) -> str:
    named = body.get("kind") if isinstance(body, dict) else getattr(body, "kind", None)
    return f"kind-{named}" if named in ("tuning", "calibration") else "kind-selection"


StudyBody = Annotated[
    Annotated[SelectionBody, Tag("kind-selection")]
    | Annotated[TuningBody, Tag("kind-tuning")]
    | Annotated[CalibrationBody, Tag("kind-calibration")],
    Discriminator(_kind),
]


class FitsView(View):
    """Progress in fits of one chain each."""

    fraction: float
    fits_done: int
    fits: int


class SelectedFeatureView(View):
    """A feature's share of the split rules, compared with what unrelated outcomes would give."""

    name: str
    share: float
    thresholds: dict[str, float] = Field(
        description="The share that the feature must exceed, by rule: local, from the feature's own null "
        "shares; max, from the largest of all features; se, in standard deviations of its own."
    )
    selected_by: list[str] = Field(description="The rules by which it is selected.")


class SelectionView(View):
    """The result of a selection, the largest share first."""

    level: float = Field(
        description="Probability that each rule allows for a feature (local), or for any (max, se), to "
        "be selected though nothing is related to the outcome."
    )
    features: list[SelectedFeatureView]


class TrialView(View):
    """A candidate, and its scores over all folds; null for one that can't be fitted."""

    settings: dict[str, Any] = Field(description="Those by which it differs from the others.")
    log_score: float | None = Field(description="Mean log score of the rows.")
    error: float | None = Field(description="Standard error of the log score.")
    behind: float | None = Field(description="By how much the best one's log score is above it.")
    behind_error: float | None = Field(description="Standard error of that difference.")
    rmse: float | None = Field(description="Root mean square error; null for classes.")
    coverage: float | None = Field(
        description="Share of the rows inside their 90% predictive intervals; null for classes."
    )
    seconds: float | None = Field(description="Mean duration of a fit.")
    refused: str = Field(description="Why it can't be fitted to these rows; empty otherwise.")


class TuningView(View):
    """The result of a tuning."""

    trials: list[TrialView] = Field(description="All candidates, in the order of the request.")
    chosen: int | None = Field(
        description="Place of the chosen one, from 0; null if no candidate can be fitted."
    )
    folds: int
    best: dict[str, Any] | None = Field(
        description="Settings to fit with, as fields of POST /models: the chosen candidate's, and those that "
        "all share."
    )


class StudyView(View):
    """A study: finished, running, or ended early."""

    id: str
    model_id: str
    kind: Literal["selection", "tuning", "calibration"]
    state: State
    request: dict[str, Any] = Field(description="The request, with all settings of the fits.")
    progress: FitsView
    selection: SelectionView | None = Field(
        description="The result of kind selection, once succeeded; null in lists."
    )
    tuning: TuningView | None = Field(description="The result of kind tuning, once succeeded; null in lists.")
    error: ErrorView | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class StudyPage(View):
    """A page of studies, newest first."""

    items: list[StudyView]
    next_cursor: str | None = Field(description="The cursor of the next page; null on the last page.")


@router.post(
    "/models/{model_id}/studies",
    status_code=202,
    response_model=StudyView,
    responses=responses(409, 413, 415),
)
@needs(TRAIN)
def create_study(
    model_id: str,
    body: Annotated[StudyBody, Body()],
    engine: TheEngine,
    transactions: TheTransactions,
    settings: TheSettings,
    bell: TheBell,
    owner: Owner,
    idempotent: TheIdempotentRequest,
    after: BackgroundTasks,
) -> Response:
    """Study a model in the background, with fits to its training rows; `model_id` may be a name.

    202 means that the study is durably accepted; `Location` is its URL, with the progress and the result.
    """

    def make() -> StoredResponse:
        slots = health.slots_now(engine, settings)
        planned = stored.plan(engine, owner, model_id, body.study_request(), slots=slots)
        with transactions() as session:
            study = stored.accept(session, owner, planned)
            headers = {"Location": f"/studies/{study.id}", "Retry-After": LOOK_AGAIN}
            view = StudyView.model_validate(study).model_dump_json().encode()
            answer = StoredResponse(202, headers, view)
            idempotent.remember(session, answer)
        after.add_task(bell.ring)
        return answer

    return render(once(engine, idempotent, make))


@router.get("/studies", responses=responses())
@needs(READ)
def list_studies(
    session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None, model_id: str | None = None
) -> StudyPage:
    """List your studies, or those of one model by its id, newest first; without their results."""
    return StudyPage.model_validate(stored.list_page(session, owner, limit, cursor, model_id))


@router.get("/studies/{study_id}", responses=responses())
@needs(READ)
def get_study(study_id: str, session: Reading, owner: Owner) -> StudyView:
    """Return a study with its progress, and its result once it has succeeded."""
    return StudyView.model_validate(stored.view(session, owner, study_id))


@router.post("/studies/{study_id}/cancel", responses=responses(409))
@needs(TRAIN)
def cancel_study(study_id: str, session: Writing, owner: Owner) -> StudyView:
    """Cancel a study; finished fits are discarded."""
    return StudyView.model_validate(stored.cancel(session, owner, study_id))


@router.delete("/studies/{study_id}", status_code=204, responses=responses())
@needs(TRAIN)
def delete_study(study_id: str, session: Deleting, owner: Owner) -> None:
    """Delete a study with its result; a running one stops."""
    stored.delete(session, owner, study_id)
