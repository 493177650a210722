"""Drawings of effects: curves along a grid of one feature, surfaces over grids of two."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.posterior.charts.figure import label_axes, level_name, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RAMP = ("#f3efe2", "#79b5b0", "#0a4a52")


def places_of(grid: Sequence[Any], kind: str) -> Any:
    """Return the places of a grid on an axis: numbers, times, or positions of levels."""
    if kind == "date":
        return np.array(grid, "datetime64[us]")
    return np.array(grid, np.float64) if kind == "number" else np.arange(len(grid))


def by_effect(grid: Sequence[Any], kind: str, mean: Floats) -> list[int]:
    """Order levels from the least mean to the greatest; booleans and several classes keep their order."""
    if kind == "boolean" or mean.ndim == 2:
        return list(range(len(grid)))
    return [int(k) for k in np.argsort(mean, kind="stable")]


def draw_curve(axes: Any, grid: Sequence[Any], kind: str, curve: Any, beside: float) -> None:
    """Draw a curve with its interval; for levels a point each, shifted by `beside`."""
    mean, lower, upper, colour, label = curve
    name = None if label is None else short(label)
    at = places_of(grid, kind)
    if kind in {"category", "boolean"}:
        order = by_effect(grid, kind, mean if label is None else mean[:, None])
        places = at + 0.6 * beside
        axes.hlines(places, lower[order], upper[order], color=colour, lw=4, alpha=0.28)
        axes.plot(mean[order], places, ls="none", marker="o", ms=5, mew=0, color=colour, label=name)
        return
    axes.fill_between(at, lower, upper, color=colour, alpha=0.18, lw=0)
    # The points divide the training rows evenly: their marks show where data are.
    axes.plot(at, mean, color=colour, lw=1.8, marker="|", ms=6, label=name)


def draw_surfaces(effect: Any, kinds: Sequence[str], label: str, classes: Sequence[str], axes: Any) -> Any:
    """Draw the partial dependence on two features: its mean, and its posterior sd."""
    pyplot, colors = (import_module(f"matplotlib.{name}") for name in ("pyplot", "colors"))
    mean, sd = effect.mean, effect.sd
    if mean.ndim == 3:
        most = int(np.argmax(np.ptp(mean, axis=(0, 1))))
        mean, sd = mean[..., most], sd[..., most]
        label = f"probability of {classes[most]}"
    if axes is None:
        _, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
    ramp = colors.LinearSegmentedColormap.from_list("surface", list(RAMP))
    for ax, values, title in zip(axes, (mean, sd), (label, "its standard deviation"), strict=True):
        places = [places_of(grid, kind) for grid, kind in zip(effect.grid, kinds, strict=True)]
        mesh = ax.pcolormesh(*places, values.T, cmap=ramp, shading="nearest")
        ax.figure.colorbar(mesh, ax=ax, pad=0.02)
        for axis, grid, kind in zip((ax.xaxis, ax.yaxis), effect.grid, kinds, strict=True):
            if kind in {"category", "boolean"}:
                axis.set_ticks(np.arange(len(grid)), [level_name(level) for level in grid], parse_math=False)
        ax.set_title(short(title), fontsize="medium", loc="left", parse_math=False)
        label_axes(ax, *effect.features)
    return axes
