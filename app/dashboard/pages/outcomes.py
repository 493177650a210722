"""Tab of a model's page with its outcomes by week, and buttons to recalibrate and to fit again."""

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.charts import prepare_to_draw
from app.dashboard.forms.fields import SentForm
from app.dashboard.pages.models import Frame, framed_as
from app.services import health
from app.services.access.keys import READ, TRAIN
from app.services.fits import creation
from app.services.outcomes import recalibration, refit, summary
from app.web.dependencies import Owner, Reading, TheBell, TheEngine, TheSettings, TheTransactions, Writing
from app.web.scopes import GuardedRoute, needs

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)


@router.get("/{model_id}/outcomes")
@needs(READ)
def show(
    request: Request,
    session: Reading,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("outcomes")],
) -> Response:
    """Show whether the intervals hold, by week, and what to do if not."""
    model_id = frame["model"].id
    outcomes = summary.of_model(session, owner, model_id)
    return render.render(
        request.scope,
        "model_outcomes.html",
        **frame,
        outcomes=outcomes,
        version=f"{outcomes.rows}-{outcomes.era}-{outcomes.updated_at:%Y%m%d%H%M%S%f}"
        if outcomes.updated_at
        else "",
        snippets=snippets.ask(request, f"/models/{model_id}/outcomes", snippets.call("outcomes", model_id)),
    )


@router.post("/{model_id}/outcomes/recalibrate")
@needs(TRAIN)
def recalibrate(_form: SentForm, session: Writing, owner: Owner, model_id: str) -> Response:
    """Calibrate the model by its outcomes, then return to them."""
    recalibrated = recalibration.recalibrate(session, owner, model_id)
    return render.see_other(f"/ui/models/{recalibrated.model_id}/outcomes")


@router.post("/{model_id}/outcomes/refit")
@needs(TRAIN)
def fit_again(
    _form: SentForm,
    engine: TheEngine,
    transactions: TheTransactions,
    bell: TheBell,
    settings: TheSettings,
    owner: Owner,
    model_id: str,
    after: BackgroundTasks,
) -> Response:
    """Fit a new model to the dataset with the outcomes, then redirect to it."""
    with refit.grown(engine, owner, model_id, max_bytes=settings.max_body_bytes) as grown:
        plan = creation.plan(engine, owner, grown.request, slots=health.slots_now(engine, settings))
        with transactions() as transaction:
            model = creation.accept(transaction, owner, plan)
    after.add_task(bell.ring, len(model.progress.chains))
    return render.see_other(f"/ui/models/{model.id}")
