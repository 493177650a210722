"""Tabs of a model's page: chains, features, effects, and the prediction of one row.

The figures need a core for a moment, so they are computed behind the gate, as in the API.
"""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.charts import SWARM_ROWS, prepare_to_draw, row_values
from app.dashboard.drawing.effects import height as chart_height
from app.dashboard.drawing.effects import is_ordered
from app.dashboard.drawing.reasons import height as swarm_height
from app.dashboard.pages.models import framed
from app.dashboard.pages.studies import newest_of
from app.services.access.keys import PREDICT, READ
from app.services.errors import (
    InvalidRequestError,
    NotFinishedError,
    ServiceError,
    TooLargeError,
    UnusableDataError,
)
from app.services.explanations import (
    accumulated_effects,
    convergence,
    densities,
    groups,
    importance,
    partial_dependence,
    shap_values,
    survival,
)
from app.services.explanations.accumulated_effects import Accumulation, AccumulationRequest
from app.services.explanations.partial_dependence import Dependence, DependenceRequest
from app.services.explanations.shap_values import ReasonsOfRows, ShapRequest
from app.services.explanations.survival import SurvivalRequest
from app.services.fits import models
from app.services.predictions.predict_rows import Predictor, PredictRequest
from app.services.studies.stored import ModelStudy
from app.web.dependencies import Owner, Reading, TheGate, ThePredictor
from app.web.middleware.concurrency import GateOf
from app.web.scopes import GuardedRoute, needs

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)
LEVELS = (0.5, 0.9)
MOST_REASONS = 20  # features in the table of reasons
MOST_GROUPS = 20  # in the table of intercepts: the largest and the smallest
Frame = dict[str, Any]


def framed_as(tab: str) -> Any:
    """Return a dependency: the values common to all pages of the model in the path."""

    def frame(session: Reading, owner: Owner, model_id: str) -> Frame:
        return framed(session, owner, models.view(session, owner, model_id), tab)

    return Depends(frame)


@router.get("/{model_id}/chains")
@needs(READ)
async def chains(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("chains")],
) -> Response:
    """Show the convergence of the chains: traces, ranks, and diagnostics by draws, also during the fit."""
    model_id = frame["model"].id
    weights = (frame["model"].diagnostics or {}).get("weights")

    def find() -> convergence.Growth | None:
        if weights is not None:
            return None  # weighted particles come all at once: runs are compared instead
        try:
            return convergence.growth(predictor, owner, model_id)
        except NotFinishedError:
            return None  # no draws yet

    found = await gate.run(find)
    path, call = f"/models/{model_id}/diagnostics", snippets.call("diagnostics", model_id)
    if frame["model"].state != "succeeded":
        path, call = f"{path}/growth", snippets.call("growth", model_id)
    return render.render(
        request.scope,
        "model_chains.html",
        **frame,
        growth=found,
        weights=weights,
        topologies=(frame["model"].diagnostics or {}).get("topologies"),
        snippets=snippets.ask(request, path, call),
    )


@router.get("/{model_id}/features")
@needs(READ)
async def features(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("features")],
    selection: Annotated[ModelStudy | None, newest_of("selection")],
    *,
    pairs: bool = False,
) -> Response:
    """Show how much each feature matters for held-out rows, its share of the rules, and selected ones.

    With `pairs` also how strongly each two act together.
    """
    model_id = frame["model"].id
    found, grouped = None, list[dict[str, Any]]()
    together, refused = None, None
    if frame["model"].state == "succeeded":
        found = await gate.run(lambda: importance.importance(predictor, owner, model_id, 0.9))
        grouped = await gate.run(lambda: groups.groups(predictor, owner, model_id, 0.9).columns)
        if pairs:
            try:
                together = await gate.run(
                    lambda: importance.interactions(predictor, owner, model_id, None, 0.9)
                )
            except InvalidRequestError as error:
                refused = error
    path = f"/models/{model_id}/variable-importance"
    return render.render(
        request.scope,
        "model_features.html",
        **frame,
        importance=found,
        together=together,
        refused=refused,
        grouped=grouped,
        most_groups=MOST_GROUPS,
        selection=selection,
        snippets=snippets.ask(request, path, snippets.call("importance", model_id)),
    )


