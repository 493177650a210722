"""Partial dependence: mean predictions with one to three features set to given values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.binning import MISSING, spread
from sampler.data.cut_points import GRID_POINTS
from sampler.data.encode import Coded, Copies, numbers
from sampler.data.scalars import days_to_text
from sampler.errors import SettingsError, unknown_feature
from sampler.posterior.core.intervals import Interval, middle_of
from sampler.posterior.core.progress import track
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.results.effects import Ice, PartialDependence
from sampler.storage.model_header import Header

Evaluate = Callable[[Coded], Floats]
# coded columns of a feature, their codes [column, point] and values before binning
GridSetting = tuple[list[int], NDArray[np.uint8], Floats]
Point = tuple[int, ...]  # the number of a value of each feature

MAX_CELLS = 1 << 21  # draws times rows of a block: 16 MB for each of a few arrays
MAX_KEPT = 1 << 24  # draws times rows times points of each feature, sums of trees that use it alone: 64 MB
MAX_AVERAGES = 1 << 24  # draws times points (times classes) of one answer: 128 MB
POINTS_OF_THREE = 9  # default points of each of three features
FEWEST_ROWS = 20  # fewest rows to average over, if there are as many


@dataclass(frozen=True)
class EffectRequest:
    """Request for partial dependence.

    Attributes
    ----------
    features
        One to three names.
    grid
        Points by feature; features without an entry get `default_grid`.
    levels
        Probabilities of the intervals.
    ice
        Number of single rows whose curves are computed too.

    """

    features: str | Sequence[str]
    grid: Mapping[str, Sequence[Any]]
    levels: tuple[float, ...]
    ice: int = 0


def partial_dependence(
    header: Header,
    f: Evaluate,
    coded: Coded,
    draws: int,
    asked: EffectRequest,
    affordable: Callable[[int, int], float],
    average: Evaluate | None = None,
) -> PartialDependence:
    """Compute partial dependence with intervals over draws.

    Parameters
    ----------
    header
        Header of the model.
    f
        Function from rows to draws of f, float64 [draw, row(, class)].
    coded
        Rows to average over.
    draws
        Number of draws that `f` returns.
    asked
        The request.
    affordable
        Function from the numbers of points and of curves to the number of rows that are not too much work to
        average over; others are left out, evenly, while `FEWEST_ROWS` remain.
    average
        Function from copies of rows (`Coded.copies`) to draws of f averaged over each copy, float64 [draw,
        copy], where that is less work; not for classes.

    Returns
    -------
    PartialDependence
        The grid, and at its points the mean, its sd and intervals.

    Raises
    ------
    SettingsError
        For unknown features, unusable points, and for too much work.
    DataError
        For points that can't be converted to the feature's kind.

    """
    names = [column.name for column in header.schema.columns]
    chosen = _checked(asked, names)
    default = POINTS_OF_THREE if len(chosen) == 3 else GRID_POINTS
    values = [
        list(asked.grid[name]) if name in asked.grid else default_grid(header, names.index(name), default)
        for name in chosen
    ]
    if not all(values) or not coded.num_rows:
        raise SettingsError(
            "grid: there must be at least one point for each feature, and one row to average over",
            field="grid",
            code="not_accepted",
        )
    settings = [
        codes_of(header, names.index(name), points) for name, points in zip(chosen, values, strict=True)
    ]
    shape = [len(points) for points in values]
    most = affordable(math.prod(shape), min(asked.ice, coded.num_rows))
    classes = _num_classes(header)
    cells = math.prod(shape) * draws * (classes or 1)
    if most < min(coded.num_rows, FEWEST_ROWS) or cells > MAX_AVERAGES:
        raise SettingsError(
            "grid: there are too many points: give shorter grids, or pin fewer draws",
            field="grid",
            code="too_large",
        )
    coded = coded.part(spaced(coded.num_rows, most))
    points = list(product(*(range(size) for size in shape)))
    averages = np.zeros((len(points), draws, classes or 1))  # [point, draw, class]
    width = max(16, MAX_CELLS // (draws * (classes or 1)))
    at_once = min(width, max(16, MAX_KEPT // (draws * sum(shape))))
    divided: dict[Any, Any] = {}
    for start in track(range(0, coded.num_rows, at_once), "partial dependence"):
        part = coded.part(slice(start, start + at_once))
        for at, copies in _copied(part, settings, points, width, divided):
            if average is not None:
                averages[at] += part.num_rows * average(copies).T[:, :, None]
            else:
                of_copies = f(copies).reshape(draws, at.stop - at.start, part.num_rows, -1)
                averages[at] += of_copies.sum(axis=2).swapaxes(0, 1)
    averages /= coded.num_rows
    curves = None
    if asked.ice:
        curves = _curves(f, coded, settings, points, width, asked, classes, divided)
    shape += [classes] if classes else []
    tails = [tail for level in asked.levels for tail in ((1 - level) / 2, (1 + level) / 2)]
    size = max(1, MAX_CELLS // (draws * (classes or 1)))
    bounded = bool(header.schema.target.levels)
    figures = [
        _summary(averages[at : at + size], tails, bounded=bounded) for at in range(0, len(averages), size)
    ]
    mean, sd, ends = (np.concatenate(part, axis=-2) for part in zip(*figures, strict=True))
    return PartialDependence(
        features=chosen,
        grid=values,
        mean=mean.reshape(shape),
        sd=sd.reshape(shape),
        intervals=_intervals(asked.levels, ends.reshape(-1, *shape)),
        rows=coded.num_rows,
        ice=curves,
    )


def _summary(averages: Floats, tails: list[float], *, bounded: bool) -> tuple[Floats, Floats, Floats]:
    """Return mean and sd over draws [point, draw, class], also of numbers with no square, and quantiles."""
    apart = averages - averages.mean(axis=1, keepdims=True)
    scale = float(np.abs(apart).max()) or 1.0
    sd = scale * np.sqrt(np.mean((apart / scale) ** 2, axis=1))
    ends = np.quantile(averages, tails, axis=1)
    lower, upper = ends[:2] if tails else (averages.min(axis=1), averages.max(axis=1))
    return middle_of(averages, lower, upper, axis=1, bounded=bounded)[0], sd, ends


def _curves(
    f: Evaluate,
    coded: Coded,
    settings: list[GridSetting],
    points: list[Point],
    width: int,
    asked: EffectRequest,
    classes: int,
    divided: dict[Any, Any],
) -> Ice:
    rows = spaced(coded.num_rows, asked.ice)
    tails = [tail for level in asked.levels for tail in ((1 - level) / 2, (1 + level) / 2)]
    mean = np.empty((len(rows), len(points), classes or 1))
    ends = np.empty((len(tails), *mean.shape))
    for at, copies in _copied(coded.part(rows), settings, points, width, divided):
        values = f(copies)
        values = values.reshape(len(values), at.stop - at.start, len(rows), -1)
        mean[:, at] = values.mean(axis=0).swapaxes(0, 1)
        ends[:, :, at] = np.quantile(values, tails, axis=0).swapaxes(1, 2)
    if not classes:
        mean, ends = mean[..., 0], ends[..., 0]
    return Ice(rows, mean, _intervals(asked.levels, ends))


def _num_classes(header: Header) -> int:
    """Return the number of classes with a value of f each; 0 for numbers and for two classes."""
    many = len(header.schema.target.levels or ())
    return many if many > 2 else 0


def _copied(
    coded: Coded, settings: list[GridSetting], points: list[Point], width: int, divided: dict[Any, Any]
) -> Iterator[tuple[slice, Coded]]:
    """Yield copies of the rows with the features set to successive points, about `width` rows at a time."""
    num_rows = coded.num_rows
    size = max(1, width // num_rows)
    features = tuple(tuple(positions) for positions, _, _ in settings)
    sums: dict[Any, Any] = {}
    for start in track(range(0, len(points), size), "partial dependence"):
        some = points[start : start + size]
        changed = np.tile(coded.codes, (1, len(some)))
        after = None if coded.values is None else np.tile(coded.values, (1, len(some)))
        for i, point in enumerate(some):
            own = slice(i * num_rows, (i + 1) * num_rows)
            for (positions, codes, values), at in zip(settings, point, strict=True):
                changed[positions, own] = codes[:, at, None]
                if after is not None:
                    after[positions, own] = values[:, at, None]
        copies = Copies(features, np.array(some).T, divided, sums)
        yield slice(start, start + len(some)), coded.changed(changed, after, copies)


def _checked(asked: EffectRequest, names: Sequence[str]) -> list[str]:
    chosen = [asked.features] if isinstance(asked.features, str) else list(asked.features)
    if not 1 <= len(chosen) <= 3 or len(set(chosen)) < len(chosen):
        raise SettingsError(
            "features: partial dependence takes a list of one feature, or of two or three different ones",
            field="features",
            code="not_accepted",
        )
    for field, named in (("features", chosen), ("grid", asked.grid)):
        unknown = [name for name in named if name not in names]
        if unknown:
            raise unknown_feature(field, unknown[0], names)
    if asked.ice and len(chosen) > 1:
        raise SettingsError(
            "ice: curves of single rows are for one feature only", field="ice", code="not_applicable"
        )
    return chosen


def _intervals(levels: Sequence[float], ends: Floats) -> list[Interval]:
    return [Interval(level, ends[2 * i], ends[2 * i + 1]) for i, level in enumerate(levels)]


def default_grid(header: Header, index: int, most: int = GRID_POINTS) -> list[Any]:
    """Return the default points of a feature: all levels, or up to `most` values at even quantiles."""
    column = header.schema.columns[index]
    if column.kind == "category":
        return [*column.levels, *([None] if column.missing else [])]
    if column.kind == "encoded":
        return [*column.levels[:most], *([None] if column.missing else [])]
    if column.kind == "boolean":
        return [False, True]
    points = header.default_grid[index] if header.default_grid else _from_codes(header, index)
    chosen = [points[i] for i in spaced(len(points), most)]
    return [days_to_text(value) if column.kind == "date" else value for value in chosen]


def _from_codes(header: Header, index: int) -> list[float]:
    """Derive points from the reference rows' codes, for a model that stores none."""
    position = _positions(header, index)[0]
    codes, inside = header.reference[position], _values_of_codes(header, index)
    counts = np.bincount(codes[codes != MISSING], minlength=len(inside))[: len(inside)]
    return spread(inside, np.maximum(counts, 1) if len(inside) <= GRID_POINTS else counts, GRID_POINTS)


