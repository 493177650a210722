"""Pages of models: the list, one model, and its actions."""

from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import pyarrow as pa
from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.dashboard import comparison, overview, render, snippets
from app.dashboard.forms import fit_fields
from app.dashboard.forms.fields import SentForm, text
from app.dashboard.pages.studies import OwnersQueue, newest_of
from app.dashboard.studio import prepare_to_draw
from app.services import datasets, health
from app.services.access.keys import READ, TRAIN
from app.services.errors import ConflictError, Fault, InvalidRequestError, NotFoundError, ServiceError
from app.services.explanations import comparison as comparisons
from app.services.explanations import diagnostics
from app.services.fits import models, requests, restarts
from app.services.fits.models import ModelView
from app.services.predictions.csv_tables import to_csv
from app.services.request_bodies import MAX_NAME
from app.services.studies.stored import StudyView
from app.web.dependencies import (
    Deleting,
    Owner,
    Reading,
    TheBell,
    ThePredictor,
    TheSettings,
    Writing,
)
from app.web.negotiation import CSV
from app.web.paging import Cursor
from app.web.scopes import GuardedRoute, needs
from sampler.host.settings import FIELD_LABELS

Frame = dict[str, Any]  # values common to all pages of a model
OutcomeInQuery = Annotated[str | None, Query(max_length=MAX_NAME)]  # default: the first
router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)
ON_A_PAGE = 25
SEARCHED = 500  # newest models that are searched and sorted
MOST_COMPARED = 4
MOST_LETTERS = 200  # longest text of a setting in a comparison
UNTIL_CONVERGED = {"verdict": "converged"}


SortColumn = Literal[
    "model", "target", "error", "skill", "coverage", "verdict", "method", "rows", "time", "created"
]


@router.get("")
@needs(READ)
def list_models(
    request: Request,
    session: Reading,
    owner: Owner,
    cursor: Cursor = None,
    q: Annotated[str, Query(max_length=200)] = "",
    sort: SortColumn | None = None,
    order: Literal["up", "down"] | None = None,
) -> Response:
    """Show your models with their figures: newest first, page by page; or the newest searched and sorted."""
    everything = bool(q.strip()) or sort is not None
    page = models.list_page(session, owner, SEARCHED if everything else ON_A_PAGE, cursor)
    rows = [comparison.figures_of(model) for model in comparison.matching(page.items, q)]
    if sort is not None:
        reverse = order == "down" if order else sort in comparison.LARGEST_FIRST
        rows = comparison.ordered(rows, sort, reverse=reverse)
    listing = snippets.ask(request, "/models", "list(bart.models())", query={"limit": ON_A_PAGE})
    return render.render(
        request.scope,
        "models.html",
        models=[row.model for row in rows],
        rows=rows,
        q=q,
        sort=sort,
        orders=_orders(sort, order),
        everything=everything,
        next_cursor=page.next_cursor,
        searched=len(page.items),
        snippets=listing,
    )


def _orders(sort: str | None, order: str | None) -> dict[str, tuple[str, str]]:
    """Return for each column the order that its heading requests, and its present `aria-sort`."""
    orders = {}
    for name in comparison.ORDERS:
        down = name in comparison.LARGEST_FIRST
        if name == sort:
            down = order == "down" if order else down
            orders[name] = ("up" if down else "down", "descending" if down else "ascending")
        else:
            orders[name] = ("down" if down else "up", "none")
    return orders


@router.get("/compare")
@needs(READ)
def compare(
    request: Request,
    session: Reading,
    owner: Owner,
    model: Annotated[list[str] | None, Query(max_length=MOST_COMPARED)] = None,
) -> Response:
    """Show two or more models side by side: figures, the settings that differ, and held-out rows."""
    chosen = [models.view(session, owner, model_id) for model_id in dict.fromkeys(model or [])]
    if len(chosen) < 2:
        message = f"choose 2 to {MOST_COMPARED} models in the list"
        raise InvalidRequestError(errors=[Fault("model", None, message)])
    return render.render(
        request.scope,
        "model_compare.html",
        rows=[comparison.figures_of(each) for each in chosen],
        units={each.id: models.unit_of(session, each, None) for each in chosen},
        differing=[
            (FIELD_LABELS.get(name, name.replace("_", " ")), [_as_text(value, name) for value in values])
            for name, values in comparison.differing(chosen)
        ],
        differences=[_compared(session, owner, chosen[0], each) for each in chosen],
        charts=[(each, version_of(each)) for each in chosen if held_out_of(session, owner, each)],
        snippets=snippets.ask(request, "/models", "list(bart.models())", query={"limit": ON_A_PAGE}),
    )


def _compared(session: Session, owner: str, first: ModelView, other: ModelView) -> Any:
    """Compare a model with the first one, where both held out the same rows."""
    if other is first:
        return None
    try:
        return comparisons.compare(session, owner, other.id, first.id)
    except ConflictError:
        return None


def _as_text(value: Any, name: str) -> str:
    """Return a setting as text, shortened."""
    text = fit_fields.in_words(value, name)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"


