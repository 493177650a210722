"""URLs of charts: SVG in two themes and two shapes, drawn once and cached.

A URL contains the version of its data (`v`: the draws, and when the model finished), so browsers may cache
the chart.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import APIRouter, Path, Query
from numpy.typing import NDArray
from starlette.responses import Response

from app.dashboard.effects import asked_effects
from app.dashboard.studio import Asked, Picture, TheAsked
from app.services.access.keys import PREDICT, READ
from app.services.errors import InvalidRequestError, NotFoundError
from app.services.explanations import convergence, densities, diagnostics
from app.services.explanations.convergence import GrowthQuery
from app.services.explanations.guard import Explained, explain
from app.services.explanations.importance import ImportanceQuery
from app.services.explanations.partial_dependence import feature_rows
from app.services.explanations.shap_values import reasons_of
from app.services.explanations.survival import SurvivalBody
from app.services.outcomes import summary
from app.services.predictions import forecasts
from app.services.predictions.forecasts import ForecastBody
from app.services.studies.stored import result_of
from app.web.scopes import GuardedRoute, needs
from sampler.host.charts import (
    chains,
    checks,
    effects,
    one_row,
    rankings,
    reasons,
    residuals,
    topologies,
    treatments,
)
from sampler.host.charts import forecasts as of_forecasts
from sampler.host.posteriors import SCALARS, AccumulatedEffects, PartialDependence

router = APIRouter(prefix="/ui/models/{model_id}", include_in_schema=False, route_class=GuardedRoute)
Effect = TypeVar("Effect", PartialDependence, AccumulatedEffects)


def _of_scalar(name: str, asked: Asked) -> tuple[convergence.ScalarTraces, str]:
    traces = convergence.scalar_traces(*asked.model, name)
    if traces is None:
        raise NotFoundError("A classification model has no sigma, and an old one no log-likelihood.")
    return traces, name.replace("_", "-")


def _trace(name: str, asked: Asked) -> Picture:
    of, title = _of_scalar(name, asked)
    return Picture(chains.traces, (of.trace, of.shown, title))


def _ranks(name: str, asked: Asked) -> Picture:
    of, title = _of_scalar(name, asked)
    return Picture(chains.ranks, (of.ranked, of.every, title))


def _agreement(asked: Asked) -> Picture:
    return Picture(chains.growth, [explain(*asked.model, GrowthQuery()).answer])


def _held_out(asked: Asked) -> Picture:
    held = diagnostics.held_out_by(*asked.model)
    rows, classes = held.rows, held.classes
    if classes is None:
        figures = (rows["actual"], rows["mean"], rows["lower"], rows["upper"])
        return Picture(checks.predicted, (*figures, asked.target), half=True)
    if len(classes) > 2:
        own = (rows["actual"], rows.get("predicted"), rows["mean"])
        return Picture(checks.own_class, (*own, classes), half=True)
    return Picture(checks.probabilities, (rows["actual"], rows["mean"], classes), half=True)


def _calibration(asked: Asked) -> Picture:
    held = diagnostics.held_out_by(*asked.model)
    return Picture(checks.calibration, (held.calibration, held.classes), half=True)


def _roc(asked: Asked) -> Picture:
    held = diagnostics.held_out_by(*asked.model)
    area = held.scores.get("auc")
    if not area or held.classes is None:
        raise NotFoundError("Only a model of two classes with held-out rows of both has a ROC curve.")
    return Picture(checks.roc, (held.scores["confusion_by_threshold"], area, held.classes[1]), half=True)


def _transforms(asked: Asked) -> tuple[NDArray[np.float64], diagnostics.HeldOut]:
    held = diagnostics.held_out_by(*asked.model)
    if not held.pit:
        raise NotFoundError("Only a model of numbers or counts with held-out rows has residuals.")
    return np.array(held.pit), held


def _residuals(asked: Asked) -> Picture:
    u, held = _transforms(asked)
    return Picture(residuals.quantile_residuals, (np.array(held.predicted), u, held.target), half=True)


def _pit(asked: Asked) -> Picture:
    return Picture(residuals.pit, _transforms(asked)[:1], half=True)


def _outcomes(asked: Asked) -> Picture:
    outcomes = summary.of_model_by(asked.predictor.engine, asked.owner, asked.model_id)
    if not outcomes.weeks:
        raise NotFoundError("No outcomes of this model have been reported.")
    weeks = [(each.week, each.figures.coverage) for each in outcomes.weeks]
    return Picture(checks.coverage_by_week, (weeks, outcomes.since))


def _ranked(features: Sequence[Any]) -> rankings.Ranked:
    return [(each.name, each.mean, each.lower, each.upper) for each in features]


def _permutation(asked: Asked) -> Picture:
    ranked = explain(*asked.model, ImportanceQuery()).shown().permutation
    if ranked is None:
        raise NotFoundError("Only a model with held-out rows has an importance by permutation.")
    unit = diagnostics.unit_of(*asked.model)
    return Picture(rankings.importance, (_ranked(ranked.features), ranked.loss, unit))


def _importance(asked: Asked) -> Picture:
    return Picture(rankings.inclusion, [_ranked(explain(*asked.model, ImportanceQuery()).shown().features)])


def _topologies(asked: Asked) -> Picture:
    entries = diagnostics.topologies(*asked.model)
    if entries is None:
        raise NotFoundError("Only a fitted single-tree model has a topology.")
    return Picture(topologies.topologies, [entries])


def _unknown(_: Asked) -> Picture:
    raise InvalidRequestError(f"Unknown chart: choose from {', '.join(CHARTS)}.")


CHARTS: dict[str, Callable[[Asked], Picture]] = {
    **{f"trace-{name}": partial(_trace, name) for name in SCALARS},
    **{f"ranks-{name}": partial(_ranks, name) for name in SCALARS},
    "agreement": _agreement,
    "held-out": _held_out,
    "calibration": _calibration,
    "roc": _roc,
    "residuals": _residuals,
    "pit": _pit,
    "outcomes": _outcomes,
    "permutation": _permutation,
    "importance": _importance,
    "topologies": _topologies,
}


@router.get("/charts/{name}.svg")
@needs(READ)
async def chart(asked: TheAsked, name: Annotated[str, Path(max_length=30)]) -> Response:
    """Return a chart of a model by name."""
    return await asked.answer(CHARTS.get(name, _unknown))


SeriesNumber = Annotated[int, Query(alias="of", ge=0)]


@router.get("/forecast.svg")
@needs(PREDICT, of_kept_rows=True)
async def fan(
    asked: TheAsked,
    row: SeriesNumber = 0,
    known: Annotated[str, Query(max_length=100)] = "",
    level: Annotated[float, Query(gt=0, lt=1)] = 0.9,
) -> Response:
    """Return the chart of a series: its newest outcomes, and the fan of its next steps."""

    def find(asked: Asked) -> Picture:
        body = ForecastBody(known=known or None, level=level)
        of = forecasts.picture(*asked.model, row, body)
        return Picture(of_forecasts.fan, (of.times, of.history, of.median, of.bands, of.target))

    return await asked.answer(find)


@router.get("/rehearsals.svg")
@needs(PREDICT, of_kept_rows=True)
async def rehearsals(asked: TheAsked, row: SeriesNumber = 0) -> Response:
    """Return a small chart for each rehearsal of a series: the interval, and what came."""

    def find(asked: Asked) -> Picture:
        of = forecasts.rehearsed(*asked.model, row)
        figures = (of.origins, of.came, of.median, of.lower, of.upper, of.target)
        return Picture(of_forecasts.rehearsals, figures)

    return await asked.answer(find)


@router.get("/dependence.svg")
@needs(PREDICT, of_kept_rows=True)
async def dependence(
    asked: TheAsked, feature: Annotated[list[str] | None, Query(max_length=3)] = None
) -> Response:
    """Return the partial dependence chart of one to three features."""

    def find(asked: Asked) -> Picture:
        of = asked.known.dependence(*asked.model, asked.version, feature or [])
        rows = [feature_rows(*asked.model, name) for name in of.answer.features]
        return Picture(effects.dependence, (_with_classes(of), asked.target, rows))

    return await asked.answer(find)


@router.get("/treatment.svg")
@needs(PREDICT, of_kept_rows=True)
async def treatment(
    asked: TheAsked,
    by: Annotated[str, Query(max_length=1000)] = "",
    arm: Annotated[str, Query(max_length=1000)] = "",
    against: Annotated[str, Query(max_length=1000)] = "",
    measure: Annotated[str, Query(max_length=20)] = "",
    until: Annotated[str, Query(max_length=30)] = "",
    part: Literal[
        "groups", "lags", "rows", "along", "curves", "balance", "propensities", "sensitivity"
    ] = "groups",
    leads: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Return a chart of a treatment's effects: averages, by rows in order, a feature or time, and checks."""

    def find(asked: Asked) -> Picture:
        body = asked_effects(by, arm, against, measure, until)
        if part == "along":
            of = asked.known.effect_along(*asked.model, asked.version, body)
            return Picture(effects.dependence, (of.answer, "effect", [feature_rows(*asked.model, by)]))
        found = asked.known.treatment(*asked.model, asked.version, body).answer
        if part == "curves" and found.curves is None:
            raise NotFoundError("Curves are of times with events.")
        if part == "lags" and not found.by_lag:
            raise NotFoundError("Lags are of panels.")
        before = result_of(asked.predictor.engine, asked.owner, "placebo", leads) if leads else None
        if part == "propensities" and (found.propensity is None or found.dose is not None):
            raise NotFoundError("No probability of being treated was fitted.")
        drawn: dict[str, tuple[Any, Sequence[Any]]] = {
            "groups": (
                rankings.treatment_effects,
                (found.named_estimates(), found.difference, found.neutral),
            ),
            "lags": (
                treatments.event_study,
                (found.groups, before.groups if before else {}, f"effect on {asked.target}"),
            ),
            "rows": (rankings.row_effects, [found.mean, found.lower, found.upper, found.neutral]),
            "curves": (one_row.curves_of_arms, (found.curves, (found.arm, found.against))),
            "balance": (treatments.balance, (found.balance, found.dose is not None)),
            "propensities": (treatments.propensities, [found]),
            "sensitivity": (treatments.sensitivity, [found.sensitivity, found.neutral]),
        }
        return Picture(*drawn[part])

    return await asked.answer(find)


