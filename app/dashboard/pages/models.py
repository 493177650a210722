"""Pages of models: the list, one model, and its actions."""

from contextlib import suppress
from typing import Any

import pyarrow as pa
from fastapi import APIRouter, BackgroundTasks, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.dashboard import formatting, render, snippets
from app.dashboard.forms import fit_fields
from app.dashboard.forms.fields import SentForm, text
from app.services import datasets, health
from app.services.access.keys import READ, TRAIN
from app.services.errors import Fault, InvalidRequestError, NotFoundError, ServiceError
from app.services.fits import events, lifecycle, models
from app.services.predictions import explanations
from app.services.predictions.answers import to_csv
from app.web.dependencies import Deleting, Owner, Reading, TheBell, ThePredictor, TheSettings, Writing
from app.web.negotiation import CSV
from app.web.paging import Cursor
from app.web.scopes import GuardedRoute, needs
from sampler.posterior.answer_columns import percent

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)
ON_A_PAGE = 25
EVENTS = 50
UNTIL_CONVERGED = {"verdict": "converged"}


@router.get("")
@needs(READ)
def list_models(request: Request, session: Reading, owner: Owner, cursor: Cursor = None) -> Response:
    """Show your models, newest first, with their progress."""
    page = models.list_page(session, owner, ON_A_PAGE, cursor)
    listing = snippets.ask(request, "/models", "list(bart.models())", query={"limit": ON_A_PAGE})
    return render.render(
        request.scope, "models.html", models=page.items, next_cursor=page.next_cursor, snippets=listing
    )


@router.get("/{model_id}")
@needs(READ)
def show(
    request: Request,
    session: Reading,
    settings: TheSettings,
    owner: Owner,
    model_id: str,
    before: str | None = None,
) -> Response:
    """Show a model: its progress, its verdict, and its scores on held-out rows."""
    model = models.view(session, owner, model_id)
    model_id = model.id
    log = events.back(session, owner, model_id, EVENTS, before)
    return render.render(
        request.scope,
        "model.html",
        **framed(session, owner, model, "overview"),
        facts=fit_fields.facts(model.settings),
        held_out=held_out_of(session, owner, model),
        events=log.items,
        older=log.next_cursor,
        looks_back=before is not None,
        error_advice=formatting.advice_on(model.error),
        continuation=_continuation(session, owner, model, health.slots(session, settings)),
        snippets=snippets.ask(request, f"/models/{model_id}", snippets.call("model", model_id)),
    )


def framed(session: Session, owner: str, model: models.FittedModel, tab: str) -> dict[str, Any]:
    """Return the values common to all pages of a model."""
    dataset = None
    if model.dataset_id is not None:
        with suppress(NotFoundError):
            dataset = datasets.get(session, owner, model.dataset_id, profiles=True)
    version = f"{model.draws}-{model.finished_at or ''}"
    return {
        "model": model,
        "tab": tab,
        "dataset": dataset,
        "drawn": "".join(letter for letter in version if letter.isalnum() or letter == "-"),
    }


def _continuation(
    session: Session, owner: str, model: models.FittedModel, slots: int
) -> lifecycle.Extension | ServiceError | None:
    """Return the plan that continues a model until it has converged, or why there is none.

    None for a model that has converged, or hasn't succeeded.
    """
    if model.state != "succeeded" or model.verdict in {None, "converged"}:
        return None
    try:
        return lifecycle.plan_extension(session, owner, model.id, stop=UNTIL_CONVERGED, slots=slots)
    except ServiceError as error:
        return error


def held_out_of(session: Session, owner: str, model: models.FittedModel) -> explanations.HeldOut | None:
    """Return the held-out rows of a succeeded model with a holdout, else None."""
    if model.state != "succeeded" or model.holdout is None:
        return None
    with suppress(NotFoundError):
        return explanations.held_out(session, owner, model.id)
    return None


@router.get("/{model_id}/held-out.csv")
@needs(READ)
def held_out_rows(session: Reading, owner: Owner, model_id: str) -> Response:
    """Return the held-out rows with their predictions as a CSV file; classes by their labels."""
    found = explanations.held_out(session, owner, model_id)
    columns = dict(found.rows)
    if labels := found.classes:
        for name in {"actual", "predicted"} & set(columns):
            columns[name] = [labels[int(k)] for k in columns[name]]
    ends = {end: f"{end}_{percent(found.level)}" for end in ("lower", "upper")}
    table = pa.table({ends.get(name, name): values for name, values in columns.items()})
    headers = {"Content-Disposition": 'attachment; filename="held-out.csv"', "Cache-Control": "no-store"}
    return Response(to_csv(table), media_type=CSV, headers=headers)


@router.post("/{model_id}/cancel")
@needs(TRAIN)
def cancel(_form: SentForm, session: Writing, owner: Owner, model_id: str) -> Response:
    """Cancel a model; its draws are kept."""
    models.cancel(session, owner, model_id)
    return render.see_other(f"/ui/models/{model_id}")


@router.post("/{model_id}/retry")
@needs(TRAIN)
def retry(
    _form: SentForm, session: Writing, bell: TheBell, owner: Owner, model_id: str, after: BackgroundTasks
) -> Response:
    """Continue a model where its chains ended."""
    model = lifecycle.retry(session, owner, model_id)
    after.add_task(bell.ring, len(model.progress.chains))
    return render.see_other(f"/ui/models/{model_id}")


@router.post("/{model_id}/extend")
@needs(TRAIN)
def extend(
    form: SentForm,
    session: Writing,
    bell: TheBell,
    settings: TheSettings,
    owner: Owner,
    model_id: str,
    after: BackgroundTasks,
) -> Response:
    """Draw more from a model's chains: a number of draws, or until they have converged."""
    models.get(session, owner, model_id)
    slots = health.slots(session, settings)
    given = text(form, "num_draws") or ""
    if text(form, "until") == "converged":
        model = lifecycle.extend(session, owner, model_id, stop=UNTIL_CONVERGED, slots=slots)
    elif not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= lifecycle.MAX_DRAWS):
        told = f"a whole number from 1 to {lifecycle.MAX_DRAWS}"
        raise InvalidRequestError(errors=[Fault("num_draws", None, told)])
    else:
        model = lifecycle.extend(session, owner, model_id, int(given[:9]), slots=slots)
    after.add_task(bell.ring, len(model.progress.chains))
    return render.see_other(f"/ui/models/{model_id}")


@router.post("/{model_id}/delete")
@needs(TRAIN)
def delete(
    _form: SentForm, session: Deleting, predictor: ThePredictor, owner: Owner, model_id: str
) -> Response:
    """Delete a model with its draws."""
    predictor.cache.drop(models.delete(session, owner, model_id))
    return render.see_other("/ui/models")
