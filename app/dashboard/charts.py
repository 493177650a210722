"""URLs of charts: SVG in two themes and two shapes, drawn once and cached.

A URL contains the version of its data (`v`: the draws, and when the model finished), so browsers may cache
the chart. Data are computed behind the gate to the cores; drawing takes turns in a thread of its own.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from app.dashboard.effects import Effects
from app.services.access.keys import PREDICT, READ
from app.services.errors import InvalidRequestError, NotFoundError
from app.services.explanations import (
    convergence,
    densities,
    diagnostics,
    importance,
    partial_dependence,
    survival,
)
from app.services.explanations.accumulated_effects import Accumulation
from app.services.explanations.partial_dependence import CurveBounds, Dependence
from app.services.explanations.shap_values import ExplainedRows, reasons_of
from app.services.explanations.survival import SurvivalRequest
from app.services.fits import models
from app.services.outcomes import summary
from app.services.predictions.posterior_cache import Cache
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_form import row_form
from app.web.dependencies import Owner, Reading, TheGate, ThePredictor
from app.web.middleware.concurrency import GateOf
from app.web.scopes import GuardedRoute, needs
from sampler.posterior.charts import (
    chains,
    checks,
    effects,
    one_row,
    rankings,
    reasons,
    residuals,
    topologies,
)
from sampler.posterior.charts.style import ChartStyle, prepare, to_svg
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.effects import AccumulatedEffects, FeatureRows, PartialDependence

router = APIRouter(prefix="/ui/models", include_in_schema=False, route_class=GuardedRoute)
KEPT_BYTES = 16 * 1024 * 1024
# A chart has inline styles; it can't run scripts or load anything.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "private, max-age=86400, immutable",
}


@dataclass(frozen=True)
class Drawn:
    """A drawn chart."""

    svg: bytes

    @property
    def nbytes(self) -> int:
        """Size of the document."""
        return len(self.svg)


class Studio:
    """Draws charts one at a time, off the event loop, and caches the newest."""

    def __init__(self) -> None:
        self._prepared = threading.Event()
        self._kept: Cache[Drawn] = Cache(KEPT_BYTES)
        self._one = CapacityLimiter(1)

    def prepare(self) -> None:
        """Import the drawing library in the background, which takes seconds, before the first chart."""
        if not self._prepared.is_set():
            self._prepared.set()
            threading.Thread(target=prepare, name="draw first", daemon=True).start()

    async def answer(
        self, key: str, gate: GateOf, find: Callable[[], Any], paint: Callable[[Any], bytes]
    ) -> Response:
        """Return the chart with this key: `find` its data, then `paint` them, unless it is cached.

        Without a key the chart is not cached, here or in the browser.
        """
        drawn = self._kept.peek(key) if key else None
        if drawn is None:
            data = await gate.run(find)

            def draw() -> Drawn:
                chart = Drawn(paint(data))
                return self._kept.get(key, lambda: chart) if key else chart

            drawn = await to_thread.run_sync(draw, limiter=self._one)
        headers = HEADERS if key else HEADERS | {"Cache-Control": "no-store"}
        return Response(drawn.svg, media_type="image/svg+xml", headers=headers)


def _check_model(session: Reading, owner: Owner, model_id: str) -> None:
    """Raise NotFoundError for a deleted model, whose charts may still be cached."""
    models.get(session, owner, model_id)


async def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


async def prepare_to_draw(request: Request) -> None:
    """Get ready to draw, since pages of models have charts."""
    request.app.state.studio.prepare()


TheStudio = Annotated[Studio, Depends(_studio)]


async def _effects(request: Request) -> Effects:
    known: Effects = request.app.state.effects
    return known


TheEffects = Annotated[Effects, Depends(_effects)]


@dataclass(frozen=True)
class ChartOptions:
    """Query parameters common to all charts."""

    version: str
    theme: Literal["light", "dark"]
    shape: Literal["wide", "narrow"]

    def svg(self, draw: Callable[..., Any], *results: Any, half: bool = False) -> bytes:
        """Draw a chart of these results, as wide as the page or, beside another chart, half of it.

        The width makes the text of the chart small on the page.
        """
        narrow = self.shape == "narrow"
        width = 4.3 if narrow else 5.9 if half else 11.2
        return to_svg(ChartStyle(self.theme, width, narrow=narrow), draw, *results)


async def _options(
    v: Annotated[str, Query(max_length=100)] = "",
    theme: Literal["light", "dark"] = "light",
    shape: Literal["wide", "narrow"] = "wide",
) -> ChartOptions:
    return ChartOptions(v, theme, shape)


TheOptions = Annotated[ChartOptions, Depends(_options)]


def _sigma(predictor: Predictor, owner: str, model_id: str) -> convergence.SigmaTraces:
    traces = convergence.sigma_traces(predictor, owner, model_id)
    if traces is None:
        raise NotFoundError("A classification model has no sigma.")
    return traces


def _importance(predictor: Predictor, owner: str, model_id: str) -> importance.Importance:
    return importance.importance(predictor, owner, model_id, 0.9)


def _permutation(
    predictor: Predictor, owner: str, model_id: str
) -> tuple[importance.Permutation, str | None]:
    ranked = importance.importance(predictor, owner, model_id, 0.9).permutation
    if ranked is None:
        raise NotFoundError("Only a model with held-out rows has an importance by permutation.")
    return ranked, diagnostics.unit_of(predictor, owner, model_id)


def _topologies(predictor: Predictor, owner: str, model_id: str) -> list[dict[str, Any]]:
    topologies = diagnostics.topologies(predictor, owner, model_id)
    if topologies is None:
        raise NotFoundError("Only a fitted single-tree model has a topology.")
    return topologies


def _held_out(predictor: Predictor, owner: str, model_id: str) -> diagnostics.HeldOut:
    rows = diagnostics.held_out_by(predictor, owner, model_id)
    return replace(rows, target=diagnostics.target_of(predictor, owner, model_id))


def _paint_held_out(held: diagnostics.HeldOut, options: ChartOptions) -> bytes:
    rows, classes = held.rows, held.classes
    if classes is None:
        figures = (rows[name] for name in ("actual", "mean", "lower", "upper"))
        return options.svg(checks.predicted, *figures, held.target, half=True)
    if len(classes) > 2:
        figures = (rows[name] for name in ("actual", "predicted", "mean"))
        return options.svg(checks.own_class, *figures, classes, half=True)
    return options.svg(checks.probabilities, rows["actual"], rows["mean"], classes, half=True)


def _paint_calibration(held: diagnostics.HeldOut, options: ChartOptions) -> bytes:
    return options.svg(checks.calibration, held.calibration, held.classes, half=True)


def _roc(predictor: Predictor, owner: str, model_id: str) -> diagnostics.HeldOut:
    rows = diagnostics.held_out_by(predictor, owner, model_id)
    if not rows.scores.get("auc"):
        raise NotFoundError("Only a model of two classes with held-out rows of both has a ROC curve.")
    return rows


def _paint_roc(held: diagnostics.HeldOut, options: ChartOptions) -> bytes:
    assert held.classes is not None
    counts, area = held.scores["confusion_by_threshold"], held.scores["auc"]
    return options.svg(checks.roc, counts, area, held.classes[1], half=True)


def _residuals(predictor: Predictor, owner: str, model_id: str) -> diagnostics.HeldOut:
    rows = diagnostics.held_out_by(predictor, owner, model_id)
    if not rows.pit:
        raise NotFoundError("Only a model of numbers or counts with held-out rows has residuals.")
    return rows


def _paint_residuals(held: diagnostics.HeldOut, options: ChartOptions) -> bytes:
    mean, u = np.array(held.predicted), np.array(held.pit)
    return options.svg(residuals.quantile_residuals, mean, u, held.target, half=True)


def _paint_permutation(by: tuple[importance.Permutation, str | None], options: ChartOptions) -> bytes:
    ranked, unit = by
    return options.svg(rankings.importance, _ranked(ranked.features), ranked.loss, unit)


def _outcomes(predictor: Predictor, owner: str, model_id: str) -> summary.OutcomeSummary:
    outcome_summary = summary.of_model_by(predictor.engine, owner, model_id)
    if not outcome_summary.weeks:
        raise NotFoundError("No outcomes of this model have been reported.")
    return outcome_summary


def _paint_outcomes(outcomes: summary.OutcomeSummary, options: ChartOptions) -> bytes:
    weeks = [(each.week, each.figures.coverage) for each in outcomes.weeks]
    return options.svg(checks.coverage_by_week, weeks, outcomes.since)


def _ranked(features: Sequence[importance.FeatureShare | importance.LossGrowth]) -> rankings.Ranked:
    return [(each.name, each.mean, each.lower, each.upper) for each in features]


def _unknown(*_: Any) -> None:
    raise InvalidRequestError(f"Unknown chart: choose from {', '.join(CHARTS)}.")


Find = Callable[[Predictor, str, str], Any]
PaintChart = Callable[[Any, ChartOptions], bytes]
CHARTS: dict[str, tuple[Find, PaintChart]] = {
    "trace": (_sigma, lambda of, options: options.svg(chains.traces, of.trace, of.shown, "sigma")),
    "ranks": (_sigma, lambda of, options: options.svg(chains.ranks, of.ranked, of.every, "sigma")),
    "agreement": (convergence.growth, lambda growth, options: options.svg(chains.growth, vars(growth))),
    "held-out": (_held_out, _paint_held_out),
    "calibration": (diagnostics.held_out_by, _paint_calibration),
    "roc": (_roc, _paint_roc),
    "residuals": (_residuals, _paint_residuals),
    "pit": (_residuals, lambda held, options: options.svg(residuals.pit, np.array(held.pit), half=True)),
    "outcomes": (_outcomes, _paint_outcomes),
    "permutation": (_permutation, _paint_permutation),
    "importance": (
        _importance,
        lambda shares, options: options.svg(rankings.inclusion, _ranked(shares.features)),
    ),
    "topologies": (_topologies, lambda entries, options: options.svg(topologies.topologies, entries)),
}


@router.get("/{model_id}/charts/{name}.svg", dependencies=[Depends(_check_model)])
@needs(READ)
async def chart(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    studio: TheStudio,
    owner: Owner,
    options: TheOptions,
    model_id: str,
    name: Annotated[str, Path(max_length=30)],
) -> Response:
    """Return a chart of a model by name."""
    find, paint = CHARTS.get(name, (_unknown, _paint_held_out))
    return await studio.answer(
        _key(request, owner),
        gate,
        lambda: find(predictor, owner, model_id),
        lambda data: paint(data, options),
    )


@router.get("/{model_id}/dependence.svg", dependencies=[Depends(_check_model)])
@needs(PREDICT)
async def dependence(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    studio: TheStudio,
    known: TheEffects,
    owner: Owner,
    options: TheOptions,
    model_id: str,
    feature: Annotated[list[str] | None, Query(max_length=2)] = None,
) -> Response:
    """Return the partial dependence chart of one or two features."""

    def find() -> tuple[Dependence, str, list[FeatureRows]]:
        target = diagnostics.target_of(predictor, owner, model_id)
        result = known.dependence(predictor, owner, model_id, options.version, feature or [])
        rows = [partial_dependence.feature_rows(predictor, owner, model_id, name) for name in result.features]
        return result, target, rows

    def paint(data: tuple[Dependence, str, list[FeatureRows]]) -> bytes:
        of, target, rows = data
        effect = PartialDependence(
            of.features, of.grid, np.array(of.mean), np.array(of.sd), _arrays(of.intervals), of.rows, None,
            _names(of.classes),
        )  # fmt: skip
        return options.svg(effects.dependence, effect, target, rows)

    return await studio.answer(_key(request, owner), gate, find, paint)


@router.get("/{model_id}/accumulated.svg", dependencies=[Depends(_check_model)])
@needs(PREDICT)
async def accumulated(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    studio: TheStudio,
    known: TheEffects,
    owner: Owner,
    options: TheOptions,
    model_id: str,
    feature: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Return the chart of accumulated local effects of a feature."""

    def find() -> tuple[Accumulation, str, FeatureRows]:
        target = diagnostics.target_of(predictor, owner, model_id)
        result = known.accumulated(predictor, owner, model_id, options.version, feature)
        return result, target, partial_dependence.feature_rows(predictor, owner, model_id, feature)

    def paint(data: tuple[Accumulation, str, FeatureRows]) -> bytes:
        of, target, rows = data
        effect = AccumulatedEffects(
            of.feature, of.grid, np.array(of.mean), _arrays(of.intervals), np.array(of.rows),
            _names(of.classes),
        )  # fmt: skip
        return options.svg(effects.accumulated, effect, target, rows)

    return await studio.answer(_key(request, owner), gate, find, paint)


