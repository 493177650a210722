"""Charts of forecasts: a series with its history and the fan of its next steps, and rehearsals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sampler.posterior.charts.style import DOTTED, ChartStyle, chart, label_axes, short, svg_element

TICKS = 6


@chart
def fan(
    style: ChartStyle,
    times: Sequence[Any],
    history: ArrayLike,
    median: ArrayLike,
    bands: Sequence[tuple[ArrayLike, ArrayLike, str]],
    label: str,
) -> Any:
    """Draw the newest outcomes of a series, and the median and intervals of its next steps.

    `times` are those of the history and of the steps; `bands` are ends and names of intervals, the widest
    first.
    """
    ax, colours = style.axes(3.0), style.colours
    past, middle = np.asarray(history, float), np.asarray(median, float)
    before = np.arange(len(past))
    ahead = len(past) + np.arange(len(middle))
    for number, (lower, upper, name) in enumerate(bands):
        shade = 0.18 + 0.16 * number
        ax.fill_between(ahead, lower, upper, color=colours.accent, alpha=shade, lw=0, label=name)
    ax.plot(before, past, color=colours.ink, lw=1.2, marker="o", ms=2.2)
    ax.plot(ahead, middle, color=colours.accent, lw=1.8, marker="o", ms=3, label="median")
    ax.axvline(len(past) - 0.5, color=colours.soft, lw=0.9, ls=DOTTED)
    shown = np.unique(np.linspace(0, len(times) - 1, 3 if style.narrow else TICKS).astype(int))
    ax.set_xticks(shown, [str(times[each]) for each in shown])
    ax.margins(x=0.01)
    label_axes(ax, "", short(label))
    ax.legend(loc="upper left")
    return ax


def picture_of_rehearsals(forecaster: Any) -> str | None:
    """Draw the rehearsals of a forecaster's first rehearsed series as SVG; None without matplotlib."""
    calibration, step = forecaster.calibration, forecaster.history.step
    ends = (each[:, 0] for each in calibration.steps.ends(0.9))
    origins = [step.text(each) for each in calibration.origins]
    style = ChartStyle(width=7.4, height=3.4)
    figures = (calibration.steps.y[:, 0], *ends, forecaster.history.target)
    return svg_element(style, rehearsals, origins, *figures)


@chart
def rehearsals(
    style: ChartStyle,
    origins: Sequence[Any],
    came: ArrayLike,
    median: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    label: str,
) -> Any:
    """Draw a panel for each rehearsal of a series: the interval and median by step, and what came.

    `came`, `median`, `lower` and `upper` are float [origin, step].
    """
    colours, count = style.colours, len(origins)
    columns = min(count, 2 if style.narrow else 5)
    rows = -(-count // columns)
    axes = np.ravel(style.axes(1.5 * rows + 0.5, shape=(rows, columns), sharex=True, sharey=True))
    outcomes, middle, low, high = (np.asarray(each, float) for each in (came, median, lower, upper))
    steps = np.arange(1, outcomes.shape[1] + 1)
    for ax, at in zip(axes, range(count), strict=False):
        ax.fill_between(steps, low[at], high[at], color=colours.accent, alpha=0.2, lw=0)
        ax.plot(steps, middle[at], color=colours.accent, lw=1.4)
        ax.plot(steps, outcomes[at], color=colours.ink, lw=0, marker="o", ms=2.6)
        ax.set_title(f"after {origins[at]}", fontsize=8, fontweight="normal")
    for ax in axes[count:]:
        ax.set_axis_off()
    for ax in axes[:: max(columns, 1)]:
        label_axes(ax, "", short(label))
    return axes