@router.get("/{model_id}/effects")
@needs(PREDICT)
async def effects(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("effects")],
    feature: Annotated[list[str] | None, Query(max_length=2)] = None,
) -> Response:
    """Show how predictions change with one or two features."""
    model_id = frame["model"].id
    chosen = list(dict.fromkeys(name for name in feature or () if name))
    names: list[str] = []
    found, along, swarm = None, None, None
    if frame["model"].state == "succeeded":

        def find() -> tuple[list[str], Dependence, Accumulation | None, ReasonsOfRows | None]:
            ranked = importance.importance(predictor, owner, model_id, 0.9)
            listed = [each.name for each in (ranked.permutation or ranked).features]
            asked = DependenceRequest(features=chosen or listed[:1])
            effect = partial_dependence.dependence(predictor, owner, model_id, asked)
            return (
                listed,
                effect,
                _accumulated(predictor, owner, model_id, effect.features),
                _reasons_of_rows(predictor, owner, model_id),
            )

        names, found, along, swarm = await gate.run(find)
        chosen = found.features
    body = {"features": chosen, "level": 0.9}
    path = f"/models/{model_id}/partial-dependence"
    return render.render(
        request.scope,
        "model_effects.html",
        **frame,
        names=names,
        chosen=chosen,
        found=found,
        along=along,
        swarm=swarm,
        swarm_height=round(100 * swarm_height(len(swarm.features))) if swarm else 0,
        height=round(100 * chart_height(found.grid, len(found.classes or ()))) if found else 0,
        by_level=found is not None and not is_ordered(found.grid[0]),
        by_point=_by_point(found) if found and len(found.classes or ()) > 2 else [],
        query=urlencode([("feature", name) for name in chosen]),
        snippets=snippets.ask(
            request,
            path,
            snippets.call("partial_dependence", model_id, chosen, level=0.9),
            method="POST",
            body=body,
        ),
    )


def _accumulated(predictor: Predictor, owner: str, model_id: str, features: list[str]) -> Accumulation | None:
    """Return the accumulated effects of a feature; None for two, and for one without an order."""
    if len(features) > 1:
        return None
    try:
        asked = AccumulationRequest(features[0])
        return accumulated_effects.accumulate(predictor, owner, model_id, asked)
    except (InvalidRequestError, TooLargeError, UnusableDataError):
        return None


def _reasons_of_rows(predictor: Predictor, owner: str, model_id: str) -> ReasonsOfRows | None:
    """Return the SHAP values of training rows; None where the model has no such values."""
    try:
        asked = ShapRequest(num_rows=SWARM_ROWS)
        return shap_values.reasons_of(shap_values.explain(predictor, owner, model_id, asked))
    except (InvalidRequestError, TooLargeError, UnusableDataError):
        return None


def _by_point(result: Dependence) -> list[dict[str, Any]]:
    """Return each point of a grid with its values, and the mean and interval of each class."""
    interval = result.intervals[0]
    shape = [len(points) for points in result.grid]
    tables = {"mean": result.mean, "lower": interval.lower, "upper": interval.upper}
    flat = {name: np.reshape(values, (np.prod(shape), -1)).tolist() for name, values in tables.items()}
    return [
        {"at": values, **{name: figures[i] for name, figures in flat.items()}}
        for i, values in enumerate(product(*result.grid))
    ]


@router.get("/{model_id}/predict")
@needs(PREDICT)
async def predict(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("predict")],
) -> Response:
    """Show forms for a row and for a file; with values in the query, also the prediction of the row."""
    model_id = frame["model"].id
    return await predict_page(request, predictor, gate, owner, model_id, frame)


async def predict_page(
    request: Request,
    predictor: Predictor,
    gate: GateOf,
    owner: str,
    model_id: str,
    frame: Frame,
    *,
    of_file: Any = None,
    file_snippets: list[snippets.Snippet] | None = None,
) -> Response:
    """Render the page of predictions; `of_file` is the preview of a file, or why there is none."""
    asked = "f0" in request.query_params
    found = await gate.run(lambda: _predicted(predictor, owner, model_id, frame, request, submitted=asked))
    error = of_file if isinstance(of_file, ServiceError) else found["error"]
    body = {"rows": [found["row"]], "level": list(LEVELS), "interval": found["interval"]}
    of_row = snippets.call(
        "predict", model_id, [found["row"]], level=list(LEVELS), interval=found["interval"]
    )
    path = f"/models/{model_id}/predict"
    row_snippets = snippets.ask(request, path, of_row, method="POST", body=body) if found["row"] else []
    return render.render(
        request.scope,
        "model_predict.html",
        status=200 if error is None else error.status,
        **frame,
        **found,
        of_file=None if isinstance(of_file, ServiceError) else of_file,
        file_error=of_file if isinstance(of_file, ServiceError) else None,
        query=urlencode([(name, value) for name, value in request.query_params.items() if name[:1] == "f"]),
        snippets=file_snippets or row_snippets,
    )


