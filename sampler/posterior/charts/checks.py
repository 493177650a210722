"""Charts that compare predictions with known outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sampler.array_types import Floats
from sampler.posterior.charts.style import (
    DASHED,
    DOTTED,
    ChartStyle,
    chart,
    in_percent,
    label_axes,
    legend_above,
    mark,
    name_lines,
    short,
)

MOST_WEEKS = 104  # the newest that are drawn


def _square(style: ChartStyle, width: float = 5.9) -> Any:
    """Return the axes of a chart whose axes are alike, with the grid of both."""
    ax = style.axes(3.8 if style.narrow else 4.2, width=width)
    ax.grid(visible=True, axis="both")
    return ax


@chart
def predicted(
    style: ChartStyle, actual: ArrayLike, mean: ArrayLike, lower: ArrayLike, upper: ArrayLike, name: str
) -> Any:
    """Draw predicted against actual numbers, with the interval of each row; misses stand out."""
    ax, colours = _square(style), style.colours
    actual, mean, lower, upper = (np.array(each, np.float64) for each in (actual, mean, lower, upper))
    inside = (lower <= actual) & (actual <= upper)
    seen = np.concatenate([actual, mean[np.isfinite(mean)]])
    ends = [seen.min(), seen.max()]
    ax.plot(ends, ends, color=colours.soft, lw=0.9, ls=DASHED, zorder=1)
    for which, colour in ((inside, colours.accent), (~inside, colours.fair)):
        ax.vlines(actual[which], lower[which], upper[which], color=colour, lw=1.0, alpha=0.38, zorder=2)
    held, missed = "interval holds the outcome", "interval misses it"
    kinds = [(inside, f"{held} ({inside.sum()})"), (~inside, f"{missed} ({(~inside).sum()})")]
    mark(ax, actual, mean, style, kinds)
    label_axes(ax, f"actual {short(name)}", f"predicted {short(name)}")
    ax.legend(loc="upper left")
    return ax


@chart
def by_rank(style: ChartStyle, mean: Floats, lower: Floats, upper: Floats, name: str) -> Any:
    """Draw predictions with their intervals in the order of the mean."""
    ax, colour, order = style.axes(4.0), style.colours.accent, np.argsort(mean, kind="stable")
    at = np.arange(len(mean))
    ax.vlines(at, lower[order], upper[order], color=colour, lw=1.0, alpha=0.38)
    ax.plot(at, mean[order], ls="none", marker="o", ms=3, mew=0, color=colour)
    label_axes(ax, "rows, by prediction", short(name))
    return ax


@chart
def probabilities(style: ChartStyle, actual: ArrayLike, mean: ArrayLike, classes: Sequence[str]) -> Any:
    """Draw the predicted probabilities of the rows of two classes as bars, those of the first below."""
    ax, edges = style.axes(3.8 if style.narrow else 4.2), np.linspace(0, 1, 21)
    for value, colour in ((0, style.colours.fair), (1, style.colours.accent)):
        counts, _ = np.histogram(np.asarray(mean)[np.asarray(actual) == value], edges)
        label = f"rows that are {short(classes[value])}"
        ax.stairs(counts if value else -counts, edges, fill=True, color=colour, alpha=0.8, label=label)
    ax.axhline(0, color=style.colours.soft, lw=0.8)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    label_axes(ax, f"predicted probability of {short(classes[1])}", "rows")
    ax.legend(loc="best")
    return ax


@chart
def own_class(
    style: ChartStyle, actual: ArrayLike, chosen: ArrayLike, probability: ArrayLike, classes: Sequence[str]
) -> Any:
    """Draw for more than two classes the probability given to each row's own class, one line per class.

    Rows stand out whose class was not the `chosen` one, the most probable.
    """
    actual, probability = np.array(actual, np.int64), np.array(probability, np.float64)
    right = actual == np.array(chosen, np.int64)
    seen, at = np.unique(actual, return_inverse=True)
    place = np.empty(len(at))
    for k in range(len(seen)):
        place[at == k] = k + np.linspace(-0.3, 0.3, np.count_nonzero(at == k))
    ax = style.axes(3.8 if style.narrow else 4.2)
    best, other = "the most probable class", "another was more probable"
    kinds = [(right, f"{best} ({right.sum()})"), (~right, f"{other} ({(~right).sum()})")]
    mark(ax, probability, place, style, kinds)
    every = max(1, len(seen) // 20)
    name_lines(ax, [short(classes[k], 16) if i % every == 0 else "" for i, k in enumerate(seen)], style)
    ax.set_xlim(-0.02, 1.02)
    label_axes(ax, "probability given to a row's own class")
    legend_above(ax, "left", ncols=1 if style.narrow else 2)
    return ax


@chart
def calibration(
    style: ChartStyle, entries: Sequence[Mapping[str, Any]], classes: Sequence[str] | None
) -> Any:
    """Draw observed against claimed shares with their intervals, as `Posterior.calibration` gives them."""
    ax, colour = _square(style, 4.6), style.colours.accent
    level, observed, lower, upper = (
        np.array([entry[name] for entry in entries]) for name in ("level", "observed", "lower", "upper")
    )
    ax.plot([0, 1], [0, 1], color=style.colours.soft, lw=0.9, ls=DASHED)
    thresholds = [*dict.fromkeys(entry["up_to"] for entry in entries if "up_to" in entry)]
    if thresholds:
        of = np.array([entry["up_to"] for entry in entries])
        for k, name in enumerate(thresholds):
            own, shade = of == name, style.chain_colour(k)
            ax.vlines(level[own], lower[own], upper[own], color=shade, lw=1.2, alpha=0.5)
            label = f"up to {short(str(name), 16)}"
            ax.plot(level[own], observed[own], color=shade, lw=1.0, marker="o", ms=3.4, label=label)
        ax.legend(loc="upper left")
    elif classes:
        ax.vlines(level, lower, upper, color=colour, lw=1.4, alpha=0.6)
    else:
        ax.fill_between(level, lower, upper, color=colour, alpha=0.18, lw=0)
    if not thresholds:
        ax.plot(level, observed, color=colour, lw=0 if classes else 1.5, marker="o", ms=3.4)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for axis in (ax.xaxis, ax.yaxis):
        in_percent(axis)
    if not classes:
        label_axes(ax, "intervals claim to hold", "of the outcomes they held")
    elif len(classes) == 2:
        label_axes(ax, f"predicted probability of {short(classes[1])}", "share of rows of that class")
    elif thresholds:
        label_axes(ax, "probability of a class or a lower one", "share of rows of such a class")
    else:
        label_axes(ax, "probability of the most probable class", "share of rows of that class")
    return ax


@chart
def roc(
    style: ChartStyle, counts: Sequence[Mapping[str, float]], area: Mapping[str, float] | None, name: str
) -> Any:
    """Draw the ROC curve of two classes, of which `name` is the second.

    `counts` are ``confusion_by_threshold`` of `class_scores`; `area` is that under the curve with its
    interval, for the legend.
    """
    hit, false_alarm, missed, passed = (
        np.array([entry[kind] for entry in counts], np.float64)
        for kind in ("true_positives", "false_positives", "false_negatives", "true_negatives")
    )
    with np.errstate(invalid="ignore"):  # without rows of one of the classes
        others, found = false_alarm / (false_alarm + passed), hit / (hit + missed)
    ax = _square(style, 4.6)
    ax.plot([0, 1], [0, 1], color=style.colours.soft, lw=0.9, ls=DASHED)
    label = area and f"area {area['value']:.3f} ({area['lower']:.3f} to {area['upper']:.3f})"
    ax.plot([1, *others, 0], [1, *found, 0], color=style.colours.accent, lw=1.6, label=label)
    label_axes(ax, f"share of the others taken for {short(name)}", f"share of {short(name)} found")
    if label:
        ax.legend(loc="lower right")
    return ax


@chart
def coverage_by_week(
    style: ChartStyle, weeks: Sequence[tuple[date, Sequence[Mapping[str, float]]]], since: date | None
) -> Any:
    """Draw the share of each week's outcomes inside 50% and 90% intervals; weeks beyond chance stand out.

    A week is its Monday, and for each level the ``observed`` share with the range that chance allows; `since`
    is the week from which the intervals no longer hold.
    """
    weeks, colours = weeks[-MOST_WEEKS:], style.colours
    ax = style.axes(4.6 if style.narrow else 3.8)
    at = np.array([monday.toordinal() for monday, _ in weeks], np.float64)
    for k, level in enumerate((0.5, 0.9)):
        observed, lower, upper = (
            np.array([shares[k][name] for _, shares in weeks]) for name in ("observed", "lower", "upper")
        )
        chance = "chance allows" if k else None
        ax.vlines(at, lower, upper, color=colours.accent, lw=5, alpha=0.2, label=chance)
        ax.axhline(level, color=colours.soft, lw=0.9, ls=DASHED)
        beyond = (observed < lower) | (observed > upper)
        kinds = [
            (which, f"in {level:.0%} intervals, {word} chance")
            for which, word in ((~beyond, "within"), (beyond, "beyond"))
        ]
        mark(ax, at, observed, style, kinds, 4.5 if k else 3.2)
    if since is not None:
        ax.axvline(since.toordinal() - 3, color=colours.fair, lw=1.2, ls=DOTTED)
    ticks = np.linspace(0, len(weeks) - 1, min(len(weeks), 4 if style.narrow else 9)).astype(int)
    ax.set_xticks(at[ticks], [weeks[k][0].isoformat() for k in ticks])
    ax.set_ylim(0, 1.02)
    in_percent(ax.yaxis)
    label_axes(ax, "week from", "outcomes inside")
    legend_above(ax, "left", ncols=1 if style.narrow else 3)
    return ax
