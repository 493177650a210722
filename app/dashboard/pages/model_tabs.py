"""Tabs of a model's page: checks, improvements and settings; chains, features and effects.

Figures of the latter need a core for a moment, so they are computed behind the gate, as in the API.
"""

from itertools import product
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from app.dashboard import render, snippets
from app.dashboard.effects import if_any
from app.dashboard.forms import fit_fields
from app.dashboard.pages.models import Continuation, Frame, framed_as, held_out_of, version_of
from app.dashboard.pages.studies import newest_of
from app.dashboard.studio import TheEffects, prepare_to_draw
from app.services.access.keys import PREDICT, READ
from app.services.errors import InvalidRequestError, NotFinishedError
from app.services.explanations.convergence import GrowthQuery
from app.services.explanations.groups import GroupsQuery
from app.services.explanations.guard import explain
from app.services.explanations.importance import ImportanceQuery, InteractionsQuery
from app.services.explanations.shap_values import ReasonsOfRows, reasons_of
from app.services.fits import champions, events
from app.services.outcomes import schedules
from app.services.studies.stored import StudyView
from app.web.dependencies import OutcomePredictor, Owner, Reading, TheGate
from app.web.scopes import GuardedRoute, needs
from sampler.host.charts import chart_height, is_ordered, swarm_height

router = APIRouter(
    prefix="/ui/models",
    include_in_schema=False,
    route_class=GuardedRoute,
    dependencies=[Depends(prepare_to_draw)],
)
EffectsPart = Literal["all", "dependence", "accumulated", "reasons"]
PARTS = {  # of the page of effects, with what they show
    "dependence": "the effect at each value",
    "accumulated": "the effect among rows like the data's",
    "reasons": "what moves the prediction of each row",
}
MOST_GROUPS = 20  # in the table of intercepts: the largest and the smallest
EVENTS = 50


@router.get("/{model_id}/checks")
@needs(READ)
def checks(
    request: Request,
    session: Reading,
    owner: Owner,
    model_id: str,  # noqa: ARG001  the frame finds it
    frame: Annotated[Frame, framed_as("checks")],
) -> Response:
    """Show how a model did on held-out rows: scores, intervals by quarters of the rows, charts."""
    held_out = held_out_of(session, owner, frame["model"])
    return render.render(request.scope, "model_checks.html", **frame, held_out=held_out)


@router.get("/{model_id}/improve")
@needs(READ)
def improve(
    request: Request,
    session: Reading,
    owner: Owner,
    model_id: str,  # noqa: ARG001  the frame finds it
    frame: Annotated[Frame, framed_as("improve")],
    tuning: Annotated[StudyView | None, newest_of("tuning")],
    calibration: Annotated[StudyView | None, newest_of("calibration")],
) -> Response:
    """Show what can make a model better: calibration, all rows, other settings, and fits by themselves."""
    return render.render(
        request.scope,
        "model_improve.html",
        **frame,
        calibration=calibration,
        tuning=tuning,
        can_roll_back=champions.can_roll_back(session, owner, frame["model"]),
        schedule=schedules.of_model(session, owner, frame["model"]),
    )


@router.get("/{model_id}/settings")
@needs(READ)
def settings_of(
    request: Request,
    session: Reading,
    owner: Owner,
    model_id: str,  # noqa: ARG001  the frame finds it
    frame: Annotated[Frame, framed_as("settings")],
    before: str | None = None,
) -> Response:
    """Show the settings of a model, its downloads, and its log, the newest event first."""
    model = frame["model"]
    log = events.back(session, owner, model.id, EVENTS, before)
    return render.render(
        request.scope,
        "model_settings.html",
        **frame,
        facts=fit_fields.facts(model.settings),
        events=log.items,
        older=log.next_cursor,
        looks_back=before is not None,
        snippets=snippets.ask(request, f"/models/{model.id}", snippets.call("model", model.id)),
    )


@router.get("/{model_id}/chains")
@needs(READ)
async def chains(
    request: Request,
    predictor: OutcomePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("chains")],
    continuation: Continuation,
) -> Response:
    """Show the convergence of the chains: traces, ranks, and diagnostics by draws, also during the fit."""
    model_id = frame["model"].id
    weights = (frame["model"].diagnostics or {}).get("weights")

    def find() -> Any:
        if weights is not None:
            return None  # weighted particles come all at once: runs are compared instead
        try:
            return explain(predictor, owner, model_id, GrowthQuery()).shown()
        except NotFinishedError:
            return None  # no draws yet

    growth = await gate.run(find)
    path, call = f"/models/{model_id}/diagnostics", snippets.call("diagnostics", model_id)
    if frame["model"].state != "succeeded":
        path, call = f"{path}/growth", snippets.call("growth", model_id)
    return render.render(
        request.scope,
        "model_chains.html",
        **frame,
        growth=growth,
        continuation=continuation,
        weights=weights,
        topologies=(frame["model"].diagnostics or {}).get("topologies"),
        snippets=snippets.ask(request, path, call),
    )


