"""Studies of any kind: creating, viewing, cancelling and deleting them."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, get_args

from pydantic import Discriminator, Field, Tag
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services import datasets
from app.services.access import audit, quotas
from app.services.cursors import Page
from app.services.errors import ConflictError, NotFoundError
from app.services.predictions import posteriors
from app.services.resources import Resource
from app.services.studies import calibration, inclusion_by_trees, placebo, selection, tuning
from app.services.studies.calibration import CalibrationBody
from app.services.studies.inclusion_by_trees import InclusionByTreesBody
from app.services.studies.placebo import PlaceboBody, PlaceboView
from app.services.studies.plan import KindOfStudy, StudyKind, StudyPlan, TrainingData
from app.services.studies.selection import SelectionBody
from app.services.studies.tuning import TuningBody
from app.services.views import SHOWN, ErrorView, State, filled, if_any
from app.store import studies as store
from app.store.engine import session_scope
from app.store.errors import ModelGoneError
from app.store.tables import SUCCEEDED, Json, Study
from sampler.host.fits import coded_columns
from sampler.host.settings import CENSORING
from sampler.host.studies import InclusionByTrees, Selection, Tuning


def _kind(body: Any) -> str:
    named = body.get("kind") if isinstance(body, dict) else getattr(body, "kind", None)
    return f"kind-{named}" if named in get_args(StudyKind) else "kind-selection"


StudyBody = Annotated[
    Annotated[SelectionBody, Tag("kind-selection")]
    | Annotated[TuningBody, Tag("kind-tuning")]
    | Annotated[CalibrationBody, Tag("kind-calibration")]
    | Annotated[PlaceboBody, Tag("kind-placebo")]
    | Annotated[InclusionByTreesBody, Tag("kind-inclusion_by_trees")],
    Discriminator(_kind),
]
KINDS: dict[str, KindOfStudy] = {
    "selection": KindOfStudy(selection.plan, selection.result),
    "tuning": KindOfStudy(tuning.plan, tuning.result),
    "calibration": KindOfStudy(calibration.plan),
    "placebo": KindOfStudy(placebo.plan, placebo.result),
    "inclusion_by_trees": KindOfStudy(inclusion_by_trees.plan, inclusion_by_trees.result),
}


@dataclass(frozen=True, kw_only=True)
class FitsView:
    """Progress in fits of one chain each."""

    fraction: float
    fits_done: int
    fits: int


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """A study: finished, running, or ended early."""

    id: str
    model_id: str
    kind: StudyKind
    state: State
    request: Annotated[dict[str, Any], Field(description="The request, with all settings of the fits.")]
    progress: FitsView
    selection: Annotated[
        Selection | None,
        SHOWN,
        Field(description="The result of kind selection, once succeeded; null in lists."),
    ]
    tuning: Annotated[
        Tuning | None,
        SHOWN,
        Field(description="The result of kind tuning, once succeeded; null in lists."),
    ]
    placebo: Annotated[
        PlaceboView | None,
        Field(description="The result of kind placebo, once succeeded; null in lists."),
    ]
    inclusion_by_trees: Annotated[
        dict[str, Annotated[InclusionByTrees, SHOWN]] | None,
        Field(description="The result of that kind by outcome, once succeeded; null in lists."),
    ]
    error: ErrorView | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class StudyPage(Page[StudyView]):
    """A page of studies, newest first."""

    items: list[StudyView]


@dataclass(frozen=True)
class StudyOfModel:
    """A plan with the id of its model."""

    model_id: str
    plan: StudyPlan


def plan(
    engine: Engine,
    owner: str,
    model_id: str,
    request: StudyBody,
    *,
    slots: int = 0,
) -> StudyOfModel:
    """Check a request against its model; writes nothing.

    `slots` fits run at once (0: there is no worker; one is assumed).

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist or hasn't succeeded.
    ConflictError
        It was imported, so it has no dataset, its outcomes may be censored, or it has no treatment, whose
        placebo is asked for.
    InvalidRequestError
        A field is out of range, or the study would take too much memory or time.
    TooLargeError
        It has more results than are stored.
    """
    with session_scope(engine, read_only=True) as session:
        model = posteriors.find(session, owner, model_id)
        if model.dataset_id is None:
            raise ConflictError("The model was imported: it has no dataset to study.")
        alone = isinstance(request, InclusionByTreesBody) and request.folds is None
        if any(model.settings.get(role) for role in CENSORING) and not alone:
            raise ConflictError(
                "The model's outcomes may be censored: studies do not support censored outcomes yet, "
                "but for inclusion_by_trees without folds."
            )
        if model.settings.get("outcomes") and isinstance(request, CalibrationBody):
            raise ConflictError("The model has several outcomes: intervals of models of one are calibrated.")
        dataset = datasets.get(session, owner, model.dataset_id)
    kinds = model.settings.get("columns") or {}
    data = TrainingData(
        num_rows=round(dataset.num_rows * (1 - float(model.settings.get("holdout") or 0.0))),
        num_features=len(kinds),
        coded_columns=coded_columns(kinds, datasets.summaries_of(dataset)),
        settings=model.settings,
    )
    return StudyOfModel(model.id, KINDS[request.kind].plan(request, data, slots))


def accept(session: Session, owner: str, planned: StudyOfModel) -> StudyView:
    """Queue the planned study and return it.

    Raises
    ------
    NotFoundError
        The model was deleted meanwhile.
    QuotaError
        The owner's quota of queued work or stored bytes is exhausted.
    """
    quotas.check_queued(session, owner)
    quotas.check_stored(session, owner, planned.plan.num_bytes)
    try:
        study = store.create(
            session,
            owner=owner,
            model_id=planned.model_id,
            kind=planned.plan.kind,
            request=planned.plan.request,
            fits=planned.plan.fits,
        )
    except ModelGoneError:
        raise NotFoundError("The model was deleted meanwhile.") from None
    audit.record(session, owner, "study.created", study.id)
    return _view(session, study)


def newest(session: Session, owner: str, model_id: str, kind: str) -> StudyView | None:
    """Return the newest study of a model of that kind, with its result; None without one."""
    study = store.newest(session, owner, model_id, kind)
    return None if study is None else _view(session, study)


def result_of(engine: Engine, owner: str, kind: str, study_id: str) -> Any:
    """Return the result of a study of that kind, None before it has succeeded; raises NotFoundError."""
    with session_scope(engine, read_only=True) as session:
        return getattr(view(session, owner, study_id), kind)


def _view(session: Session, study: Study, *, with_result: bool = True) -> StudyView:
    succeeded = study.state == SUCCEEDED
    done = study.num_fits if succeeded else store.fits_done(session, study.id)
    fraction = 1.0 if succeeded else min(done / study.num_fits, 0.99)
    statistics: list[Json] = store.statistics(session, study.id) if succeeded and with_result else []
    results = {name: None for name, kind in KINDS.items() if kind.result}
    if statistics and (made := KINDS[study.kind].result):
        results[study.kind] = made(study.request, statistics)
    return filled(
        StudyView,
        study,
        request={name: value for name, value in study.request.items() if name != "at_once"},
        progress=FitsView(fraction=fraction, fits_done=done, fits=study.num_fits),
        error=if_any(ErrorView, study.error),
        **results,
    )


STUDIES = Resource("study", "/studies", store, _view, StudyPage, listed=partial(_view, with_result=False))
get, view, list_page = STUDIES.get, STUDIES.view, STUDIES.list_page
cancel, delete = STUDIES.cancel, STUDIES.delete
