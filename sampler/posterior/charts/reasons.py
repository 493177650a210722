"""Charts of SHAP values: the waterfall of one row, and the beeswarm of many.

After the charts of the package shap (Lundberg et al. 2020), with the intervals over draws that it has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.scalars import number_to_text
from sampler.errors import SettingsError
from sampler.posterior.charts.rankings import height_of
from sampler.posterior.charts.style import (
    DOTTED,
    ChartStyle,
    chart,
    label_axes,
    legend_above,
    name_lines,
    short,
)
from sampler.posterior.results.shap_values import ShapValues

MOST_REASONS = 12  # features of a chart; the others are one bar, or left out
HALF_HEIGHT = 0.35  # half the height of a feature's swarm; neighbouring features are 1 apart
BINS = 60  # bins of the values: points of a swarm in one bin are put side by side
SHADES = 24


@chart
def waterfall(style: ChartStyle, shap: ShapValues, row: int) -> Any:
    """Draw how the columns of one row lead from the base to f, the largest on top, with their intervals."""
    if shap.values.ndim > 2:
        raise SettingsError(
            "a waterfall is for numbers and two classes: see `explanation()` for each class",
            field=None,
            code="not_applicable",
        )
    values, lower, upper = (part[row] for part in (shap.values, shap.lower, shap.upper))
    order = np.argsort(-np.abs(values), kind="stable")
    shown, others = order[:MOST_REASONS][::-1], order[MOST_REASONS:]  # from below
    names = [f"{short(shap.names[j])} = {short(_cell(shap.data[j][row]))}" for j in shown]
    sizes = values[shown]
    if len(others):
        names, sizes = [f"{len(others)} others", *names], np.append(values[others].sum(), sizes)
    ax, colours, base = style.axes(height_of(len(names))), style.colours, float(shap.base_values)
    at, ends = np.arange(len(names)), base + np.cumsum(sizes)
    starts = ends - sizes
    ax.barh(
        at, sizes, left=starts, height=0.6, alpha=0.55,
        color=[colours.accent if size >= 0 else colours.fair for size in sizes],
    )  # fmt: skip
    bars = slice(len(at) - len(shown), None)
    ax.hlines(at[bars], starts[bars] + lower[shown], starts[bars] + upper[shown], color=colours.soft, lw=1.6)
    ax.axvline(base, color=colours.soft, lw=0.9, ls=DOTTED)
    name_lines(ax, names, style)
    way = f"from the average {number_to_text(base)} to {number_to_text(float(ends[-1]))}"
    label_axes(ax, f"{way}; {shap.scale}")
    return ax


@chart
def beeswarm(
    style: ChartStyle,
    names: Sequence[str],
    values: Sequence[Floats],
    cells: Sequence[Sequence[Any]],
    scale: str,
) -> Any:
    """Draw SHAP values of rows by feature, the largest on top, each on its interval.

    `values` are the values and the ends of their intervals, float64 [row, feature]; of several classes those
    of one. The colour is the rank of the feature's own cell, in `cells` [feature][row].
    """
    means, lower, upper = values
    order = np.argsort(-np.abs(means).mean(axis=0), kind="stable")[:MOST_REASONS][::-1]  # from below
    ax, colours = style.axes(swarm_height(len(order))), style.colours
    colors = import_module("matplotlib.colors")
    ends = [colours.fair, colours.soft, colours.accent]
    shades = colors.LinearSegmentedColormap.from_list("ranks", ends, N=SHADES)
    for place, j in enumerate(order):
        at = place + swarm(means[:, j])
        ax.hlines(at, lower[:, j], upper[:, j], color=colours.soft, lw=0.6, alpha=0.25, zorder=1)
        shade = {"c": ranks_of(cells[j]), "cmap": shades, "vmin": 0, "vmax": 1}
        ax.scatter(means[:, j], at, s=10, lw=0, zorder=2, **shade)
    ax.axvline(0, color=colours.soft, lw=0.9, ls=DOTTED)
    name_lines(ax, [short(names[j], 22 if style.narrow else 34) for j in order], style)
    label_axes(ax, "moves the prediction by" if style.narrow else f"SHAP value; {short(scale, 90)}")
    for end, label in ((colours.fair, "low value"), (colours.accent, "high value")):
        ax.plot([], [], ls="none", marker="o", ms=4, mew=0, color=end, label=label)
    legend_above(ax, ncols=2)
    return ax


def swarm_height(features: int) -> float:
    """Return the height of a beeswarm in inches."""
    return 1.1 + 0.36 * min(features, MOST_REASONS)


def swarm(values: Floats) -> Floats:
    """Return heights that put points of about the same value side by side, float64 [row]."""
    span = float(np.ptp(values)) or 1.0
    bins = np.floor((values - values.min()) / span * BINS)
    beside = np.zeros(len(values))
    for one in np.unique(bins):
        own = np.flatnonzero(bins == one)
        beside[own] = np.arange(len(own)) - (len(own) - 1) / 2
    most = float(np.abs(beside).max()) or 1.0
    return np.asarray(beside / most * min(HALF_HEIGHT, 0.05 * most))


def ranks_of(cells: Sequence[Any]) -> Floats:
    """Return the ranks of cells as shares from 0 to 1; text by its order, missing values in the middle."""
    known = [k for k, cell in enumerate(cells) if cell is not None and cell == cell]  # noqa: PLR0124  NaN differs
    ranks = np.full(len(cells), 0.5)
    if known:
        _, place = np.unique([cells[k] for k in known], return_inverse=True)
        ranks[known] = place / max(int(place.max()), 1)
    return ranks


def _cell(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124  NaN differs from itself
        return "missing"
    return f"{value:g}" if isinstance(value, float) else str(value)
