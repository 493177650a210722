"""Charts of feature effects: importance, partial dependence, and the density of one prediction."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard.drawing.canvas import ChartStyle, draw
from app.dashboard.drawing.held_out import short
from app.dashboard.formatting import named_with, number
from app.services.explanations.accumulated_effects import Accumulation
from app.services.explanations.densities import Density
from app.services.explanations.importance import FeatureShare, LossGrowth
from app.services.explanations.partial_dependence import Dependence, FeatureRows
from app.services.explanations.survival import Survival

Floats = NDArray[np.float64]
MICROSECONDS_A_DAY = 86_400_000_000

SHADES = 48  # shades of a surface; with more, a colour bar becomes a bitmap
APART = 0.06  # share of the height by which ends of lines with names beside them are apart
ISO = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?)?$")
MOST_CLASSES = 8  # in one chart: those whose probability changes most


def permutation(
    features: Sequence[LossGrowth], loss: str, look: ChartStyle, unit: str | None = None
) -> bytes:
    """Draw the increase of the loss when a feature is shuffled, with intervals, largest on top."""

    def finish(axes: Any) -> None:
        axes.axvline(0, color=look.colours.soft, lw=0.9)
        named = f"typical error (RMSE{', ' + unit if unit else ''})" if loss == "rmse" else "log loss"
        axes.set_xlabel(f"increase of the {named} when the feature is shuffled")

    return _ranked(features, finish, look)


def importance(features: Sequence[FeatureShare], look: ChartStyle) -> bytes:
    """Draw inclusion proportions with intervals, largest on top."""

    def finish(axes: Any) -> None:
        axes.axvline(1 / max(len(features), 1), color=look.colours.soft, lw=0.9, ls=(0, (1, 2)))
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        axes.set_xlabel("share of the split rules")

    return _ranked(features, finish, look)


def _ranked(
    features: Sequence[LossGrowth | FeatureShare], finish: Callable[[Any], None], look: ChartStyle
) -> bytes:
    """Draw a figure of each feature as a dot on its interval; `finish` completes the axes."""
    names = [short(feature.name, 22 if look.narrow else 34) for feature in features]
    at = np.arange(len(names))[::-1]

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        lower, upper = ([getattr(feature, end) for feature in features] for end in ("lower", "upper"))
        axes.hlines(at, lower, upper, color=look.colours.accent, lw=5, alpha=0.28)
        mean = [feature.mean for feature in features]
        axes.plot(mean, at, ls="none", marker="o", ms=5, mew=0, color=look.colours.accent)
        axes.set_yticks(at, names)
        axes.tick_params(axis="y", labelcolor=look.colours.ink)
        axes.set_ylim(-0.7, len(names) - 0.3)
        finish(axes)

    return draw(paint, look)


def dependence(result: Dependence, target: str, look: ChartStyle, rows: Sequence[FeatureRows] = ()) -> bytes:
    """Draw partial dependence on one or two features; for more than two classes, one line each.

    `rows` describes the values of each feature in the dataset: a rug of them, counts of levels, and whether
    they are dates.
    """
    if len(result.features) == 2:
        return _two(result, target, look, rows)
    (grid,) = result.grid
    of_feature = rows[0] if rows else FeatureRows()
    if not is_ordered(grid):
        return _levels(result, target, look, of_feature)
    return _line(result, target, look, of_feature)


def accumulated(result: Accumulation, target: str, look: ChartStyle, rows: FeatureRows) -> bytes:
    """Draw accumulated local effects of a feature, around zero; for more than two classes, one line each."""
    (interval,) = result.intervals[:1]
    as_curves = Dependence(
        result.model_id, result.draws, result.classes, [result.feature], [result.grid], 0, result.mean,
        [], [interval], None,
    )  # fmt: skip
    return _line(as_curves, target, look, rows, around_zero=True)


def height(grid: Sequence[Sequence[Any]], classes: int = 0) -> float:
    """Return the height of a chart of partial dependence in inches."""
    if len(grid) == 2:
        return 3.8
    if is_ordered(grid[0]):
        return 3.4
    return 0.9 + (0.27 if classes <= 2 else 0.1 * min(classes, MOST_CLASSES) + 0.14) * len(grid[0])


def _line(
    result: Dependence, target: str, look: ChartStyle, rows: FeatureRows, *, around_zero: bool = False
) -> bytes:
    """Draw curves over numbers or dates, above a rug of the data; differences are `around_zero`."""
    (grid,), (name,) = result.grid, result.features
    curves = _curves(result)

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        at = _positions(grid)
        for curve, colour in zip(curves, look.colours.chains, strict=False):
            axes.fill_between(at, curve.lower, curve.upper, color=colour, alpha=0.16, lw=0)
            axes.plot(at, curve.mean, color=colour, lw=1.8, label=curve.label)
            axes.plot(at, curve.mean, ls="none", marker="|", ms=5, color=colour)
        axes.margins(x=0.01)
        low, high = axes.get_xlim()
        if around_zero:
            axes.axhline(0, color=look.colours.soft, lw=0.9, ls=(0, (1, 2)))
        if rows.values:
            values = _positions(rows.values)
            inside = values[(low <= values) & (values <= high)]  # the curve ends before the outermost rows
            axes.plot(
                inside, np.zeros(len(inside)), ls="none", marker="|", ms=7, mew=0.6, color=look.colours.soft,
                alpha=0.5, transform=axes.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip
        if _dates(grid):
            _date_axis(axes.xaxis)
        axes.set_xlabel(named_with(short(name), rows.unit))
        changed = "change of "
        if len(curves) == 1:
            axes.set_ylabel((changed if around_zero else "") + short(target))
        else:
            if not around_zero:
                axes.set_ylim(*within_probabilities(axes.get_ylim()))
            axes.set_ylabel((changed if around_zero else "") + "probability")
            name_lines(axes, [(curve.label, float(curve.mean[-1])) for curve in curves], look)

    return draw(paint, look)


def _levels(result: Dependence, target: str, look: ChartStyle, rows: FeatureRows) -> bytes:
    """Draw the levels of a category one below the other, the largest effect on top, with their rows."""
    (grid,), (name,) = result.grid, result.features
    curves = _curves(result)
    # Of several classes by the one that changes most.
    first = max(curves, key=lambda curve: float(np.ptp(curve.mean)))
    order = np.argsort(first.mean, kind="stable")

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        at = np.arange(len(grid))
        for place, (curve, colour) in enumerate(zip(curves, look.colours.chains, strict=False)):
            beside = at + 0.6 * ((place + 0.5) / len(curves) - 0.5) * (len(curves) > 1)
            thick = 5 if len(curves) == 1 else 3
            axes.hlines(beside, curve.lower[order], curve.upper[order], color=colour, lw=thick, alpha=0.28)
            axes.plot(curve.mean[order], beside, ls="none", marker="o", ms=thick, mew=0, color=colour,
                      label=curve.label)  # fmt: skip
        axes.set_yticks(at, [_named(grid[i], rows, 22 if look.narrow else 40) for i in order])
        axes.tick_params(axis="y", labelcolor=look.colours.ink)
        axes.set_ylim(-0.7, len(grid) - 0.3)
        axes.set_ylabel(short(name))
        axes.set_xlabel(short(target) if len(curves) == 1 else "probability")
        if len(curves) > 1:
            axes.set_xlim(*within_probabilities(axes.get_xlim()))
            axes.legend(loc="best")

    return draw(paint, look)


@dataclass(frozen=True)
class _Curve:
    """Means and interval ends over a grid, of f or of the probability of a class."""

    label: str
    mean: Floats
    lower: Floats
    upper: Floats


def _curves(result: Dependence) -> list[_Curve]:
    """Return the curve of f, or of the classes that change most."""
    interval = result.intervals[0]
    mean, lower, upper = (np.array(each, float) for each in (result.mean, interval.lower, interval.upper))
    if mean.ndim == 1:
        return [_Curve("", mean, lower, upper)]
    moved = np.argsort(-np.ptp(mean, axis=0), kind="stable")[:MOST_CLASSES]
    classes = result.classes or ()
    return [
        _Curve(short(str(classes[k]), 20), mean[:, k], lower[:, k], upper[:, k])
        for k in sorted(moved.tolist())
    ]


def name_lines(axes: Any, ends: Sequence[tuple[str, float]], look: ChartStyle) -> None:
    """Name lines at their right ends where these are apart, else in a legend.

    `ends` has the label of each line, in the order of the colours of chains, and its last value.
    """
    low, high = axes.get_ylim()
    places = sorted(value for _, value in ends)
    apart = all(b - a > APART * (high - low) for a, b in pairwise(places))
    if not apart or look.narrow:
        axes.legend(loc="best")
        return
    for (label, value), colour in zip(ends, look.colours.chains, strict=False):
        axes.annotate(
            label, (1, value), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", color=colour, annotation_clip=False,
        )  # fmt: skip


def _named(level: Any, rows: FeatureRows, most: int) -> str:
    """Return the name of a level with its number of rows."""
    spelled = str(level).lower() if isinstance(level, bool) else level
    name = "missing" if level is None else short(str(spelled), most)
    count = (rows.counts or {}).get(spelled)
    return name if rows.counts is None else f"{name} ({number(count or 0)})"


def _dates(grid: Sequence[Any]) -> bool:
    """Return whether all values are dates in ISO 8601."""
    return bool(grid) and all(isinstance(value, str) and ISO.match(value) for value in grid)


def is_ordered(grid: Sequence[Any]) -> bool:
    """Return whether the points are numbers or dates, and not levels."""
    return _numeric(grid) or _dates(grid)


def _positions(values: Sequence[Any]) -> Any:
    """Return numbers as they are, and dates as days since 1970, the unit of matplotlib's dates."""
    if _numeric(values):
        return np.array(values, float)
    return np.array(values, "datetime64[us]").astype(np.int64) / MICROSECONDS_A_DAY


