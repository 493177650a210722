"""Charts of figures with their intervals, one a line: importance, interactions, contrasts, selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import number_to_text
from sampler.errors import SettingsError
from sampler.posterior.charts.style import (
    DOTTED,
    MOST_FEATURES,
    ChartStyle,
    chart,
    in_percent,
    label_axes,
    legend_above,
    name_lines,
    short,
)
from sampler.posterior.results.effect_estimates import EffectEstimate
from sampler.posterior.results.interactions import Interactions

if TYPE_CHECKING:
    from sampler.posterior.results.contrasts import Contrast

Ranked = Iterable[tuple[str, float, float, float]]  # a name, a figure and its ends, the largest first


def height_of(lines: int) -> float:
    """Return the height in inches of a chart with that number of lines."""
    return 0.75 + 0.27 * min(lines, MOST_FEATURES)


@chart
def importance(
    style: ChartStyle, features: Ranked, loss: str, unit: str | None = None, baseline: float | None = None
) -> Any:
    """Draw the increase of the loss, in `unit` and from `baseline`, when a feature is shuffled."""
    ax = _dots(features, style)
    ax.axvline(0, color=style.colours.soft, lw=0.9)
    named = f"typical error (RMSE{', ' + unit if unit else ''})" if loss == "rmse" else "log loss"
    beginning = "" if baseline is None else f", from {number_to_text(baseline, 3)},"
    label_axes(ax, f"increase of the {named}{beginning} when the feature is shuffled")
    return ax


@chart
def inclusion(style: ChartStyle, features: Ranked) -> Any:
    """Draw the share of split rules that use each feature, with its interval, beside an equal share."""
    features = list(features)
    ax = _dots(features, style)
    ax.axvline(1 / max(len(features), 1), color=style.colours.soft, lw=0.9, ls=DOTTED)
    ax.set_xlim(left=0)
    in_percent(ax.xaxis)
    label_axes(ax, "share of the split rules")
    return ax


@chart
def inclusion_by_trees(
    style: ChartStyle, num_trees: list[int], names: list[str], mean: Floats, lower: Floats, upper: Floats
) -> Any:
    """Draw the share of the rules of each feature by the number of trees, beside an equal share.

    The first eight have colours; those above an equal share with the fewest trees have intervals too.
    """
    ax, equal, colours = style.axes(3.4), 1 / max(len(names), 1), style.colours
    for place, j in enumerate(np.argsort(-mean[0], kind="stable")[:MOST_FEATURES]):
        known = place < len(colours.chains)
        colour, label = (style.chain_colour(place), short(names[j], 22)) if known else (colours.soft, None)
        ax.plot(num_trees, mean[:, j], color=colour, lw=1.6 if known else 0.9, marker="o", ms=3, label=label)
        if mean[0, j] > equal:
            ax.fill_between(num_trees, lower[:, j], upper[:, j], color=colour, alpha=0.12, lw=0)
    ax.axhline(equal, color=colours.soft, lw=0.9, ls=DOTTED)
    ax.set_xscale("log")
    ax.set_xticks(num_trees, map(str, num_trees))
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    in_percent(ax.yaxis)
    label_axes(ax, "trees", "share of the split rules")
    if names:
        legend_above(ax, "left", ncols=2 if style.narrow else 4)
    return ax


@chart
def interactions(style: ChartStyle, pairs: Interactions) -> Any:
    """Draw the strength of each pair with its interval, the strongest on top."""
    names = (f"{a} : {b}" for a, b in pairs.pairs)
    figures = zip(names, pairs.strength, pairs.strength_lower, pairs.strength_upper, strict=True)
    ax = _dots(figures, style)
    ax.set_xlim(left=0)
    label_axes(ax, f"strength: sd over rows, of {pairs.scale}")
    return ax


@chart
def contrast(style: ChartStyle, result: Contrast) -> Any:
    """Draw the averages of a contrast and those of its groups, with their intervals."""
    if np.ndim(result.average.mean):
        raise SettingsError(
            "charts of contrasts are for numbers and two classes: see `to_pandas()` for each class",
            field=None,
            code="not_applicable",
        )
    figures = [(name, *map(float, each[:3])) for name, each in result.named_estimates().items()]
    ax = _dots(figures, style)  # type: ignore[arg-type]
    ax.axvline(0, color=style.colours.soft, lw=0.9, ls=DOTTED)
    label_axes(ax, f"{result.difference}; {100 * result.level:g}% intervals")
    return ax


@chart
def treatment_effects(
    style: ChartStyle, averages: Mapping[str, EffectEstimate], label: str, neutral: float = 0.0
) -> Any:
    """Draw average effects of all rows, of the arms and of groups, by name, with their intervals."""
    ax = _dots([(name, each.mean, each.lower, each.upper) for name, each in averages.items()], style)
    ax.axvline(neutral, color=style.colours.soft, lw=0.9, ls=DOTTED)
    label_axes(ax, label)
    return ax


@chart
def row_effects(style: ChartStyle, mean: Floats, lower: Floats, upper: Floats, neutral: float = 0.0) -> Any:
    """Draw the effects of rows [row] from the smallest to the largest, with their intervals."""
    order = np.argsort(mean, kind="stable")
    ax, at = style.axes(3.4), np.arange(1, len(order) + 1)
    ax.fill_between(at, lower[order], upper[order], color=style.colours.accent, alpha=0.2, lw=0)
    ax.plot(at, mean[order], color=style.colours.accent, lw=1.4)
    ax.axhline(neutral, color=style.colours.soft, lw=0.9, ls=DOTTED)
    label_axes(ax, "rows, the smallest effect first", "effect")
    return ax


@chart
def selection(
    style: ChartStyle,
    names: list[str],
    share: NDArray[np.float64],
    null: NDArray[np.float64],
    threshold: NDArray[np.float64],
) -> Any:
    """Draw the shares of features beside those by chance, and bars up to the thresholds."""
    order = np.argsort(-share, kind="stable")[:MOST_FEATURES][::-1]  # from below
    ax, soft, at = style.axes(height_of(len(order))), style.colours.soft, np.arange(len(order))
    ax.hlines(at, 0, threshold[order], color=soft, lw=5, alpha=0.28)
    for row in null[:, order]:
        ax.plot(row, at, ls="none", marker="|", ms=6, mew=0.5, color=soft, alpha=0.4)
    chosen = share[order] > threshold[order]
    for which, colour, label in ((chosen, style.colours.accent, "selected"), (~chosen, soft, "not selected")):
        if which.any():
            dots = share[order][which]
            ax.plot(dots, at[which], ls="none", marker="o", ms=6, mew=0, color=colour, label=label)
    name_lines(ax, [short(names[j]) for j in order], style)
    ax.set_xlim(left=0)
    label_axes(ax, "share of the split rules")
    ax.legend(loc="lower right")
    return ax


def _dots(figures: Ranked, style: ChartStyle) -> Any:
    """Draw the first figures as dots on their intervals, from top to bottom."""
    shown = list(figures)[:MOST_FEATURES][::-1]
    ax = style.axes(height_of(len(shown)))
    names, mean, lower, upper = zip(*shown, strict=True) if shown else ((), (), (), ())
    at = np.arange(len(shown))
    ax.hlines(at, lower, upper, color=style.colours.accent, lw=5, alpha=0.28)
    ax.plot(mean, at, ls="none", marker="o", ms=5, mew=0, color=style.colours.accent)
    name_lines(ax, [short(name, 22 if style.narrow else 34) for name in names], style)
    return ax
