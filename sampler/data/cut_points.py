"""Cut points of all columns, chosen by a scheme or given, and the points at which effects are shown."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.binning import MAX_CUTS, Cuts, Grid, cuts_between, distinct_values, spread
from sampler.data.schema import Schema
from sampler.definitions.design import Design
from sampler.definitions.prior import SCHEMES
from sampler.errors import SettingsError
from sampler.methods import METHODS
from sampler.settings import Settings

GRID_POINTS = 19  # points at which a feature's effect is evaluated by default


def choose_grid(
    design: Design, schema: Schema, cuts: Any, settings: Settings
) -> tuple[Grid, list[list[float]]]:
    """Choose the cut points, and each numeric or date column's default points for showing effects."""
    fixed = check_cuts(cuts, [column.name for column in schema.columns])
    named = isinstance(cuts, str)
    scheme: Cuts = cuts if named else METHODS[settings.method].cuts_of(settings.family)
    points: list[list[float]] = [[] for _ in schema.columns]
    chosen = []
    for (j, _), values in zip(schema.coded, design, strict=True):
        column = schema.columns[j]
        distinct, counts = distinct_values(values)
        if column.kind in {"number", "date"}:
            points[j] = spread(distinct, counts, GRID_POINTS)
        chosen.append(fixed[column.name] if column.name in fixed else cuts_between(distinct, counts, scheme))
    return Grid(tuple(chosen)), points


def check_cuts(cuts: Any, features: Collection[str]) -> dict[str, NDArray[np.float64]]:
    """Check the name of a scheme, or cut points by feature; return these. Raises SettingsError."""
    if isinstance(cuts, str) and cuts in SCHEMES:
        return {}
    if not hasattr(cuts, "get"):
        raise SettingsError(
            'prior["cuts"] must be "quantile", "uniform", "mixed" or a mapping from column to cut points',
            field="prior.cuts",
            code="not_accepted",
        )
    unknown = sorted({*cuts} - {*features})
    if unknown:
        raise SettingsError(
            f'prior["cuts"] names {unknown[0]!r}, which is not a feature', field="prior.cuts", code="unknown"
        )
    return {name: _given_cuts(name, points) for name, points in cuts.items()}


def _given_cuts(name: str, points: Any) -> NDArray[np.float64]:
    """Return the cut points that a setting gives for a column; raise SettingsError for any others."""
    try:
        cuts = np.asarray(points, dtype=np.float64)
    except (ValueError, TypeError):
        cuts = np.full(1, np.nan)
    if cuts.ndim != 1 or len(cuts) > MAX_CUTS or not np.all(np.isfinite(cuts)) or np.any(np.diff(cuts) <= 0):
        raise SettingsError(
            f"the cut points of {name!r} must be at most {MAX_CUTS} increasing finite numbers",
            field="prior.cuts",
            code="not_accepted",
        )
    return cuts
