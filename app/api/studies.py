"""Studies of models over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from app.services import health
from app.services.access.idempotency import StoredResponse
from app.services.access.keys import READ, TRAIN
from app.services.studies import stored
from app.services.studies.stored import StudyBody, StudyPage, StudyView
from app.web.dependencies import Deleting, Owner, Reading, TheSettings, Writing
from app.web.errors import responses
from app.web.idempotency import TheChange
from app.web.json_body import StrictRoute
from app.web.paging import Cursor, Limit
from app.web.scopes import needs

router = APIRouter(tags=["studies"], route_class=StrictRoute)


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
    settings: TheSettings,
    owner: Owner,
    change: TheChange,
) -> Response:
    """Study a model in the background, with fits to its training rows; `model_id` may be a name.

    202 means that the study is durably accepted; `Location` is its URL, with the progress and the result.
    """

    def make() -> StoredResponse:
        slots = health.slots_now(change.engine, settings)
        planned = stored.plan(change.engine, owner, model_id, body, slots=slots)
        with change.transactions() as session:
            return change.queued(session, stored.accept(session, owner, planned), "/studies")

    return change.once(make)


@router.get("/studies", responses=responses())
@needs(READ)
def list_studies(
    session: Reading, owner: Owner, limit: Limit = 50, cursor: Cursor = None, model_id: str | None = None
) -> StudyPage:
    """List your studies, or those of one model by its id, newest first; without their results."""
    return stored.list_page(session, owner, limit, cursor, model_id)


@router.get("/studies/{study_id}", responses=responses())
@needs(READ)
def get_study(study_id: str, session: Reading, owner: Owner) -> StudyView:
    """Return a study with its progress, and its result once it has succeeded."""
    return stored.view(session, owner, study_id)


@router.post("/studies/{study_id}/cancel", responses=responses(409))
@needs(TRAIN)
def cancel_study(study_id: str, session: Writing, owner: Owner) -> StudyView:
    """Cancel a study; finished fits are discarded."""
    return stored.cancel(session, owner, study_id)


@router.delete("/studies/{study_id}", status_code=204, responses=responses())
@needs(TRAIN)
def delete_study(study_id: str, session: Deleting, owner: Owner) -> None:
    """Delete a study with its result; a running one stops."""
    stored.delete(session, owner, study_id)
