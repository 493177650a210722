"""Studies of a model: on the pages of features, the treatment, and improvements."""

from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Depends, Request
from starlette.responses import Response

from app.dashboard import render
from app.dashboard.forms.fields import SentForm, text
from app.services import health
from app.services.access.keys import READ, TRAIN
from app.services.errors import ConflictError
from app.services.fits import creation, models, requests
from app.services.fits.requests import FitRequest
from app.services.studies import stored
from app.services.studies.calibration import CalibrationBody
from app.services.studies.inclusion_by_trees import InclusionByTreesBody
from app.services.studies.placebo import PlaceboBody
from app.services.studies.selection import SelectionBody
from app.services.studies.stored import StudyBody, StudyView
from app.services.studies.tuning import TuningBody
from app.web.dependencies import Owner, Reading, TheBell, TheEngine, TheSettings, TheTransactions, Writing
from app.web.scopes import GuardedRoute, needs

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)
PLACES = {
    "selection": "/features#selection",
    "tuning": "/improve#tuning",
    "calibration": "/improve#calibrate",
    "placebo": "/treatment#placebo",
    "inclusion_by_trees": "/features#inclusion_by_trees",
}


def newest_of(kind: str) -> Any:
    """Return a dependency: the newest study of that kind of the model in the path, or None."""

    def find(session: Reading, owner: Owner, model_id: str) -> StudyView | None:
        return stored.newest(session, owner, models.get(session, owner, model_id).id, kind)

    return Depends(find)


class _Queue:
    """Place to queue an owner's work in."""

    def __init__(
        self,
        engine: TheEngine,
        transactions: TheTransactions,
        bell: TheBell,
        settings: TheSettings,
        owner: Owner,
        after: BackgroundTasks,
    ) -> None:
        self.engine, self.transactions, self.owner = engine, transactions, owner
        self.slots = health.slots_now(engine, settings)
        self._bell, self._after = bell, after

    def start(self, model_id: str, request: StudyBody) -> Response:
        """Start a study, then return to its part of a page."""
        planned = stored.plan(self.engine, self.owner, model_id, request, slots=self.slots)
        with self.transactions() as session:
            stored.accept(session, self.owner, planned)
        self._ring()
        return _back(planned.model_id, planned.plan.kind)

    def fit(self, request: FitRequest) -> Response:
        """Start a fit, then go to its model's page."""
        plan = creation.plan(self.engine, self.owner, request, slots=self.slots)
        with self.transactions() as session:
            model = creation.accept(session, self.owner, plan)
        self._ring(len(model.progress.chains))
        return render.see_other(f"/ui/models/{model.id}")

    def _ring(self, times: int = 1) -> None:
        """Tell workers of queued work once the response is sent."""
        self._after.add_task(self._bell.ring, times)


OwnersQueue = Annotated[_Queue, Depends(_Queue)]


@router.post("/models/{model_id}/select")
@needs(TRAIN)
def select(_form: SentForm, queue: OwnersQueue, model_id: str) -> Response:
    """Start a selection of the model's features."""
    return queue.start(model_id, SelectionBody())


@router.post("/models/{model_id}/tune")
@needs(TRAIN)
def tune(form: SentForm, queue: OwnersQueue, model_id: str) -> Response:
    """Start a comparison of settings: of the grid that the form names."""
    parsimony = text(form, "parsimony") is not None
    grid = text(form, "candidates") or "prior"
    score = text(form, "score") or "log_score"
    return queue.start(model_id, TuningBody(kind="tuning", candidates=grid, score=score, parsimony=parsimony))


@router.post("/models/{model_id}/calibrate")
@needs(TRAIN)
def calibrate(_form: SentForm, queue: OwnersQueue, model_id: str) -> Response:
    """Start a calibration of the model's intervals by fits to its folds."""
    return queue.start(model_id, CalibrationBody(kind="calibration"))


@router.post("/models/{model_id}/placebo")
@needs(TRAIN)
def placebo(_form: SentForm, queue: OwnersQueue, model_id: str) -> Response:
    """Start a fit to treatments that did nothing."""
    return queue.start(model_id, PlaceboBody(kind="placebo"))


@router.post("/models/{model_id}/inclusion-by-trees")
@needs(TRAIN)
def inclusion_by_trees(form: SentForm, queue: OwnersQueue, model_id: str) -> Response:
    """Start fits with few trees and with many, compared by five folds if the form says so."""
    folds = 5 if text(form, "compared") else None
    return queue.start(model_id, InclusionByTreesBody(kind="inclusion_by_trees", folds=folds))


@router.get("/studies/{study_id}")
@needs(READ)
def show(request: Request, session: Reading, owner: Owner, study_id: str) -> Response:
    """Show only the part of the page that its script reloads until the study has ended."""
    study = stored.view(session, owner, study_id)
    model = models.view(session, owner, study.model_id)
    known: dict[str, Any] = {study.kind: study, "model": model}
    return render.render(request.scope, f"{study.kind}.html", **known)


@router.post("/studies/{study_id}/cancel")
@needs(TRAIN)
def cancel(_form: SentForm, session: Writing, owner: Owner, study_id: str) -> Response:
    """Cancel a study, then return to its part of a page."""
    study = stored.cancel(session, owner, study_id)
    return _back(study.model_id, study.kind)


@router.post("/studies/{study_id}/fit")
@needs(TRAIN)
def fit(_form: SentForm, queue: OwnersQueue, study_id: str) -> Response:
    """Fit a model like the tuned one, with the settings that its tuning chose, then redirect to it."""
    with queue.transactions() as session:
        study = stored.view(session, queue.owner, study_id)
    if study.tuning is None or study.tuning.best is None:
        raise ConflictError("The study has chosen no settings to fit with.")
    request = requests.request_like(queue.engine, queue.owner, study.model_id, tuned=study.tuning.best)
    return queue.fit(request)


def _back(model_id: str, kind: str) -> Response:
    return render.see_other(f"/ui/models/{model_id}{PLACES[kind]}")