@router.post("/{model_id}/refit")
@needs(TRAIN)
def refit(form: SentForm, queue: OwnersQueue, model_id: str) -> Response:
    """Fit a new model like this one to all rows, or with another noise to the same, then redirect to it."""
    noise = text(form, "noise")
    changes = {"noise": noise} if noise else None
    return queue.fit(requests.request_like(queue.engine, queue.owner, model_id, changes=changes))


def _continuation(
    session: Reading, settings: TheSettings, owner: Owner, model_id: str
) -> restarts.ExtensionView | ServiceError | None:
    """Return the plan that continues a model until it has converged, or why there is none.

    None for a model that has converged, or hasn't succeeded.
    """
    model = models.get(session, owner, model_id)
    if model.state != "succeeded" or model.verdict in {None, "converged"}:
        return None
    slots = health.slots(session, settings)
    try:
        return restarts.plan_extension(session, owner, model.id, stop=UNTIL_CONVERGED, slots=slots)
    except ServiceError as error:
        return error


Continuation = Annotated[restarts.ExtensionView | ServiceError | None, Depends(_continuation)]


@router.get("/{model_id}")
@needs(READ)
def show(
    request: Request,
    session: Reading,
    owner: Owner,
    model_id: str,
    continuation: Continuation,
    calibration: Annotated[StudyView | None, newest_of("calibration")],
    outcome: OutcomeInQuery = None,
) -> Response:
    """Show a model: its progress, or how good it is, and the next step."""
    model = models.view(session, owner, model_id, outcome)
    frame = framed(session, owner, model, "overview")
    called = snippets.ask(request, f"/models/{model.id}", snippets.call("model", model.id))
    if model.settings.get("time"):
        return render.render(request.scope, "model_forecaster.html", **frame, snippets=called)
    situation = overview.Situation(
        model,
        has_dataset=frame["dataset"] is not None,
        calibrating=calibration is not None and calibration.state in ("queued", "running"),
        continuation=continuation,
    )
    return render.render(
        request.scope,
        "model.html",
        **frame,
        held_out=held_out_of(session, owner, model),
        standing=overview.standing(situation),
        step=overview.next_step(situation),
        snippets=called,
    )


def framed(session: Session, owner: str, model: models.ModelView, tab: str) -> Frame:
    """Return the values common to all pages of a model; `asked` is the outcome in the query, if any."""
    dataset = None
    if model.dataset_id is not None:
        with suppress(NotFoundError):
            dataset = datasets.get(session, owner, model.dataset_id, profiles=True)
    unit = models.unit_of(session, model, None if dataset is None else dataset.read_as or {})
    names = model.settings.get("outcomes", [model.target])
    asked = [] if model.target == names[0] else [("outcome", model.target)]
    drawn = urlencode([("v", version_of(model)), *asked]).removeprefix("v=")  # ends addresses of charts
    return {
        "model": model, "tab": tab, "dataset": dataset, "unit": unit, "drawn": drawn, "asked": asked,
        "of_outcome": f"?{urlencode(asked)}" if asked else "",
    }  # fmt: skip


def framed_as(tab: str) -> Any:
    """Return a dependency: the values common to all pages of the model in the path."""

    def frame(session: Reading, owner: Owner, model_id: str, outcome: OutcomeInQuery = None) -> Frame:
        return framed(session, owner, models.view(session, owner, model_id, outcome), tab)

    return Depends(frame)


def version_of(model: models.ModelView) -> str:
    """Return the version of a model's draws, for the addresses of its charts."""
    version = f"{model.draws}-{model.finished_at or ''}"
    return "".join(letter for letter in version if letter.isalnum() or letter == "-")


def held_out_of(session: Session, owner: str, model: models.ModelView) -> diagnostics.HeldOut | None:
    """Return the held-out rows of a succeeded model with a holdout, else None."""
    if model.state != "succeeded" or model.holdout is None:
        return None
    with suppress(NotFoundError):
        return diagnostics.held_out(session, owner, model.id, model.target)
    return None


@router.get("/{model_id}/held-out.csv")
@needs(READ)
def held_out_rows(session: Reading, owner: Owner, model_id: str, outcome: OutcomeInQuery = None) -> Response:
    """Return the held-out rows with their predictions as a CSV file; classes by their labels."""
    held_out = diagnostics.held_out(session, owner, model_id, outcome)
    columns: dict[str, Any] = {name: each for name, each in held_out.rows.items() if each is not None}
    if labels := held_out.classes:
        for name in {"actual", "predicted"} & set(columns):
            columns[name] = [labels[int(k)] for k in columns[name]]
    ends = {end: f"{end}_{100 * held_out.level:g}" for end in ("lower", "upper")}
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
    model = restarts.retry(session, owner, model_id)
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
    typed = text(form, "num_draws") or ""
    if text(form, "until") == "converged":
        model = restarts.extend(session, owner, model_id, stop=UNTIL_CONVERGED, slots=slots)
    elif not (typed.isascii() and typed.isdigit() and 1 <= int(typed[:9]) <= restarts.MAX_DRAWS):
        message = f"a whole number from 1 to {restarts.MAX_DRAWS}"
        raise InvalidRequestError(errors=[Fault("num_draws", None, message)])
    else:
        model = restarts.extend(session, owner, model_id, int(typed[:9]), slots=slots)
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