def _predicted(
    predictor: Predictor, owner: str, model_id: str, frame: Frame, request: Request, *, submitted: bool
) -> dict[str, Any]:
    model, dataset = frame["model"], frame["dataset"]
    interval = "credible" if model.settings.get("family") in ("probit", "categorical") else "predictive"
    nothing: dict[str, Any] = {
        "columns": [],
        "given": [],
        "row": None,
        "answer": None,
        "error": None,
        "wrong": {},
        "interval": interval,
        "reasons": None,
        "survival": None,
        "calibrated": None,
    }
    if not model.draws:
        return nothing
    profiles = {}
    if dataset is not None and dataset.profiles:
        profiles = dict(zip((c["name"] for c in dataset.columns), dataset.profiles, strict=True))
    columns = densities.features(predictor, owner, model_id, profiles)
    usual = [typed(column.typical) for column in columns]
    given = row_values(request, len(columns)) if submitted else usual
    found = nothing | {"columns": columns, "given": given}
    try:
        found["row"] = densities.row_of(columns, given)
        if submitted:
            wanted = PredictRequest(
                rows=[found["row"]], levels=LEVELS, interval=interval, mcse=True, rhat=True
            )
            found["answer"] = predictor.predict(owner, model_id, wanted).to_json()
            wanted = PredictRequest(rows=[found["row"]], levels=LEVELS, interval="credible")
            found["credible"] = predictor.predict(owner, model_id, wanted).to_json()
            if model.calibration is not None:
                wanted = PredictRequest(rows=[found["row"]], interval="calibrated")
                found["calibrated"] = predictor.predict(owner, model_id, wanted).to_json()
            found["reasons"] = _reasons(predictor, owner, model_id, found["row"])
            if any(model.settings.get(role) for role in ("event", "lower", "upper")):
                found["survival"] = _survival(predictor, owner, model_id, found["row"])
    except ServiceError as error:
        if error.status != 422:
            raise
        found["error"] = error
        found["wrong"] = {fault.column: fault.detail for fault in error.errors}
    return found


@dataclass(frozen=True)
class FeatureEffect:
    """Effect of a feature on a prediction, and its bar: left end, width and mark, of a scale of 120."""

    name: str
    value: Any
    mean: float
    lower: float
    upper: float
    bar: tuple[float, float, float]


@dataclass(frozen=True)
class Reasons:
    """SHAP values of one row, the largest first; `zero` is where no effect is on the bars' scale."""

    scale: str
    base: float
    f: float
    reasons: list[FeatureEffect]
    zero: float


def _survival(
    predictor: Predictor, owner: str, model_id: str, row: dict[str, Any]
) -> survival.Survival | None:
    """Return the survival curve of a row; None while the model is fitted, and where it is too much work."""
    try:
        return survival.survival(predictor, owner, model_id, SurvivalRequest([row]))
    except (NotFinishedError, TooLargeError):
        return None


def _reasons(predictor: Predictor, owner: str, model_id: str, row: dict[str, Any]) -> Reasons | None:
    """Explain the prediction of a row; None while the model is fitted, and where it has no such values."""
    try:
        found = shap_values.explain(predictor, owner, model_id, ShapRequest(rows=[row]))
    except (InvalidRequestError, NotFinishedError, TooLargeError):
        return None
    if found.classes is not None:
        return None
    ends: list[float] = [0.0, *found.lower[0], *found.upper[0]]
    start, width = min(ends), (max(ends) - min(ends)) or 1.0

    def place(value: float) -> float:
        return 120 * (value - start) / width

    figures = zip(found.features, found.values[0], found.lower[0], found.upper[0], strict=True)
    reasons = [
        FeatureEffect(name, row[name], mean, low, high, (place(low), place(high) - place(low), place(mean)))
        for name, mean, low, high in figures
    ]
    reasons.sort(key=lambda reason: -abs(reason.mean))
    return Reasons(found.scale, found.base, found.f[0], reasons[:MOST_REASONS], place(0.0))


def typed(value: Any) -> str:
    """Return a value as the text of a form's field; empty for a missing one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
