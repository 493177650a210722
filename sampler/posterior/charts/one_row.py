"""Charts of the prediction of one row: its density, and its survival curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sampler.data.scalars import number_to_text
from sampler.posterior.charts.style import DOTTED, ChartStyle, chart, in_percent, label_axes, short
from sampler.posterior.results.effect_checks import EffectCurves


@chart
def density(style: ChartStyle, figures: Mapping[str, Any], label: str) -> Any:
    """Draw densities of the prediction of a row and of a new outcome, as `Posterior.density` gives them."""
    ax, colours = style.axes(2.7), style.colours
    new, mean = figures["outcome"], figures["mean"]
    tallest = max(np.max(values) for values in (mean, new) if values is not None)
    for values, colour, of, fill in (
        (new, colours.fair, "a new outcome", 0.12),
        (mean, colours.accent, "the probability" if new is None else "its mean", 0.2),
    ):
        if values is not None:
            ax.fill_between(figures["x"], values / tallest, color=colour, alpha=fill, lw=0)
            ax.plot(figures["x"], values / tallest, color=colour, lw=1.6, label=of)
    for i, (kind, colour) in enumerate((("mean", colours.accent), ("outcome", colours.fair))):
        if ends := figures["intervals"].get(kind):
            ax.plot(ends, [-0.07 - 0.08 * i] * 2, color=colour, lw=3.5, solid_capstyle="butt")
    if point := figures.get("point"):
        named = f"{point[1]:.0%} are {number_to_text(point[0])}"
        ax.plot([point[0]] * 2, [0, point[1]], color=colours.fair, lw=3.5, label=named)
    ax.axvline(figures["centre"], color=colours.ink, lw=0.9, ls=DOTTED)
    ax.grid(visible=False)
    ax.set_yticks([])
    ax.set_ylim(-0.22, 1.08)
    label_axes(ax, short(label))
    ax.legend(loc="upper right")
    return ax


@chart
def survival(
    style: ChartStyle, times: ArrayLike, curve: Sequence[ArrayLike], median: float, label: str
) -> Any:
    """Draw the survival curve of one row, with the ends of its band at these times, and its median."""
    ax, colours, at = style.axes(2.9), style.colours, np.asarray(times)
    if at[0] > 0:
        at, curve = np.append(0.0, at), [np.append(1.0, each) for each in curve]
    above, lower, upper = curve
    ax.fill_between(at, lower, upper, color=colours.accent, alpha=0.18, lw=0)
    ax.plot(at, above, color=colours.accent, lw=1.8)
    if median <= at[-1]:
        ax.plot([at[0], median, median], [0.5, 0.5, 0], color=colours.ink, lw=0.9, ls=DOTTED)
    ax.set_ylim(0, 1.02)
    ax.margins(x=0.01)
    in_percent(ax.yaxis)
    label_axes(ax, short(label), "probability of more")
    return ax


@chart
def curves_of_arms(style: ChartStyle, curves: EffectCurves, names: tuple[str, str]) -> Any:
    """Draw the survival curves of the same rows in two arms, with bands, and Kaplan and Meier's dotted."""
    ax, colours, at = style.axes(2.9), style.colours, np.append(0.0, curves.times)
    for own, name, colour in zip(
        (curves.arm, curves.against), names, (colours.accent, colours.fair), strict=True
    ):
        ax.fill_between(at, np.append(1, own.lower), np.append(1, own.upper), color=colour, alpha=0.18, lw=0)
        ax.plot(at, np.append(1, own.survival), color=colour, lw=1.8, label=short(name))
        if own.kaplan_meier is not None:
            ax.plot(at, np.append(1, own.kaplan_meier), color=colour, lw=0.9, ls=DOTTED)
    ax.set_ylim(0, 1.02)
    ax.margins(x=0.01)
    in_percent(ax.yaxis)
    label_axes(ax, "time", "probability of more")
    ax.legend(loc="upper right")
    return ax