@router.get("/{model_id}/reasons.svg", dependencies=[Depends(_check_model)])
@needs(PREDICT)
async def reasons_of_rows(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    studio: TheStudio,
    known: TheEffects,
    owner: Owner,
    options: TheOptions,
    model_id: str,
) -> Response:
    """Return the chart of SHAP values of training rows."""

    def paint(explained: ExplainedRows) -> bytes:
        ranked = reasons_of(explained)
        values = (ranked.values, ranked.lower, ranked.upper)
        cells = list(zip(*(explained.data or []), strict=True))
        return options.svg(reasons.beeswarm, explained.features, values, cells, ranked.scale)

    find = partial(known.reasons, predictor, owner, model_id, options.version)
    return await studio.answer(_key(request, owner), gate, find, paint)


@router.get("/{model_id}/density.svg", dependencies=[Depends(_check_model)])
@needs(PREDICT)
async def density(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    studio: TheStudio,
    owner: Owner,
    options: TheOptions,
    model_id: str,
) -> Response:
    """Return the posterior density for a row: `f0`, `f1`, ... are its values, in the model's order."""

    def find() -> tuple[densities.Density, str]:
        form = row_form(predictor, owner, model_id)
        row = form.row_of(form.columns, row_values(request, len(form.columns)))
        target = diagnostics.target_of(predictor, owner, model_id)
        return densities.density(predictor, owner, model_id, row), target

    def paint(data: tuple[densities.Density, str]) -> bytes:
        return options.svg(one_row.density, vars(data[0]), data[1])

    return await studio.answer(_key(request, owner), gate, find, paint)