@router.get("/{model_id}/features")
@needs(READ)
async def features(
    request: Request,
    predictor: OutcomePredictor,
    gate: TheGate,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("features")],
    selection: Annotated[StudyView | None, newest_of("selection")],
    inclusion_by_trees: Annotated[StudyView | None, newest_of("inclusion_by_trees")],
    *,
    pairs: bool = False,
) -> Response:
    """Show how much each feature matters for held-out rows, its share of the rules, and selected ones.

    With `pairs` also how strongly each two act together.
    """
    model_id = frame["model"].id
    ranking, grouped = None, list[Any]()
    together, refused = None, None
    if frame["model"].state == "succeeded":
        ranking = await gate.run(lambda: explain(predictor, owner, model_id, ImportanceQuery()).shown())
        grouped = await gate.run(lambda: explain(predictor, owner, model_id, GroupsQuery()).shown().columns)
        if pairs:
            try:
                together = await gate.run(lambda: explain(predictor, owner, model_id, InteractionsQuery()))
            except InvalidRequestError as error:
                refused = error
    path = f"/models/{model_id}/variable-importance"
    return render.render(
        request.scope,
        "model_features.html",
        **frame,
        importance=ranking,
        together=together and together.shown(),
        refused=refused,
        grouped=grouped,
        most_groups=MOST_GROUPS,
        selection=selection,
        inclusion_by_trees=inclusion_by_trees,
        snippets=snippets.ask(request, path, snippets.call("importance", model_id)),
    )


@router.get("/{model_id}/effects")
@needs(PREDICT, of_kept_rows=True)
async def effects(
    request: Request,
    predictor: OutcomePredictor,
    gate: TheGate,
    known: TheEffects,
    owner: Owner,
    model_id: str,
    frame: Annotated[Frame, framed_as("effects")],
    feature: Annotated[list[str] | None, Query(max_length=3)] = None,
    part: EffectsPart | None = None,
) -> Response:
    """Show how predictions change with one to three features.

    Without a `part` the page has their places alone: scripts then ask for one at a time, and browsers without
    scripts for all of them.
    """
    model_id, version = frame["model"].id, version_of(frame["model"])
    chosen = list(dict.fromkeys(name for name in feature or () if name))
    ready = frame["model"].state == "succeeded"
    names: list[str] = []
    dependence, along, swarm = None, None, None
    if ready and part is not None:

        def find() -> tuple[list[str], Any, Any, ReasonsOfRows | None]:
            ranked = explain(predictor, owner, model_id, ImportanceQuery()).shown()
            listed = [each.name for each in (ranked.permutation or ranked).features]
            wished = chosen or listed[:1]
            asked = (predictor, owner, model_id, version)
            effect = known.dependence(*asked, wished).shown() if part in ("all", "dependence") else None
            curve, explained = None, None
            if part in ("all", "accumulated") and len(wished) == 1:
                curve = if_any(lambda: known.accumulated(*asked, wished[0]).shown())
            if part in ("all", "reasons"):
                explained = if_any(lambda: reasons_of(known.reasons(*asked).answer))
            return listed, effect, curve, explained

        names, dependence, along, swarm = await gate.run(find)
        chosen = chosen or names[:1]
    body = {"features": chosen, "level": 0.9}
    path = f"/models/{model_id}/partial-dependence"
    return render.render(
        request.scope,
        "model_effects.html",
        **frame,
        names=names,
        chosen=chosen,
        waiting=PARTS if ready and part is None else {},
        dependence=dependence,
        along=along,
        swarm=swarm,
        swarm_height=round(100 * swarm_height(len(swarm.features))) if swarm else 0,
        height=round(100 * chart_height(dependence.grid, len(dependence.classes or ()))) if dependence else 0,
        by_level=dependence is not None and not is_ordered(dependence.grid[0]),
        by_point=_by_point(dependence)
        if dependence and (len(chosen) == 3 or len(dependence.classes or ()) > 2)
        else [],
        query=urlencode([("feature", name) for name in chosen] + frame["asked"]),
        snippets=snippets.ask(
            request,
            path,
            snippets.call("partial_dependence", model_id, chosen, level=0.9),
            method="POST",
            body=body,
        ),
    )


def _by_point(result: Any) -> list[dict[str, Any]]:
    """Return each point of a grid with its values, and the mean and interval of each class."""
    interval = result.intervals[0]
    shape = [len(points) for points in result.grid]
    tables = {"mean": result.mean, "lower": interval.lower, "upper": interval.upper}
    flat = {name: np.reshape(values, (np.prod(shape), -1)).tolist() for name, values in tables.items()}
    return [
        {"at": values, **{name: figures[i] for name, figures in flat.items()}}
        for i, values in enumerate(product(*result.grid))
    ]
