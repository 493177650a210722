"""A new model, or one for each value of a column: what to predict, three more questions, then a fit.

All other settings are loaded when they are asked for, with what was entered before.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request
from sqlalchemy import Engine
from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.responses import Response

from app.dashboard import formatting, render, snippets
from app.dashboard.forms import fit_fields
from app.dashboard.forms.fields import SentForm, text
from app.dashboard.forms.fit_form import KIND, body_of, field_of, request_of
from app.services import datasets, health
from app.services.access.idempotency import IdempotentRequest, InFlightError, StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.errors import Fault, ServiceError
from app.services.fits import creation
from app.services.fits.fit_request import ModelRequest
from app.services.model_sets import stored
from app.services.model_sets.stored import ModelSetRequest
from app.settings import Settings
from app.web.dependencies import Owner, Reading, TheBell, TheEngine, TheSettings, TheTransactions
from app.web.scopes import GuardedRoute, needs
from sampler.host.data import KINDS, MOST_CELLS, ColumnSummary, why_it_identifies
from sampler.host.settings import ALL_SETTINGS, COLUMNS, METHODS

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)
MANY = 200  # datasets offered
USABLE = {"number", "boolean", "category", "date"}
MOST_KINDS = 200  # columns with a choice of kind on the page; the API accepts any number
HOLDOUT = "20"  # percent, unless another share is entered
PERIODS = re.compile(r"looks like a (quarter|month|week|day as)")  # of a column's note: times as they are
# Asked of everybody; how new rows will differ are two fields of one question.
OF_FORECASTS = tuple(field.name for field in fit_fields.FORECASTS)
QUESTIONS = ("target", "missing_target", "new_rows.groups", "new_rows.later", fit_fields.TREATMENT.name, "by")


@router.get("/new")
@needs(READ)
def new(
    request: Request,
    session: Reading,
    engine: TheEngine,
    settings: TheSettings,
    owner: Owner,
    dataset: str = "",
    target: str = "",
    *,
    all: bool = False,  # noqa: A002  the name in the URL
) -> Response:
    """Ask what to predict; of a chosen target ask the rest, with what its estimate says of the rows."""
    entries = {"dataset_id": dataset, "target": target}
    if not (dataset and target) or all:
        return _page(request, session, owner, entries, full=all)
    found = datasets.get(session, owner, dataset)
    missing = next((column["missing"] for column in found.columns if column["name"] == target), 0)
    form = FormData(entries | {"holdout": HOLDOUT} | ({"missing_target": "leave_out"} if missing else {}))
    if len(found.columns) * found.num_rows > MOST_CELLS:  # the page comes first, then asks by itself
        return _page(request, session, owner, form)
    answer = _estimated(request, session, engine, settings, owner, form)
    answer.status_code = 200  # nothing was sent yet
    return answer


@router.post("")
@needs(TRAIN)
def create(
    request: Request,
    form: SentForm,
    session: Reading,
    engine: TheEngine,
    transactions: TheTransactions,
    bell: TheBell,
    settings: TheSettings,
    owner: Owner,
    after: BackgroundTasks,
) -> Response:
    """Start the fit or those of a set, then redirect to it. Faults are shown on the form, which keeps all."""

    def make() -> StoredResponse:
        slots = health.slots_now(engine, settings)
        if "by" in body:
            planned_set = stored.plan(engine, owner, request_of(ModelSetRequest, body), slots=slots)
        else:
            planned = creation.plan(engine, owner, request_of(ModelRequest, body).fit_request(), slots=slots)
        with transactions() as transaction:
            if "by" in body:
                at, units = f"/ui/model-sets/{stored.accept(transaction, owner, planned_set).id}", 1
            else:
                model = creation.accept(transaction, owner, planned)
                at, units = f"/ui/models/{model.id}", len(model.progress.chains)
            answer = StoredResponse(303, {"Location": at}, b"")
            token.remember(transaction, answer)
        after.add_task(bell.ring, units)
        return answer

    try:
        body = body_of(form)
        # A form sent twice (by a double click or a reload) creates one model; one that was gone back to and
        # changed creates another.
        content = hashlib.sha256(repr(body).encode()).hexdigest()
        key = f"{sent} {content}" if (sent := text(form, "once")) else None
        token = IdempotentRequest(owner, "form /ui/models", key, content)
        answer = once(engine, token, make)
    except InFlightError:  # of two clicks without JavaScript; the model of the first comes there
        return render.see_other("/ui/models")
    except ServiceError as error:
        if error.status not in {404, 422}:
            raise
        return _page(request, session, owner, form, error)
    return render.see_other(answer.headers["Location"])


@router.post("/settings")
@needs(READ)
def all_settings(request: Request, form: SentForm, session: Reading, owner: Owner) -> Response:
    """Show the form with all settings, and what was entered before."""
    return _page(request, session, owner, form, full=True)


@router.post("/estimate")
@needs(TRAIN)
def estimate(
    request: Request, form: SentForm, session: Reading, engine: TheEngine, settings: TheSettings, owner: Owner
) -> Response:
    """Show the form again with the estimated cost of the fit, without starting it."""
    return _estimated(request, session, engine, settings, owner, form)


def _estimated(
    request: Request, session: Session, engine: Engine, settings: Settings, owner: str, form: FormData
) -> Response:
    """Render the form with the estimated cost of a fit, or of the first of a set; or with what is wrong."""
    slots, models = health.slots(session, settings), 0
    try:
        body = body_of(form)
        if "by" in body:
            planned = stored.plan(engine, owner, request_of(ModelSetRequest, body), slots=slots)
            estimate, models = creation.cost_of(planned.first, slots), len(planned.groups)
        else:
            asked = request_of(ModelRequest, body).fit_request()
            estimate = creation.estimated(engine, owner, asked, slots)
    except ServiceError as error:
        if error.status not in {404, 422}:
            raise
        return _page(request, session, owner, form, error)
    return _page(request, session, owner, form, estimated=estimate, models=models, body=body)


def _page(
    request: Request,
    session: Session,
    owner: str,
    entries: Mapping[str, Any],
    error: ServiceError | None = None,
    estimated: creation.EstimateView | None = None,
    models: int = 0,
    body: Mapping[str, Any] | None = None,
    *,
    full: bool = False,
) -> Response:
    """Render the questions, and all settings where they are asked for or one of them is at fault."""
    listed = datasets.list_page(session, owner, MANY, None).items
    chosen = entries.get("dataset_id") or (listed[0].id if len(listed) == 1 else None)
    dataset = datasets.get(session, owner, str(chosen), profiles=True) if chosen else None
    profiles = [] if dataset is None else dataset.profiles or [{}] * len(dataset.columns)
    columns: Sequence[dict[str, Any]] = [] if dataset is None else dataset.columns
    usable = [column for column in columns if column["kind"] in USABLE]
    num_rows = None if dataset is None else dataset.num_rows
    numbered = {
        column["name"]: why
        for column in usable
        if (why := why_it_identifies(ColumnSummary.from_json(column), num_rows))
    }
    ticked = (
        set(entries.getlist("features"))
        if isinstance(entries, FormData) and "all" in entries
        else {
            column["name"] for column in usable if column["distinct"] > 1 and column["name"] not in numbered
        }
        | {
            column["name"]
            for column in columns
            if dataset and dataset.num_rows <= 2 * column.get("repeated", 0)
        }
    )
    chosen_target = entries.get("target")
    wrong = _faults(error, entries)
    full = full or "all" in entries or bool({*wrong} - {"", *QUESTIONS})
    opened = {
        group.title
        for group in fit_fields.FOLDED
        if any(_is_open(k.name, entries, wrong) for k in group.fields)
    }
    if _is_open("method", entries, wrong) and entries.get("method") != "bart":
        opened.add(fit_fields.METHOD_SECTION)
    if any(_is_open(name, entries, wrong) for name in OF_FORECASTS):
        opened.add("forecasts")
    if any(name.startswith(KIND) and entries.get(name) for name in entries):
        opened.add("kinds")
    is_new_forecast = bool(entries.get("time")) and "all" not in entries
    return render.render(
        request.scope,
        "new_model.html",
        status=200 if error is None else error.status,
        datasets=listed,
        dataset=dataset,
        full=full,
        models=models,
        columns=columns,
        times=[each["name"] for each in columns if each["kind"] == "date" or PERIODS.search(each["note"])],
        wide=dataset and (dataset.read_as or {}).get("wide"),
        usable=usable,
        fits={
            column["name"]: fit_fields.fitted_as(column, profile)
            for column, profile in zip(columns, profiles, strict=True)
            if column["kind"] in USABLE
        },
        ticked=ticked,
        numbered=numbered,
        picked={
            name: {*entries.getlist(name)} if isinstance(entries, FormData) else {entries.get(name)}
            for name in (*fit_fields.OF_COLUMNS, *fit_fields.DIRECTIONS, "others")
        }
        | ({"series": _series_of(columns, entries["time"], num_rows or 0)} if is_new_forecast else {}),
        treatment=fit_fields.TREATMENT,
        directions=fit_fields.DIRECTIONS,
        forecasts=fit_fields.FORECASTS,
        columns_section=COLUMNS,
        method_section=fit_fields.METHOD_SECTION,
        kinds=KINDS,
        kind_field=KIND,
        most_kinds=MOST_KINDS,
        shown=fit_fields.SHOWN,
        folded=fit_fields.FOLDED,
        opened=opened,
        given=entries,
        target=chosen_target,
        without_target=next((c["missing"] for c in columns if c["name"] == chosen_target), 0),
        error=error,
        estimated=estimated,
        wrong=wrong,
        once=entries.get("once") or secrets.token_urlsafe(16),
        families=fit_fields.FAMILY_LABELS,
        methods=METHODS,
        calibrate=ALL_SETTINGS["calibrate"].form,
        method_words=formatting.METHODS,
        snippets=_snippets(request, dataset.id, body) if dataset is not None else [],
    )


def _series_of(columns: Sequence[Mapping[str, Any]], time: Any, num_rows: int) -> set[str]:
    """Guess the column of series: the category of the fewest levels that may tell rows of one time apart."""
    times = next((column["distinct"] for column in columns if column["name"] == time), num_rows)
    levels = {each["name"]: each["distinct"] for each in columns if each["kind"] == "category"}
    able = [name for name, count in levels.items() if times < num_rows <= count * times]
    return {min(able, key=levels.__getitem__)} if able else set()


def _faults(error: ServiceError | None, entries: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong by the field that it concerns, or that names its column; by "" the rest."""
    columns = {entries.get(name): name for name in (*fit_fields.OF_COLUMNS, *QUESTIONS) if entries.get(name)}
    by_field: dict[str, list[Fault]] = {}
    for fault in error.errors if error is not None else ():
        by_field.setdefault(field_of(fault) or columns.get(fault.column, ""), []).append(fault)
    return {
        field: [
            detail if field or not column else f"{column}: {detail}"
            for column, detail in formatting.grouped(faults)
        ]
        for field, faults in by_field.items()
    }


def _is_open(name: str, entries: Mapping[str, Any], wrong: Mapping[str, Any]) -> bool:
    """Return whether a field has a value or a fault."""
    parts = (part for part in fit_fields.DIRECTIONS if part.startswith(f"{name}."))
    return name in wrong or any(entries.get(each) for each in (name, *parts))


def _snippets(request: Request, dataset_id: str, body: Mapping[str, Any] | None) -> list[snippets.Snippet]:
    """Return the commands that make the model or the set; before an estimate with a word for the target."""
    body = body or {"dataset_id": dataset_id, "target": "TARGET", "holdout": float(HOLDOUT) / 100}
    others = {name: value for name, value in body.items() if name not in {"dataset_id", "target"}}
    path, name = ("/model-sets", "fit_many") if "by" in body else ("/models", "fit")
    call = snippets.call(name, body["dataset_id"], body["target"], **others)
    return snippets.ask(request, path, call, method="POST", body=body)