@router.get("/{model_id}/survival.svg", dependencies=[Depends(_check_model)])
@needs(PREDICT)
async def survival_curve(
    request: Request,
    predictor: ThePredictor,
    gate: TheGate,
    studio: TheStudio,
    owner: Owner,
    options: TheOptions,
    model_id: str,
) -> Response:
    """Return the survival curve of a row: `f0`, `f1`, ... are its values, in the model's order."""

    def find() -> tuple[survival.Survival, str]:
        form = row_form(predictor, owner, model_id)
        row = form.row_of(form.columns, row_values(request, len(form.columns)))
        target = diagnostics.target_of(predictor, owner, model_id)
        return survival.survival(predictor, owner, model_id, SurvivalRequest([row])), target

    def paint(data: tuple[survival.Survival, str]) -> bytes:
        of, target = data
        curve = [each[0] for each in (of.survival, of.lower, of.upper)]
        return options.svg(one_row.survival, of.times, curve, of.median.value[0], target)

    return await studio.answer(_key(request, owner), gate, find, paint)


def row_values(request: Request, count: int) -> list[str | None]:
    """Return the values of a row in the query, in the order of the model's features."""
    return [request.query_params.get(f"f{i}") for i in range(count)]


def _arrays(intervals: Sequence[CurveBounds]) -> list[Interval]:
    return [Interval(each.level, np.array(each.lower), np.array(each.upper)) for each in intervals]


def _names(classes: list[str] | None) -> tuple[str, ...] | None:
    return None if classes is None else tuple(classes)


def _key(request: Request, owner: str) -> str:
    versioned = bool(request.query_params.get("v"))
    return f"{owner}\n{request.url.path}?{request.url.query}" if versioned else ""