def _values_of_codes(header: Header, index: int) -> Floats:
    """Return a value of each code of a number or date: the middle between its cut points."""
    column, cuts = header.schema.columns[index], header.grid.cuts[_positions(header, index)[0]]
    inside = np.array([column.min, *((cuts[:-1] + cuts[1:]) / 2), column.max], dtype=np.float64)
    return np.rint(inside) if np.array_equal(2 * cuts, np.rint(2 * cuts)) else inside  # between whole numbers


def _positions(header: Header, index: int) -> list[int]:
    """Return the positions of a feature's coded columns."""
    return [i for i, (j, _) in enumerate(header.schema.coded) if j == index]


def cells_of_codes(header: Header, codes: NDArray[np.uint8]) -> list[list[Any]]:
    """List the cells of each column in rows of which only codes [coded column, row] are known.

    A number or date is the middle between its cut points, from whose like the model doesn't tell it; None is
    missing.
    """
    columns: list[list[Any]] = []
    for index, column in enumerate(header.schema.columns):
        own = codes[_positions(header, index)]
        cells: list[Any] = [None] * own.shape[1]
        if column.kind in ("category", "boolean"):
            levels = [False, True] if column.kind == "boolean" else list(column.levels)
            _, coded, _ = codes_of(header, index, levels)
            for number, level in enumerate(levels):
                for row in np.flatnonzero(np.all(own == coded[:, [number]], axis=0)):
                    cells[row] = level
        elif column.kind == "encoded":
            of_levels = header.grid.encode(_positions(header, index)[0], np.array(column.means))
            away = np.abs(of_levels.astype(int) - own[0].astype(int)[:, None])
            cells = [
                None if code == MISSING else column.levels[nearest]
                for code, nearest in zip(own[0].tolist(), away.argmin(axis=1).tolist(), strict=True)
            ]
        else:
            values = _values_of_codes(header, index)
            for row in np.flatnonzero(own[0] != MISSING):
                value = float(values[min(own[0, row], len(values) - 1)])
                cells[row] = days_to_text(value) if column.kind == "date" else value
        columns.append(cells)
    return columns


def codes_of(header: Header, index: int, points: list[Any]) -> GridSetting:
    """Return the positions of a feature's coded columns, their codes [coded column, point], and values."""
    column = header.schema.columns[index]
    positions = _positions(header, index)
    values = numbers({column.name: points}, header.schema.of(column))
    codes = np.array([header.grid.encode(i, row) for i, row in zip(positions, values, strict=True)])
    return positions, codes, values
