"""Charts of effects: curves along one feature, levels, and surfaces over two, also at values of a third."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sampler.array_types import Floats
from sampler.data.scalars import MICROSECONDS_A_DAY, named_with, number_to_text
from sampler.posterior.charts.style import DOTTED, ChartStyle, chart, label_axes, name_lines, short
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.results.effects import AccumulatedEffects, FeatureRows, PartialDependence

SHADES = 48  # shades of a surface; with more, a colour bar becomes a bitmap
APART = 0.06  # share of the height by which ends of lines with names beside them are apart
ISO = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?)?$")
MOST_CLASSES = 8  # in one chart: those whose probability changes most


@chart
def dependence(
    style: ChartStyle, effect: PartialDependence, label: str, rows: Sequence[FeatureRows] = ()
) -> Any:
    """Draw the partial dependence of `label` on one feature, or on two as surfaces: its mean, and its sd.

    On three it is the mean at the lowest, a middle and the highest value of the third. Of more than two
    classes each has a curve, or the one that changes most its surfaces. `rows` describes the values of each
    feature in the data: a rug of them, and counts of levels.
    """
    facts = list(rows) or [FeatureRows()] * len(effect.features)
    label = outcome_name(label, effect.classes)
    if len(effect.features) > 1:
        return _draw_surfaces(effect, label, facts, style)
    (grid,), (name,) = effect.grid, effect.features
    ax = style.axes(height_of(effect.grid, len(effect.classes or ())))
    if not is_ordered(grid):
        return _draw_levels(ax, effect, name, label, facts[0], style)
    if effect.ice is not None and effect.ice.mean.ndim == 2:
        ax.plot(_places(grid), effect.ice.mean.T, color=style.colours.soft, lw=0.6, alpha=0.5, zorder=1)
    curves = _draw_curves(ax, effect, name, grid, facts[0], style)
    label_axes(ax, None, short(label) if len(curves) == 1 else "probability")
    if len(curves) > 1:
        ax.set_ylim(*_within(ax.get_ylim()))
        _name_curves(ax, curves, style)
    return ax


@chart
def accumulated(
    style: ChartStyle, effects: AccumulatedEffects, label: str, rows: FeatureRows | None = None
) -> Any:
    """Draw accumulated local effects of a feature, around zero; of more than two classes a curve for each."""
    ax = style.axes(height_of([effects.grid]))
    curves = _draw_curves(ax, effects, effects.feature, effects.grid, rows or FeatureRows(), style)
    ax.axhline(0, color=style.colours.soft, lw=0.9, ls=DOTTED)
    changed = short(outcome_name(label, effects.classes)) if len(curves) == 1 else "probability"
    label_axes(ax, None, f"change of {changed}")
    if len(curves) > 1:
        _name_curves(ax, curves, style)
    return ax


def height_of(grid: Sequence[Sequence[Any]], classes: int = 0) -> float:
    """Return the height in inches of a chart of effects along one to three grids, on a wide page."""
    if len(grid) > 1:
        return 3.8
    if is_ordered(grid[0]):
        return 3.4
    return 0.9 + (0.27 if classes <= 2 else 0.1 * min(classes, MOST_CLASSES) + 0.14) * len(grid[0])


def outcome_name(target: str, classes: Sequence[str] | None) -> str:
    """Name what predictions are of: the target, or the probability of the second of two classes."""
    return f"probability of {classes[1]}" if classes and len(classes) == 2 else target


def is_ordered(grid: Sequence[Any]) -> bool:
    """Return whether the points are numbers or dates, and not levels."""
    return _numeric(grid) or _dates(grid)


class _Curve(NamedTuple):
    """Means and interval ends over a grid, of f or of the probability of a class."""

    label: str
    mean: Floats
    lower: Floats
    upper: Floats


def _curves_of(effect: PartialDependence | AccumulatedEffects) -> list[_Curve]:
    """Return the curve of f, or of the classes that change most."""
    mean = effect.mean
    if mean.ndim == 1:
        return [_Curve("", mean, effect.lower, effect.upper)]
    moved = np.argsort(-np.ptp(mean, axis=0), kind="stable")[:MOST_CLASSES]
    return [
        _Curve(short((effect.classes or ())[k], 20), mean[:, k], effect.lower[:, k], effect.upper[:, k])
        for k in sorted(moved.tolist())
    ]


def _draw_curves(
    ax: Any,
    effect: PartialDependence | AccumulatedEffects,
    name: str,
    grid: Sequence[Any],
    rows: FeatureRows,
    style: ChartStyle,
) -> list[_Curve]:
    """Draw curves over numbers or dates, above a rug of the data."""
    at, curves = _places(grid), _curves_of(effect)
    for k, curve in enumerate(curves):
        colour = style.chain_colour(k)
        ax.fill_between(at, curve.lower, curve.upper, color=colour, alpha=0.16, lw=0)
        # The points divide the training rows evenly: their marks show where data are.
        ax.plot(at, curve.mean, color=colour, lw=1.8, marker="|", ms=5, label=curve.label)
    ax.margins(x=0.01)
    low, high = ax.get_xlim()
    if rows.values:
        values = _places(rows.values)
        inside = values[(low <= values) & (values <= high)]  # the curve ends before the outermost rows
        ax.plot(
            inside, np.zeros(len(inside)), ls="none", marker="|", ms=7, mew=0.6, color=style.colours.soft,
            alpha=0.5, transform=ax.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    if _dates(grid):
        _write_dates(ax.xaxis)
    label_axes(ax, named_with(short(name), rows.unit))
    return curves


def _draw_levels(
    ax: Any, effect: PartialDependence, name: str, label: str, rows: FeatureRows, style: ChartStyle
) -> Any:
    """Draw the levels of a category one below the other, the largest effect on top, with their rows."""
    (grid,), curves = effect.grid, _curves_of(effect)
    # Of several classes by the one that changes most.
    order = np.argsort(max(curves, key=lambda curve: float(np.ptp(curve.mean))).mean, kind="stable")
    thick = 5 if len(curves) == 1 else 3
    for k, curve in enumerate(curves):
        colour = style.chain_colour(k)
        at = np.arange(len(grid)) + (0.6 * ((k + 0.5) / len(curves) - 0.5) if len(curves) > 1 else 0)
        ax.hlines(at, curve.lower[order], curve.upper[order], color=colour, lw=thick, alpha=0.28)
        dots = {"marker": "o", "ms": thick, "mew": 0, "color": colour}
        ax.plot(curve.mean[order], at, ls="none", label=curve.label, **dots)
    name_lines(ax, [_level_name(grid[i], rows, 22 if style.narrow else 40) for i in order], style)
    label_axes(ax, short(label) if len(curves) == 1 else "probability", short(name))
    if len(curves) > 1:
        ax.set_xlim(*_within(ax.get_xlim()))
        ax.legend(loc="best")
    return ax


def _draw_surfaces(
    effect: PartialDependence, label: str, rows: Sequence[FeatureRows], style: ChartStyle
) -> Any:
    mean, sd = effect.mean, effect.sd
    if mean.ndim > len(effect.features):
        most = int(np.argmax(np.ptp(mean, axis=tuple(range(len(effect.features))))))
        mean, sd = mean[..., most], sd[..., most]
        label = f"probability of {short((effect.classes or ())[most], 24)}"
    panels, limits = [(mean, short(label)), (sd, "its standard deviation")], {}
    if len(effect.features) == 3:
        third, points = short(effect.features[2], 16), effect.grid[2]
        at = spaced(len(points), 3)
        panels = [(mean[..., k], f"{third} {_point_name(points[k])}") for k in at]
        limits = {"vmin": mean[..., at].min(), "vmax": mean[..., at].max()}
    shape = (len(panels), 1) if style.narrow else (1, len(panels))
    height = 3.3 * len(panels) if style.narrow else height_of(effect.grid)
    axes = style.axes(height, width=4.8 * max(2, len(panels)), shape=shape)
    colors = import_module("matplotlib.colors")
    ramp = colors.LinearSegmentedColormap.from_list("ours", list(style.colours.ramp), N=SHADES)
    first, second = (_edges(grid) for grid in effect.grid[:2])
    for ax, (values, title) in zip(np.ravel(axes), panels, strict=True):
        ax.grid(visible=False)
        mesh = ax.pcolormesh(
            first, second, values.T, cmap=ramp, rasterized=False, lw=0.2, edgecolor="face", **limits
        )
        bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
        bar.outline.set_visible(False)
        bar.solids.set(edgecolor="face", lw=0.2)  # else there are seams between the shades
        for axis, grid in ((ax.xaxis, effect.grid[0]), (ax.yaxis, effect.grid[1])):
            if _dates(grid):
                _write_dates(axis)
            elif not _numeric(grid):
                _write_levels(axis, grid, style)
        ax.set_title(title, parse_math=False)
        named = list(zip(effect.features, rows, strict=True))[:2]
        label_axes(ax, *(named_with(short(name), each.unit) for name, each in named))
    if limits:
        bar.set_label(short(label))
    return axes


def _name_curves(ax: Any, curves: Sequence[_Curve], style: ChartStyle) -> None:
    """Name curves at their right ends where these are apart, else in a legend."""
    low, high = ax.get_ylim()
    places = sorted(float(curve.mean[-1]) for curve in curves)
    if style.narrow or any(b - a <= APART * (high - low) for a, b in pairwise(places)):
        ax.legend(loc="best")
        return
    for k, curve in enumerate(curves):
        ax.annotate(
            curve.label, (1, curve.mean[-1]), (6, 0), xycoords=("axes fraction", "data"), va="center",
            textcoords="offset points", color=style.chain_colour(k), annotation_clip=False,
        )  # fmt: skip


def _level_name(level: Any, rows: FeatureRows, most: int) -> str:
    """Return the name of a level with its number of rows."""
    spelled = str(level).lower() if isinstance(level, bool) else level
    name = "missing" if level is None else short(str(spelled), most)
    return name if rows.counts is None else f"{name} ({number_to_text(rows.counts.get(spelled) or 0)})"


def _point_name(value: Any) -> str:
    """Return a value of a feature for a title."""
    return number_to_text(value) if _numeric([value]) else _level_name(value, FeatureRows(), 14)


def _write_levels(axis: Any, grid: Sequence[Any], style: ChartStyle) -> None:
    at = np.arange(len(grid))[:: max(1, len(grid) // (6 if style.narrow else 14))]
    names = [_level_name(grid[i], FeatureRows(), 14) for i in at]
    axis.set_ticks(at, names, parse_math=False)
    if axis.axis_name == "x" and sum(map(len, names)) > (30 if style.narrow else 90):
        for tick in axis.get_ticklabels():
            tick.set(rotation=35, ha="right")


def _write_dates(axis: Any) -> None:
    dates = import_module("matplotlib.dates")
    locator = dates.AutoDateLocator()
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _within(ends: tuple[float, float]) -> tuple[float, float]:
    """Cut the range of an axis of probabilities at 0 and 1."""
    return max(0.0, ends[0]), min(1.0, ends[1])


def _numeric(grid: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in grid)


def _dates(grid: Sequence[Any]) -> bool:
    """Return whether all values are dates in ISO 8601."""
    return bool(grid) and all(isinstance(value, str) and ISO.match(value) for value in grid)


def _places(values: Sequence[Any]) -> Floats:
    """Return numbers as they are, and dates as days since 1970, the unit of matplotlib's dates."""
    if _numeric(values):
        return np.array(values, np.float64)
    return np.array(values, "datetime64[us]").astype(np.int64) / MICROSECONDS_A_DAY


def _edges(grid: Sequence[Any]) -> Floats:
    """Return the ends of the cells around the points of a grid."""
    if not is_ordered(grid):
        return np.arange(len(grid) + 1.0) - 0.5
    points = _places(grid)
    if len(points) == 1:
        return np.array([points[0] - 0.5, points[0] + 0.5])
    between = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - between[0]], between, [2 * points[-1] - between[-1]]])
