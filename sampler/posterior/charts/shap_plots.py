"""Charts of SHAP values with matplotlib (optional): the waterfall of one row, and the beeswarm of many.

After the charts of the package shap (Lundberg et al. 2020), with the intervals over draws that it has not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.scalars import number_to_text
from sampler.errors import SettingsError
from sampler.posterior.charts.figure import ACCENT, FAIR, SOFT, chart, height_of, new_axes, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.posterior.results.shap_values import ShapValues

    Floats = NDArray[np.float64]

MOST_REASONS = 12  # features of a chart; the others are one bar, or left out
HALF_HEIGHT = 0.35  # half the height of a feature's swarm; neighbouring features are 1 apart
BINS = 60  # bins of the values: points of a swarm in one bin are put side by side


@chart
def draw_waterfall(shap: ShapValues, row: int, ax: Any = None) -> Any:
    """Draw how the columns of one row lead from the base to f, the largest on top, with their intervals."""
    values, lower, upper = (part[row] for part in _of_numbers(shap))
    order = np.argsort(-np.abs(values), kind="stable")
    shown, others = order[:MOST_REASONS], order[MOST_REASONS:]
    names = [f"{short(shap.names[j])} = {short(_cell(shap.data[j][row]))}" for j in shown]
    sizes = [float(values[j]) for j in shown]
    if len(others):
        names.append(f"{len(others)} others")
        sizes.append(float(values[others].sum()))
    ax = new_axes(ax, height_of(len(names)))
    at = np.arange(len(names))[::-1]
    ends = float(shap.base_values) + np.cumsum(sizes[::-1])[::-1]  # from the bottom to the top
    starts = ends - sizes
    colours = [ACCENT if size >= 0 else FAIR for size in sizes]
    ax.barh(at, sizes, left=starts, color=colours, height=0.6, alpha=0.55)
    bars = slice(len(shown))
    ax.hlines(at[bars], starts[bars] + lower[shown], starts[bars] + upper[shown], color=SOFT, lw=1.6)
    ax.axvline(float(shap.base_values), color=SOFT, lw=0.9, ls=":")
    ax.set_yticks(at, names, parse_math=False)
    ax.set_xlabel(
        f"from the average {number_to_text(float(shap.base_values))} to {number_to_text(float(ends[0]))}; "
        f"{shap.scale}",
        parse_math=False,
    )
    return ax


@chart
def draw_beeswarm(shap: ShapValues, ax: Any = None) -> Any:
    """Draw the values of all rows by feature, the largest on top; the colour is the rank of the cell."""
    values, lower, upper = _of_numbers(shap)
    order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:MOST_REASONS]
    ax = new_axes(ax, height_of(len(order)) + 0.6)
    for place, j in enumerate(order[::-1]):
        at = place + swarm(values[:, j])
        ax.hlines(at, lower[:, j], upper[:, j], color=SOFT, lw=0.6, alpha=0.18, zorder=1)
        points = ax.scatter(values[:, j], at, c=ranks_of(shap.data[j]), cmap="viridis", s=9, lw=0, zorder=2)
        points.set_clim(0, 1)
    ax.axvline(0, color=SOFT, lw=0.9, ls=":")
    ax.set_yticks(np.arange(len(order)), [short(shap.names[j]) for j in order[::-1]], parse_math=False)
    bar = ax.figure.colorbar(points, ax=ax, pad=0.02, ticks=[0, 1])
    bar.set_ticklabels(["low", "high"])
    ax.set_xlabel(f"SHAP value; {shap.scale}", parse_math=False)
    return ax


def _of_numbers(shap: ShapValues) -> tuple[Floats, Floats, Floats]:
    if shap.values.ndim > 2:
        raise SettingsError(
            "charts of SHAP values are for numbers and two classes: see `explanation()` for each class",
            field=None,
            code="not_applicable",
        )
    return shap.values, shap.lower, shap.upper


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
