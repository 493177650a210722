"""Selection of a model's features beyond chance: a part of the page of its features."""

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, Request
from starlette.responses import Response

from app.dashboard import render
from app.dashboard.forms.fields import SentForm
from app.services import health
from app.services.access.keys import READ, TRAIN
from app.services.fits import models
from app.services.studies import stored
from app.services.studies.selection import SelectionRequest
from app.services.studies.stored import ModelStudy
from app.web.dependencies import Owner, Reading, TheBell, TheEngine, TheSettings, TheTransactions, Writing
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)


def _newest(session: Reading, owner: Owner, model_id: str) -> ModelStudy | None:
    return stored.newest(session, owner, models.get(session, owner, model_id).id, "selection")


NewestStudy = Annotated[ModelStudy | None, Depends(_newest)]


@router.post("/models/{model_id}/select")
@needs(TRAIN)
def select(
    _form: SentForm,
    engine: TheEngine,
    transactions: TheTransactions,
    bell: TheBell,
    settings: TheSettings,
    owner: Owner,
    model_id: str,
    after: BackgroundTasks,
) -> Response:
    """Start a selection of the model's features, then return to their page."""
    slots = health.slots_now(engine, settings)
    planned = stored.plan(engine, owner, model_id, SelectionRequest(), slots=slots)
    with transactions() as session:
        stored.accept(session, owner, planned)
    after.add_task(bell.ring)
    return _back(planned.model_id)


@router.get("/studies/{study_id}")
@needs(READ)
def show(request: Request, session: Reading, owner: Owner, study_id: str) -> Response:
    """Show the part of the page alone, as its script asks for it until the study has ended."""
    study = stored.view(session, owner, study_id)
    model = models.view(session, owner, study.model_id)
    return render.render(request.scope, "selection.html", study=study, model=model)


@router.post("/studies/{study_id}/cancel")
@needs(TRAIN)
def cancel(_form: SentForm, session: Writing, owner: Owner, study_id: str) -> Response:
    """Cancel a selection, then return to the page of features."""
    return _back(stored.cancel(session, owner, study_id).model_id)


def _back(model_id: str) -> Response:
    return render.see_other(f"/ui/models/{model_id}/features#selection")