@router.get("/inclusion-by-trees.svg")
@needs(READ)
async def inclusion_by_trees(
    asked: TheAsked, study: Annotated[str, Query(max_length=100)], of: Annotated[str, Query(max_length=1000)]
) -> Response:
    """Return the chart of an outcome's shares of the rules by the number of trees, found by a study."""

    def find(asked: Asked) -> Picture:
        results = result_of(asked.predictor.engine, asked.owner, "inclusion_by_trees", study) or {}
        if (found := results.get(of)) is None:
            raise NotFoundError("The study has no such shares.")
        shares = (np.array(each) for each in (found.mean, found.lower, found.upper))
        figures = (found.num_trees, found.names, *shares)
        return Picture(rankings.inclusion_by_trees, figures)

    return await asked.answer(find)


@router.get("/accumulated.svg")
@needs(PREDICT, of_kept_rows=True)
async def accumulated(asked: TheAsked, feature: Annotated[str, Query(max_length=1000)] = "") -> Response:
    """Return the chart of accumulated local effects of a feature."""

    def find(asked: Asked) -> Picture:
        of = asked.known.accumulated(*asked.model, asked.version, feature)
        rows = feature_rows(*asked.model, feature)
        return Picture(effects.accumulated, (_with_classes(of), asked.target, rows))

    return await asked.answer(find)