def _date_axis(axis: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

    locator: Any = AutoDateLocator()  # type: ignore[no-untyped-call]
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _two(result: Dependence, target: str, look: ChartStyle, rows: Sequence[FeatureRows]) -> bytes:
    first, second = result.grid
    mean, sd = np.array(result.mean), np.array(result.sd)
    label = short(target)
    if mean.ndim == 3:
        most = int(np.argmax(np.ptp(mean, axis=(0, 1))))
        mean, sd = mean[..., most], sd[..., most]
        label = f"probability of {short(str((result.classes or ())[most]), 24)}"

    def paint(figure: Any, look: ChartStyle) -> None:
        from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

        ramp = LinearSegmentedColormap.from_list("ours", list(look.colours.ramp), N=SHADES)
        panels = figure.subplots(*((2, 1) if look.narrow else (1, 2)))
        titles = (label, "its standard deviation")
        for axes, values, title in zip(panels, (mean, sd), titles, strict=True):
            axes.grid(visible=False)
            mesh = axes.pcolormesh(
                _edges(first), _edges(second), values.T, cmap=ramp, rasterized=False, lw=0.2, edgecolor="face"
            )
            bar = figure.colorbar(mesh, ax=axes, pad=0.02)
            bar.outline.set_visible(False)
            bar.solids.set(edgecolor="face", lw=0.2)  # else there are seams between the shades
            for axis, grid in ((axes.xaxis, first), (axes.yaxis, second)):
                if _dates(grid):
                    _date_axis(axis)
                elif not _numeric(grid):
                    _ticks(axis, grid, look)
            axes.set_title(title)
            units = [each.unit for each in rows] or [None, None]
            named = [named_with(short(each), unit) for each, unit in zip(result.features, units, strict=True)]
            axes.set_xlabel(named[0])
            axes.set_ylabel(named[1])

    return draw(paint, look)


def density(density: Density, target: str, look: ChartStyle) -> bytes:
    """Draw the posterior density of a prediction, and of a new outcome."""

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        colours = look.colours
        new, mean = density.outcome, density.mean
        axes.grid(visible=False)
        axes.set_yticks([])
        tallest = max(np.max(values) for values in (mean, new) if values is not None)
        for values, colour, label, fill in (
            (new, colours.fair, "a new outcome", 0.12),
            (mean, colours.accent, "the probability" if new is None else "its mean", 0.2),
        ):
            if values is None:
                continue
            height = values / tallest
            axes.fill_between(density.x, height, color=colour, alpha=fill, lw=0)
            axes.plot(density.x, height, color=colour, lw=1.6, label=label)
        for i, (name, colour) in enumerate((("mean", colours.accent), ("outcome", colours.fair))):
            if ends := density.intervals.get(name):
                axes.plot(ends, [-0.07 - 0.08 * i] * 2, color=colour, lw=3.5, solid_capstyle="butt")
        axes.axvline(density.centre, color=colours.ink, lw=0.9, ls=(0, (1, 2)))
        axes.set_ylim(-0.22, 1.08)
        axes.set_xlabel(short(target))
        axes.legend(loc="upper right")

    return draw(paint, look)


def survival(result: Survival, target: str, look: ChartStyle) -> bytes:
    """Draw the survival curve of one row with its band, and its median."""

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        colours, times = look.colours, np.array(result.times)
        at = np.concatenate([[0.0], times]) if times[0] > 0 else times
        curve, lower, upper = (
            np.concatenate([np.ones(len(at) - len(times)), each[0]])
            for each in (result.survival, result.lower, result.upper)
        )
        axes.fill_between(at, lower, upper, color=colours.accent, alpha=0.18, lw=0)
        axes.plot(at, curve, color=colours.accent, lw=1.8)
        if (middle := result.median.value[0]) <= at[-1]:
            axes.plot([at[0], middle, middle], [0.5, 0.5, 0], color=colours.ink, lw=0.9, ls=(0, (1, 2)))
        axes.set_ylim(0, 1.02)
        axes.margins(x=0.01)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        axes.set_xlabel(short(target))
        axes.set_ylabel("probability of more")

    return draw(paint, look)


def within_probabilities(ends: tuple[float, float]) -> tuple[float, float]:
    """Cut the range of an axis of probabilities at 0 and 1."""
    return max(0.0, ends[0]), min(1.0, ends[1])


def _numeric(grid: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in grid)


def _edges(grid: Sequence[Any]) -> Any:
    if not is_ordered(grid):
        return np.arange(len(grid) + 1) - 0.5
    points = _positions(grid)
    if len(points) == 1:
        return np.array([points[0] - 0.5, points[0] + 0.5])
    between = (points[1:] + points[:-1]) / 2
    return np.concatenate([[2 * points[0] - between[0]], between, [2 * points[-1] - between[-1]]])


def _ticks(axis: Any, grid: Sequence[Any], look: ChartStyle) -> None:
    every = max(1, len(grid) // (6 if look.narrow else 14))
    at = np.arange(len(grid))[::every]
    names = ["missing" if grid[i] is None else short(str(grid[i]), 14) for i in at]
    rotate = axis.axis_name == "x" and sum(map(len, names)) > (30 if look.narrow else 90)
    axis.set_ticks(at, names)
    if rotate:
        for label in axis.get_ticklabels():
            label.set(rotation=35, ha="right")
