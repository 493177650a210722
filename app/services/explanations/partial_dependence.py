"""Partial dependence on one or two features, and the values that these have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from app.services.errors import (
    TooLargeError,
    UnusableDataError,
)
from app.services.explanations.finished_models import (
    TOO_LARGE,
    classes_of,
    finished,
)
from app.services.predictions.posteriors import find
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_if_any, lists_of
from app.store import datasets as dataset_store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from sampler.data.scalars import MICROSECONDS_A_DAY, as_text, days_to_text
from sampler.posterior.core.intervals import Interval
from sampler.posterior.explanations.work import MOST
from sampler.posterior.results.effects import FeatureRows, PartialDependence

RUG = 200  # values of a feature shown below its effect
MAX_POINTS = 10_000  # grid points in one response
ICE_ROWS = 50  # rows with individual curves


@dataclass(frozen=True)
class DependenceRequest:
    """A request for partial dependence (`POST /models/{id}/partial-dependence`)."""

    features: Sequence[str]
    grid: Mapping[str, Any] | None = None
    levels: Sequence[float] = (0.9,)
    ice: bool = False
    draws: int | None = None
    of: str = "mean"
    rows: Any = None  # list of objects to average over; without rows and columns: the reference rows
    columns: Any = None


@dataclass(frozen=True)
class CurveBounds:
    """Bounds at one level, nested lists in the shape of the mean."""

    level: float
    lower: list[Any]
    upper: list[Any]


@dataclass(frozen=True)
class RowCurves:
    """Curves of single rows, [row][point] or [row][point][class]."""

    rows: list[int]
    mean: list[Any]
    intervals: list[CurveBounds]


@dataclass(frozen=True)
class Dependence:
    """Partial dependence by grid point: [first], or [first][second]; of several classes [..][class]."""

    model_id: str
    draws: int
    classes: list[str] | None
    features: list[str]
    grid: list[list[Any]]
    rows: int
    mean: list[Any]
    sd: list[Any]
    intervals: list[CurveBounds]
    ice: RowCurves | None


def dependence(predictor: Predictor, owner: str, model: str, request: DependenceRequest) -> Dependence:
    """Return how predictions change with one or two features, averaged over the other features in the rows.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request or its data are invalid; names the field, or the column and row.
    """
    grid = lists_of(dict(request.grid or {}))
    if np.prod([float(len(points)) for points in grid.values()]) > MAX_POINTS:
        raise TooLargeError(f"A grid has at most {MAX_POINTS} points.")
    rows = columns_if_any(request.rows, request.columns, predictor.max_rows)
    head, posterior = finished(predictor, owner, model)
    with understood():
        result = posterior.partial_dependence(
            request.features,
            with_levels(posterior, rows),
            grid=with_levels(posterior, grid),
            level=list(request.levels),
            ice=ICE_ROWS if request.ice else 0,
            num_draws=request.draws,
            max_work=MOST,
            of=request.of,
        )
    _check_finite(result)
    draws = posterior.num_draws if request.draws is None else request.draws
    ice = result.ice
    return Dependence(
        head.id,
        draws,
        classes_of(posterior),
        result.features,
        result.grid,
        result.rows,
        result.mean.tolist(),
        result.sd.tolist(),
        _intervals(result.intervals),
        None if ice is None else RowCurves(ice.rows.tolist(), ice.mean.tolist(), _intervals(ice.intervals)),
    )


def feature_rows(predictor: Predictor, owner: str, model: str, feature: str) -> FeatureRows:
    """Describe the values of a feature; raises as `Predictor.lookup`."""
    unit = predictor.lookup(owner, model)[1].header.units.get(feature)
    with session_scope(predictor.engine, read_only=True) as session:
        stored = find(session, owner, model)
        if stored.dataset_id is None:
            return FeatureRows(unit=unit)
        try:
            column = dataset_store.read(session, stored.dataset_id, [feature]).column(0)
        except (KeyError, DatasetGoneError):
            return FeatureRows(unit=unit)
    kind = (stored.settings.get("columns") or {}).get(feature)
    if kind in {"category", "boolean"}:
        counted = zip(*column.value_counts().flatten(), strict=True)
        levels = [(value.as_py(), count.as_py()) for value, count in counted]
        return FeatureRows(counts={v if v is None else as_text(v): count for v, count in levels})
    dates = pa.types.is_timestamp(column.type)
    present = (
        column.drop_null().cast(pa.int64()) if dates else column.drop_null().cast(pa.float64(), safe=False)
    )
    values = np.sort(present.to_numpy())
    if len(values) == 0:
        return FeatureRows(unit=unit)
    rug = values[np.linspace(0, len(values) - 1, min(len(values), RUG)).round().astype(int)].tolist()
    rug = [days_to_text(value / MICROSECONDS_A_DAY) for value in rug] if dates else rug
    return FeatureRows(rug, unit=unit)


def _check_finite(result: PartialDependence) -> None:
    figures = [result.mean, result.sd, *(end for interval in result.intervals for end in interval[1:])]
    if not all(np.isfinite(values).all() for values in figures):
        raise UnusableDataError(TOO_LARGE)


def _intervals(intervals: Sequence[Interval]) -> list[CurveBounds]:
    return [CurveBounds(level, lower.tolist(), upper.tolist()) for level, lower, upper in intervals]
