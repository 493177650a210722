"""The page that makes a model: what to predict, from what, and how, each choice with its sentence."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request
from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.responses import Response

from app.api.deps import Owner, Reading, TheBell, TheEngine, TheSettings
from app.api.models import accepted
from app.dashboard import pages, snippets
from app.dashboard.forms import Form, text
from app.services import datasets, fits, health
from app.services.errors import Fault, InvalidRequestError, ServiceError
from app.services.idempotency import Answer, Asked, once

router = APIRouter(prefix="/ui/models", include_in_schema=False)
MANY = 200  # datasets to choose from
USABLE = {"number", "boolean", "category", "date"}


@dataclass(frozen=True)
class Knob:
    """A number that a fit can be told, and what it means."""

    name: str
    label: str
    default: str
    hint: str


KNOBS = (
    Knob("num_chains", "Chains", "4", "Independent runs, pooled: only several can show that they agree."),
    Knob("num_draws", "Kept draws per chain", "250", "More draws make every figure steadier, and cost time."),
    Knob(
        "thin", "Iterations per kept draw", "4", "Neighbouring draws resemble each other: one in four stays."
    ),
    Knob(
        "num_burnin",
        "Burn-in iterations",
        "",
        "Thrown away at the start. Empty: as many as sampling, up to 1000.",
    ),
    Knob("num_trees", "Trees", "200", "Each explains a little; 200 suit most data, fewer are faster."),
    Knob("seed", "Seed", "0", "The same data, settings and seed give the same bytes."),
)


@router.get("/new")
def new(request: Request, session: Reading, owner: Owner, dataset: str = "", target: str = "") -> Response:
    """The form, for a dataset when one is chosen."""
    return _page(request, session, owner, {"dataset_id": dataset, "target": target}, None)


@router.post("")
def create(
    request: Request,
    form: Form,
    session: Reading,
    engine: TheEngine,
    bell: TheBell,
    owner: Owner,
    after: BackgroundTasks,
) -> Response:
    """Start the fit; then its page. What is wrong is said on the form, which keeps what was filled in."""
    try:
        asked = fit_request(form)

        def make() -> Answer:
            answers: list[Answer] = []

            def remember(writing: Session, shown: dict[str, Any]) -> None:
                answers.append(accepted(shown))
                token.remember(writing, answers[0])

            _, shown = fits.create(engine, owner, asked, remember)
            after.add_task(bell.ring, len(shown["progress"]["chains"]))
            return answers[0]

        # Sent twice (a double click, a reload) it makes one model.
        token = Asked(owner, "form /ui/models", text(form, "once"), repr(asked))
        answer = once(engine, token, make)
    except ServiceError as error:
        if error.status not in {404, 422}:
            raise
        return _page(request, session, owner, form, error)
    return pages.see_other(f"/ui{answer.headers['Location']}")


@router.post("/estimate")
def estimate(
    request: Request, form: Form, session: Reading, engine: TheEngine, settings: TheSettings, owner: Owner
) -> Response:
    """The form again, with what the fit would take; nothing is started."""
    slots = sum(w["slots"] for w in health.workers_seen(session, settings) if w["state"] == "ok")
    try:
        cost = fits.estimated(engine, owner, fit_request(form), max(slots, 1))
    except ServiceError as error:
        if error.status not in {404, 422}:
            raise
        return _page(request, session, owner, form, error)
    return _page(request, session, owner, form, None, {"cost": cost, "slots": slots})


def fit_request(form: FormData) -> fits.FitRequest:
    """What the form asks for; raises InvalidRequestError for what is no number."""
    target = text(form, "target") or ""
    features = [name for name in form.getlist("features") if isinstance(name, str) and name != target]
    settings: dict[str, Any] = {}
    faults = []
    for knob in KNOBS:
        given = text(form, knob.name)
        if given is None:
            continue
        if given.isascii() and given.lstrip("-").isdigit() and len(given) < 20:
            settings[knob.name] = int(given)
        else:
            faults.append(Fault(knob.name, None, f"{given[:50]!r} is no whole number"))
    for name in ("family", "method"):
        if (given := text(form, name)) is not None:
            settings[name] = given
    holdout = _percent(text(form, "holdout"), faults)
    if not features:
        faults.append(Fault("features", None, "choose at least one"))
    if faults:
        raise InvalidRequestError(errors=faults)
    return fits.FitRequest(
        dataset_id=text(form, "dataset_id") or "",
        target=target,
        features=features,
        weights=text(form, "weights"),
        holdout=holdout,
        name=text(form, "name"),
        settings=settings,
    )


def _percent(given: str | None, faults: list[Fault]) -> float:
    try:
        share = float(given or 0) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.9:
        faults.append(Fault("holdout", None, "a percentage from 0 to 90"))
        return 0.0
    return share


def _page(
    request: Request,
    session: Session,
    owner: str,
    given: Mapping[str, Any],
    error: ServiceError | None,
    estimated: Mapping[str, Any] | None = None,
) -> Response:
    listed = datasets.list_page(session, owner, MANY, None).items
    chosen = given.get("dataset_id")
    dataset = (
        datasets.get(session, owner, str(chosen)) if chosen else (listed[0] if len(listed) == 1 else None)
    )
    columns: Sequence[dict[str, Any]] = [] if dataset is None else dataset.columns
    usable = [column for column in columns if column["kind"] in USABLE]
    ticked = (
        set(given.getlist("features"))
        if isinstance(given, FormData) and "sent" in given
        else {column["name"] for column in usable}
    )
    wrong: dict[str, list[str]] = {}
    known = {knob.name for knob in KNOBS} | {
        "target",
        "features",
        "holdout",
        "name",
        "weights",
        "family",
        "method",
    }
    for fault in error.errors if error is not None else ():
        field = fault.column if fault.column in known else ""
        told = fault.detail if field or not fault.column else f"{fault.column}: {fault.detail}"
        wrong.setdefault(field or "", []).append(told)
    body = {"dataset_id": dataset.id, "target": "TARGET", "holdout": 0.2} if dataset is not None else None
    return pages.render(
        request.scope,
        "new_model.html",
        status=200 if error is None else error.status,
        datasets=listed,
        dataset=dataset,
        columns=columns,
        usable=usable,
        ticked=ticked,
        knobs=KNOBS,
        given=given,
        target=given.get("target"),
        error=error,
        estimated=estimated,
        wrong=wrong,
        once=given.get("once") or secrets.token_urlsafe(16),
        families=fits.CHOICES["family"],
        methods=fits.CHOICES["method"],
        snippets=snippets.ask(request, "/models", method="POST", body=body, show='answer.json()["id"]')
        if body
        else [],
    )