@router.get("/reasons.svg")
@needs(PREDICT, of_kept_rows=True)
async def reasons_of_rows(asked: TheAsked) -> Response:
    """Return the chart of SHAP values of training rows."""

    def find(asked: Asked) -> Picture:
        explained = asked.known.reasons(*asked.model, asked.version).answer
        ranked = reasons_of(explained)
        values = (ranked.values, ranked.lower, ranked.upper)
        return Picture(reasons.beeswarm, (explained.names, values, explained.data, ranked.scale))

    return await asked.answer(find)


@router.get("/density.svg")
@needs(PREDICT)
async def density(asked: TheAsked) -> Response:
    """Return the posterior density for a row: `f0`, `f1`, ... are its values, in the model's order."""

    def find(asked: Asked) -> Picture:
        of = densities.density(*asked.model, asked.row())
        return Picture(one_row.density, (vars(of), asked.target))

    return await asked.answer(find)


@router.get("/survival.svg")
@needs(PREDICT)
async def survival_curve(asked: TheAsked) -> Response:
    """Return the survival curve of a row: `f0`, `f1`, ... are its values, in the model's order."""

    def find(asked: Asked) -> Picture:
        of = explain(*asked.model, SurvivalBody(rows=[asked.row()])).answer
        curve = [each[0] for each in (of.survival, of.lower, of.upper)]
        return Picture(one_row.survival, (of.times, curve, of.median.value[0], asked.target))

    return await asked.answer(find)


def _with_classes(of: Explained[Effect]) -> Effect:
    """Return effects with the names of the classes, also of two."""
    return replace(of.answer, classes=None if of.facts["classes"] is None else tuple(of.facts["classes"]))
