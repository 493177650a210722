"""Charts of residuals: outcomes in their predictive distributions, and among outcomes drawn from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import bdtrik, ndtri

from sampler.array_types import Floats
from sampler.posterior.charts.style import DASHED, ChartStyle, chart, label_axes, short

PARTS = (0.05, 0.5, 0.95)  # points of the residuals that are drawn
MOST_VALUES = 30  # of outcomes that are shown one by one
SEEN, DRAWN = "outcomes", "drawn by the model"


@chart
def pit(style: ChartStyle, u: Floats) -> Any:
    """Draw a histogram of probability integral transforms, float64 [row], with the range of 95% of bars.

    If predictive distributions are right, it is flat: high ends tell of intervals that are too narrow, a hill
    of ones that are too wide, a slope of a bias (Gneiting, Balabdaoui and Raftery 2007).
    """
    ax, colours = style.axes(3.4, width=4.6), style.colours
    bins = max(5, min(20, len(u) // 10))
    counts, edges = np.histogram(u, bins, (0.0, 1.0))
    low, high = (bdtrik(tail, len(u), 1 / bins) for tail in (0.025, 0.975))
    ax.axhspan(low / len(u) * bins, high / len(u) * bins, color=colours.soft, alpha=0.18, lw=0)
    ax.axhline(1.0, color=colours.soft, lw=0.9, ls=DASHED)
    ax.stairs(counts / len(u) * bins, edges, color=colours.accent, fill=True, alpha=0.55)
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    label_axes(ax, "predictive probability below the outcome", "density of rows")
    return ax


@chart
def quantile_residuals(style: ChartStyle, mean: Floats, u: Floats, name: str) -> Any:
    """Draw quantile residuals against predictions, with their 5%, 50% and 95% points by part of the rows.

    The residual of a row is the normal score of its probability integral transform `u` (Dunn and Smyth 1996):
    standard normal wherever predictive distributions are right, also of counts. Dashed lines are where the
    points should be.
    """
    ax, colours = style.axes(3.4), style.colours
    z = ndtri(np.clip(u, 1e-6, 1 - 1e-6))
    ax.plot(mean, z, ls="none", marker="o", ms=3, mew=0, color=colours.accent, alpha=0.5)
    for level in PARTS:
        ax.axhline(ndtri(level), color=colours.soft, lw=0.9, ls=DASHED)
    parts = [part for part in np.array_split(np.argsort(mean, kind="stable"), 8) if len(part) >= 10]
    if len(parts) > 1:
        middle = [float(np.median(mean[part])) for part in parts]
        for level in PARTS:
            ax.plot(
                middle, [float(np.quantile(z[part], level)) for part in parts], color=colours.accent, lw=1.4
            )
    label_axes(ax, f"predicted {short(name)}", "quantile residual")
    return ax


@chart
def predictive_check(
    style: ChartStyle, y: Floats, draws: Floats, names: Sequence[str] | None, name: str
) -> Any:
    """Draw outcomes, float64 [row], over outcomes drawn from the posterior predictive, float64 [draw, row].

    Of few values (classes, counts) the share of each with a 90% range of the draws; of others densities as
    histograms (Gelman and others 2013, chapter 6).
    """
    ax, colours = style.axes(3.2), style.colours
    values = np.unique(np.concatenate([y, draws.ravel()]))
    if names is not None or (len(values) <= MOST_VALUES and np.all(values == np.round(values))):
        shares = np.array([(draws == value).mean(axis=1) for value in values])
        ends = np.quantile(shares, [0.05, 0.95], axis=1)
        ax.vlines(values, *ends, color=colours.soft, lw=4, alpha=0.5, label=DRAWN)
        seen = [(y == value).mean() for value in values]
        ax.plot(values, seen, ls="none", marker="o", color=colours.accent, label=SEEN)
        if names is not None:
            ax.set_xticks(values, [short(names[int(value)]) for value in values], parse_math=False)
        label_axes(ax, short(name), "share of rows")
    else:
        low, high = np.quantile(np.concatenate([y, draws.ravel()]), [0.001, 0.999])
        edges = np.linspace(low, high, 31)
        for each in draws:
            label = DRAWN if each is draws[0] else None
            ax.stairs(_density(each, edges), edges, color=colours.soft, alpha=0.25, lw=0.8, label=label)
        ax.stairs(_density(y, edges), edges, color=colours.accent, lw=1.6, label=SEEN)
        label_axes(ax, short(name), "density")
    ax.legend()
    return ax


def _density(values: Floats, edges: Floats) -> Floats:
    counts = np.histogram(values, edges)[0]
    density: Floats = counts / (len(values) * np.diff(edges))
    return density
