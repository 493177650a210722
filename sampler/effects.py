"""How predictions move with one or two features, the others as they are in the data: partial dependence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.cells import days_to_text
from sampler.design import numbers
from sampler.errors import SettingsError
from sampler.intervals import equal_tailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.header import Header

    Floats = NDArray[np.float64]

GRID_POINTS = 19  # as quantiles .05, .10, ..., .95


@dataclass(frozen=True)
class PartialDependence:
    """f averaged over rows with the features set to each point of a grid, its mean and interval over draws.

    Attributes
    ----------
    features
        the one or two names
    grid
        the values of each feature: numbers, dates in ISO 8601, booleans, or levels (None: missing)
    mean, lower, upper
        float64 [point of the first feature] or [point of the first, point of the second]
    level
        of the interval

    """

    features: list[str]
    grid: list[list[Any]]
    mean: Floats
    lower: Floats
    upper: Floats
    level: float


def partial_dependence(
    header: Header,
    f: Callable[[NDArray[np.uint8]], Floats],
    codes: NDArray[np.uint8],
    features: Sequence[str],
    grid: Mapping[str, Sequence[Any]],
    level: float,
) -> PartialDependence:
    """Draws of f (of codes, float64 [draw, row]) averaged over `codes`, `features` set to their grids."""
    names = [column.name for column in header.schema.columns]
    chosen = list(features)
    if isinstance(features, str) or not 1 <= len(chosen) <= 2 or len(set(chosen)) < len(chosen):
        raise SettingsError("partial dependence is of one feature or two different ones, given as a list")
    unknown = [name for name in [*chosen, *grid] if name not in names]
    if unknown:
        raise SettingsError(f"the model has no feature {unknown[0]!r}; it has {', '.join(names)}")
    values = [
        list(grid[name]) if name in grid else default_grid(header, names.index(name)) for name in chosen
    ]
    settings = [
        _coded(header, names.index(name), points) for name, points in zip(chosen, values, strict=True)
    ]
    shape = [len(points) for points in values]
    curves = []
    for where in product(*(range(size) for size in shape)):
        changed = codes.copy()
        for (positions, coded), point in zip(settings, where, strict=True):
            changed[positions] = coded[:, point, None]
        curves.append(f(changed).mean(axis=1))
    draws = np.array(curves)
    lower, upper = equal_tailed(draws.T, level)
    return PartialDependence(
        chosen, values, draws.mean(axis=1).reshape(shape), lower.reshape(shape), upper.reshape(shape), level
    )


def default_grid(header: Header, index: int) -> list[Any]:
    """Points of a feature: every level, or up to 19 values that divide the training rows evenly."""
    column = header.schema.columns[index]
    if column.kind == "category":
        return [*column.levels, *([None] if column.missing else [])]
    if column.kind == "boolean":
        return [False, True]
    position = next(i for i, (j, _) in enumerate(header.schema.coded) if j == index)
    cuts = header.grid.cuts[position]
    inside = [column.min, *((cuts[:-1] + cuts[1:]) / 2), column.max]  # a value of each code
    if len(inside) > GRID_POINTS:
        inside = np.quantile(inside, np.arange(1, GRID_POINTS + 1) / (GRID_POINTS + 1)).tolist()
    return [days_to_text(value) if column.kind == "date" else float(value) for value in dict.fromkeys(inside)]


def _coded(header: Header, index: int, points: list[Any]) -> tuple[list[int], NDArray[np.uint8]]:
    """The coded columns of a feature, and their codes [coded column, point] at some values."""
    column = header.schema.columns[index]
    positions = [i for i, (j, _) in enumerate(header.schema.coded) if j == index]
    values = numbers({column.name: points}, replace(header.schema, columns=(column,)))
    return positions, np.array([header.grid.encode(i, row) for i, row in zip(positions, values, strict=True)])
