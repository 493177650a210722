"""Charts of convergence: traces, ranks, and diagnostics by number of draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.assessment.convergence import rank_curves
from sampler.posterior.charts.style import DASHED, DOTTED, ChartStyle, chart, label_axes, legend_above

BAND = 1.3581  # quantile 0.95 of Kolmogorov's distribution


@chart
def traces(style: ChartStyle, draws: Floats, places: NDArray[np.int64], name: str) -> Any:
    """Draw a line for each chain: `draws`, float64 [chain, place], at the places of these draws."""
    ax = style.axes(2.9)
    for chain, values in enumerate(draws):
        label = f"chain {chain + 1}"
        ax.plot(places, values, lw=0.8, alpha=0.85, color=style.chain_colour(chain), label=label)
    ax.xaxis.get_major_locator().set_params(integer=True)
    return _finish(ax, "kept draw", name, len(draws), style)


@chart
def ranks(style: ChartStyle, draws: Floats, every: int, name: str) -> Any:
    """Draw each chain's share of draws below each rank among all draws, less the expected share.

    `draws`, float64 [chain, draw], holds each `every`-th draw, about independent ones. Chains that agree stay
    in the band, all along with probability 95% (of Kolmogorov's statistic).
    """
    ax = style.axes(2.9)
    half = BAND * np.sqrt((1 - 1 / len(draws)) / draws.shape[1])
    ax.axhspan(-half, half, color=style.colours.soft, alpha=0.16, lw=0)
    for chain, (share, above) in enumerate(rank_curves(draws)):
        ax.plot(share, above, lw=1.2, color=style.chain_colour(chain), label=f"chain {chain + 1}")
    thinning = "" if every == 1 else f"; one draw in {every}"
    return _finish(
        ax, f"rank of {name} among all chains, as a share{thinning}", "share below, less expected",
        len(draws), style,
    )  # fmt: skip


@chart
def growth(style: ChartStyle, curves: Mapping[str, Any]) -> Any:
    """Draw R-hat and effective sample sizes by number of draws, as `Posterior.convergence` gives them."""
    left, right = axes = style.axes(5.6 if style.narrow else 3.1, width=9.6, shape=style.beside)
    colours, f, sigma = style.colours, curves["f"], curves["sigma"] or {}
    likelihood = curves.get("log_likelihood") or {}
    lines = [
        (left, f.get("rhat"), "f, median row", colours.accent, "-"),
        (left, f.get("rhat_p95"), "f, 95% of rows", colours.chains[2], DASHED),
        (left, sigma.get("rhat"), "sigma", colours.fair, "-"),
        (left, likelihood.get("rhat"), "log-likelihood", colours.soft, "-"),
        (right, f.get("ess_bulk"), "f, centre", colours.accent, "-"),
        (right, f.get("ess_tail"), "f, tails", colours.chains[2], DASHED),
        (right, sigma.get("ess_bulk"), "sigma", colours.fair, "-"),
        (right, likelihood.get("ess_bulk"), "log-likelihood", colours.soft, "-"),
    ]
    for panel, values, label, colour, dashes in lines:
        if values:
            known = np.array(values, np.float64)
            panel.plot(curves["draws"], known, color=colour, ls=dashes, lw=1.5, marker="o", ms=3, label=label)
    limit = curves["limits"]["converged"]["rhat"]
    left.axhline(limit, color=colours.soft, lw=0.9, ls=DOTTED, label=f"{limit}: converged")
    right.set_ylim(bottom=0)
    for panel, title in ((left, "R-hat"), (right, "Effective draws")):
        panel.set_title(title)
        label_axes(panel, "kept draws of each chain")
        if panel.lines:  # of very few draws nothing is known
            panel.legend(loc="best")
    return axes


def _finish(ax: Any, x: str, y: str, chains: int, style: ChartStyle) -> Any:
    label_axes(ax, x, y)
    ax.margins(x=0.01)
    if chains <= len(style.colours.chains):
        legend_above(ax, ncols=min(chains, 4) if style.narrow else chains)
        for line in ax.get_legend().get_lines():
            line.set(linewidth=2, alpha=1)
    return ax
