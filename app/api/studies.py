"""Studies of models over HTTP."""

from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, BackgroundTasks, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.models import ErrorView, State, View
from app.services import health
from app.services.access.idempotency import StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.studies import stored
from app.services.studies.selection import SelectionRequest
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
from app.web.idempotency import TheIdempotentRequest, render
from app.web.json_body import StrictRoute
from app.web.paging import Cursor, Limit
from app.web.scopes import needs
from sampler.studies.selection import LEVEL, PERMUTATIONS

router = APIRouter(tags=["studies"], route_class=StrictRoute)
LOOK_AGAIN = "1"  # Retry-After in seconds for the state of a new study


class StudyBody(BaseModel):
    """A question about a model: which of its features matter beyond chance."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["selection"] = Field(
        "selection",
        description="selection: compare each feature's share of the split rules with its share in fits to "
        "permuted outcomes (Bleich et al. 2014).",
    )
    permutations: int = Field(SelectionRequest.permutations, description=PERMUTATIONS.about)
    level: float = Field(SelectionRequest.level, description=LEVEL.about)
    seed: int = Field(SelectionRequest.seed, description="Seed of the permutations and of all chains.")


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


class StudyView(View):
    """A study: finished, running, or ended early."""

    id: str
    model_id: str
    kind: Literal["selection"]
    state: State
    request: dict[str, Any] = Field(description="The request, with all settings of the fits.")
    progress: FitsView
    selection: SelectionView | None = Field(
        description="The result of kind selection, once succeeded; null in lists."
    )
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
    body: StudyBody,
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
        request = SelectionRequest(body.permutations, body.level, body.seed)
        slots = health.slots_now(engine, settings)
        planned = stored.plan(engine, owner, model_id, request, slots=slots)
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
