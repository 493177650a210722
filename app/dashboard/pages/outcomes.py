"""Tab of a model's page: its outcomes by week, a form to report a file of them, and what to do then."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.formatting import count
from app.dashboard.forms.fields import SentForm, reading_options, text
from app.dashboard.pages.models import Frame, framed_as
from app.dashboard.pages.studies import OwnersQueue
from app.dashboard.studio import prepare_to_draw
from app.services.access.keys import PREDICT, READ, TRAIN
from app.services.drift import summary as drift
from app.services.errors import Fault, InvalidRequestError, ServiceError
from app.services.outcomes import recalibration, refit, reports, summary, weekly
from app.services.outcomes.observed import observe
from app.services.outcomes.rows import OutcomeOptions
from app.services.predictions.file_rows import LIMITS
from app.services.predictions.rows import SentRows
from app.services.request_bodies import filled_in
from app.web.dependencies import (
    Owner,
    Reading,
    TheGate,
    ThePredictor,
    TheSettings,
    TheTransactions,
    Writing,
)
from app.web.scopes import GuardedRoute, in_thread, needs
from app.web.uploads import Upload

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
    model_id: str,  # noqa: ARG001  the frame finds it
    frame: Annotated[Frame, framed_as("outcomes")],
    *,
    reported: int | None = None,
    replaced: int = 0,
    skipped: int = 0,
) -> Response:
    """Show whether the intervals hold, by week, and what to do if not; with figures of a report just made."""
    told = ""
    if reported is not None:
        told = f"{count(reported, 'outcome')} reported"
        told += f", {replaced:,} of them in place of others" if replaced else ""
        told += f"; {count(skipped, 'row')} known before skipped" if skipped else ""
    return _page(request, session, owner, frame, told=told)


def _page(
    request: Request,
    session: Session,
    owner: str,
    frame: Frame,
    status: int = 200,
    **more: Any,
) -> Response:
    model_id = frame["model"].id
    outcomes = summary.of_model(session, owner, model_id)
    return render.render(
        request.scope,
        "model_outcomes.html",
        status=status,
        **frame,
        **{"error": None, "told": ""} | more,
        outcomes=outcomes,
        drift=drift.of_model(session, owner, model_id, 1),
        weeks_version=f"{outcomes.rows}-{outcomes.era}-{outcomes.updated_at:%Y%m%d%H%M%S%f}"
        if outcomes.updated_at
        else "",
        snippets=snippets.ask(request, f"/models/{model_id}/outcomes", snippets.call("outcomes", model_id)),
    )


@router.post("/{model_id}/outcomes")
@needs(PREDICT, body=LIMITS.bytes)
async def report(
    request: Request,
    form: SentForm,
    session: Reading,
    frame: Annotated[Frame, framed_as("outcomes")],
    received: Upload,
    predictor: ThePredictor,
    transactions: TheTransactions,
    gate: TheGate,
    owner: Owner,
    model_id: str,  # noqa: ARG001  the frame finds it
) -> Response:
    """Report the outcomes of a file's rows, and show what they say."""

    def work() -> reports.AcceptedReportView:
        if not received.filename:
            raise InvalidRequestError(errors=[Fault("file", None, "choose a file")])
        named = {name: each for name in ("key", "at", "repeated") if (each := text(form, name))}
        options = filled_in(OutcomeOptions, named)
        sent = SentRows(file=(received.file, reading_options(form)))
        if frame["model"].settings.get("time"):
            return observe(predictor, owner, frame["model"].id, options, sent)
        scored = reports.scored(predictor, owner, frame["model"].id, options, sent)
        with transactions() as transaction:
            return reports.accept(transaction, owner, scored)

    try:
        accepted = await gate.run(work)
    except ServiceError as error:
        if error.status not in {409, 413, 422}:
            raise
        return await in_thread(_page, request, session, owner, frame, error.status, error=error)
    figures = urlencode(
        {"reported": accepted.rows, "replaced": accepted.replaced, "skipped": accepted.skipped}
    )
    return render.see_other(f"/ui/models/{accepted.model_id}/outcomes?{figures}")


@router.post("/{model_id}/outcomes/recalibrate")
@needs(TRAIN)
def recalibrate(_form: SentForm, session: Writing, owner: Owner, model_id: str) -> Response:
    """Calibrate the model by its outcomes, then return to them."""
    recalibrated = recalibration.recalibrate(session, owner, model_id)
    return render.see_other(f"/ui/models/{recalibrated.model_id}/outcomes")


@router.post("/{model_id}/outcomes/policy")
@needs(TRAIN)
def set_policy(
    request: Request,
    form: SentForm,
    session: Writing,
    owner: Owner,
    frame: Annotated[Frame, framed_as("outcomes")],
    model_id: str,
) -> Response:
    """Begin or end weekly recalibration, then return to the outcomes."""
    try:
        chosen = weekly.set_policy(
            session, owner, model_id, "weekly" if text(form, "recalibrate") == "weekly" else "off"
        )
    except ServiceError as error:
        if error.status not in {409, 422}:
            raise
        return _page(request, session, owner, frame, error.status, error=error)
    return render.see_other(f"/ui/models/{chosen.model_id}/outcomes")


@router.post("/{model_id}/outcomes/refit")
@needs(TRAIN)
def fit_again(_form: SentForm, queue: OwnersQueue, settings: TheSettings, model_id: str) -> Response:
    """Fit a new model to the dataset with the outcomes, then redirect to it."""
    with refit.grown(queue.engine, queue.owner, model_id, max_bytes=settings.max_body_bytes) as grown:
        return queue.fit(grown.request)
