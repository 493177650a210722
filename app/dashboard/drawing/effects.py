"""Charts of feature effects: importance, partial dependence, and the density of one prediction."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.dashboard.drawing.canvas import ChartStyle, draw
from app.dashboard.drawing.held_out import short
from app.services.predictions.densities import Density
from app.services.predictions.explanations import Dependence, FeatureShare

SHADES = 48  # of a surface; with more, a colour bar becomes a bitmap
MOST_CLASSES = 8  # in one chart: those whose probability changes most


def importance(features: Sequence[FeatureShare], look: ChartStyle) -> bytes:
    """Draw inclusion proportions with intervals, largest on top."""
    names = [short(feature.name, 22 if look.narrow else 34) for feature in features]
    mean = np.array([feature.mean for feature in features])
    lower = np.array([feature.lower for feature in features])
    upper = np.array([feature.upper for feature in features])
    at = np.arange(len(names))[::-1]

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        axes.hlines(at, lower, upper, color=look.colours.accent, lw=5, alpha=0.28)
        axes.plot(mean, at, ls="none", marker="o", ms=5, mew=0, color=look.colours.accent)
        axes.axvline(1 / max(len(mean), 1), color=look.colours.soft, lw=0.9, ls=(0, (1, 2)))
        axes.set_yticks(at, names)
        axes.tick_params(axis="y", labelcolor=look.colours.ink)
        axes.set_xlim(left=0)
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        axes.set_xlabel("share of the split rules")

    return draw(paint, look)


def dependence(result: Dependence, target: str, look: ChartStyle) -> bytes:
    """Draw partial dependence on one or two features; for more than two classes, one line each."""
    if len(result.features) == 2:
        return _two(result, target, look)
    many = len(result.classes or ())
    return _of_classes(result, look) if many > 2 else _one(result, target, look)


def _one(result: Dependence, target: str, look: ChartStyle) -> bytes:
    (grid,), (name,) = result.grid, result.features
    mean = np.array(result.mean)
    interval = result.intervals[0]
    lower, upper = np.array(interval.lower), np.array(interval.upper)
    numeric = _numeric(grid)

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        colour = look.colours.accent
        if numeric:
            axes.fill_between(grid, lower, upper, color=colour, alpha=0.18, lw=0)
            axes.plot(grid, mean, color=colour, lw=1.8)
            axes.plot(grid, mean, ls="none", marker="|", ms=5, color=colour)
        else:
            at = np.arange(len(grid))
            axes.vlines(at, lower, upper, color=colour, lw=5, alpha=0.28)
            axes.plot(at, mean, ls="none", marker="o", ms=5, mew=0, color=colour)
            _ticks(axes.xaxis, grid, look)
            axes.set_xlim(-0.6, len(grid) - 0.4)
        axes.set_xlabel(short(name))
        axes.set_ylabel(short(target))

    return draw(paint, look)


def _of_classes(result: Dependence, look: ChartStyle) -> bytes:
    (grid,), (name,) = result.grid, result.features
    mean, interval = np.array(result.mean), result.intervals[0]
    ends = np.array(interval.lower), np.array(interval.upper)
    moved = np.argsort(-np.ptp(mean, axis=0), kind="stable")[:MOST_CLASSES]
    numeric = _numeric(grid)

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        at = np.array(grid, float) if numeric else np.arange(len(grid))
        for place, k in enumerate(sorted(moved)):
            colour, label = look.colours.chains[place], short(str((result.classes or ())[k]), 20)
            lower, upper = (end[:, k] for end in ends)
            if numeric:
                axes.fill_between(at, lower, upper, color=colour, alpha=0.14, lw=0)
                axes.plot(at, mean[:, k], color=colour, lw=1.8, label=label)
            else:
                beside = at + 0.6 * ((place + 0.5) / len(moved) - 0.5)
                axes.vlines(beside, lower, upper, color=colour, lw=4, alpha=0.28)
                axes.plot(beside, mean[:, k], ls="none", marker="o", ms=5, mew=0, color=colour, label=label)
        if not numeric:
            _ticks(axes.xaxis, grid, look)
            axes.set_xlim(-0.6, len(grid) - 0.4)
        axes.set_ylim(0, 1)
        axes.set_xlabel(short(name))
        axes.set_ylabel("probability")
        axes.legend(loc="best")

    return draw(paint, look)


def _two(result: Dependence, target: str, look: ChartStyle) -> bytes:
    first, second = result.grid
    mean = np.array(result.mean)
    interval = result.intervals[0]
    ends = np.array(interval.lower), np.array(interval.upper)
    shown = short(target)
    if mean.ndim == 3:
        most = int(np.argmax(np.ptp(mean, axis=(0, 1))))
        mean, ends = mean[..., most], (ends[0][..., most], ends[1][..., most])
        shown = f"probability of {short(str((result.classes or ())[most]), 24)}"
    width = ends[1] - ends[0]

    def paint(figure: Any, look: ChartStyle) -> None:
        from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

        ramp = LinearSegmentedColormap.from_list("ours", list(look.colours.ramp), N=SHADES)
        panels = figure.subplots(*((2, 1) if look.narrow else (1, 2)))
        titles = (shown, f"width of its {100 * interval.level:.0f}% interval")
        for axes, values, title in zip(panels, (mean, width), titles, strict=True):
            axes.grid(visible=False)
            mesh = axes.pcolormesh(
                _edges(first), _edges(second), values.T, cmap=ramp, rasterized=False, lw=0.2, edgecolor="face"
            )
            bar = figure.colorbar(mesh, ax=axes, pad=0.02)
            bar.outline.set_visible(False)
            for axis, grid in ((axes.xaxis, first), (axes.yaxis, second)):
                if not _numeric(grid):
                    _ticks(axis, grid, look)
            axes.set_title(title)
            axes.set_xlabel(short(result.features[0]))
            axes.set_ylabel(short(result.features[1]))

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


def _numeric(grid: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in grid)


def _edges(grid: Sequence[Any]) -> Any:
    if not _numeric(grid):
        return np.arange(len(grid) + 1) - 0.5
    points = np.array(grid, float)
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
