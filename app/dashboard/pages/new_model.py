"""The form for a new model: target, features and settings, each with a hint."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request
from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.responses import Response

from app.dashboard import formatting, render, snippets
from app.dashboard.forms import fit_fields
from app.dashboard.forms.fields import SentForm, text
from app.dashboard.forms.fit_form import KIND, body_of, field_of, fit_request
from app.services import datasets, health
from app.services.access.idempotency import IdempotentRequest, StoredResponse, once
from app.services.access.keys import READ, TRAIN
from app.services.errors import Fault, ServiceError
from app.services.fits import creation
from app.web.dependencies import Owner, Reading, TheBell, TheEngine, TheSettings, TheTransactions
from app.web.scopes import GuardedRoute, needs
from sampler.host.data import KINDS, ColumnSummary, why_it_identifies
from sampler.host.settings import ALL_SETTINGS, COLUMNS, METHODS

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)
MANY = 200  # datasets offered
USABLE = {"number", "boolean", "category", "date"}
MOST_KINDS = 200  # columns with a choice of kind on the page; the API accepts any number


@router.get("/new")
@needs(READ)
def new(request: Request, session: Reading, owner: Owner, dataset: str = "", target: str = "") -> Response:
    """Show the form, for a dataset if one is chosen."""
    return _page(request, session, owner, {"dataset_id": dataset, "target": target}, None)


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
    """Start the fit, then redirect to its page. Faults are shown on the form, which keeps its values."""
    try:
        wanted = fit_request(body_of(form))

        def make() -> StoredResponse:
            plan = creation.plan(engine, owner, wanted, slots=health.slots_now(engine, settings))
            with transactions() as transaction:
                model = creation.accept(transaction, owner, plan)
                answer = StoredResponse(303, {"Location": f"/ui/models/{model.id}"}, b"")
                token.remember(transaction, answer)
            after.add_task(bell.ring, len(model.progress.chains))
            return answer

        # A form sent twice (by a double click or a reload) creates one model.
        token = IdempotentRequest(owner, "form /ui/models", text(form, "once"), repr(wanted))
        answer = once(engine, token, make)
    except ServiceError as error:
        if error.status not in {404, 422}:
            raise
        return _page(request, session, owner, form, error)
    return render.see_other(answer.headers["Location"])


@router.post("/estimate")
@needs(TRAIN)
def estimate(
    request: Request, form: SentForm, session: Reading, engine: TheEngine, settings: TheSettings, owner: Owner
) -> Response:
    """Show the form again with the estimated cost of the fit, without starting it."""
    try:
        body = body_of(form)
        estimated = creation.estimated(engine, owner, fit_request(body), health.slots(session, settings))
    except ServiceError as error:
        if error.status not in {404, 422}:
            raise
        return _page(request, session, owner, form, error)
    return _page(request, session, owner, form, None, estimated, body)


def _page(
    request: Request,
    session: Session,
    owner: str,
    entries: Mapping[str, Any],
    error: ServiceError | None,
    estimated: creation.EstimateView | None = None,
    body: Mapping[str, Any] | None = None,
) -> Response:
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
        if isinstance(entries, FormData) and "sent" in entries
        else {
            column["name"] for column in usable if column["distinct"] > 1 and column["name"] not in numbered
        }
        | {
            column["name"]
            for column in columns
            if dataset and dataset.num_rows <= 2 * column.get("repeated", 0)
        }
    )
    wrong: dict[str, list[str]] = {}
    chosen_target = entries.get("target")
    by_field: dict[str, list[Fault]] = {}
    for fault in error.errors if error is not None else ():
        field = field_of(fault) or ("target" if fault.column == chosen_target else "")
        by_field.setdefault(field, []).append(fault)
    for field, faults in by_field.items():
        for column, detail in formatting.grouped(faults):
            wrong.setdefault(field, []).append(detail if field or not column else f"{column}: {detail}")
    opened = {
        group.title
        for group in fit_fields.FOLDED
        if any(_is_open(k.name, entries, wrong) for k in group.fields)
    }
    if _is_open("method", entries, wrong) and entries.get("method") != "bart":
        opened.add(fit_fields.METHOD_SECTION)
    if any(name.startswith(KIND) and entries.get(name) for name in entries):
        opened.add("kinds")
    if body is None and dataset is not None:
        body = {"dataset_id": dataset.id, "target": entries.get("target") or "TARGET", "holdout": 0.2}
    return render.render(
        request.scope,
        "new_model.html",
        status=200 if error is None else error.status,
        datasets=listed,
        dataset=dataset,
        columns=columns,
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
        },
        directions=fit_fields.DIRECTIONS,
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
        snippets=snippets.ask(request, "/models", _fit_call(body), method="POST", body=body) if body else [],
    )


def _is_open(name: str, entries: Mapping[str, Any], wrong: Mapping[str, Any]) -> bool:
    """Return whether a field has a value or a fault."""
    parts = (part for part in fit_fields.DIRECTIONS if part.startswith(f"{name}."))
    return name in wrong or any(entries.get(each) for each in (name, *parts))


def _fit_call(body: Mapping[str, Any]) -> str:
    others = {name: value for name, value in body.items() if name not in {"dataset_id", "target"}}
    return snippets.call("fit", body["dataset_id"], body["target"], **others)
