"""Chart of reasons: SHAP values of many rows, with their intervals."""

from typing import Any

import numpy as np

from app.dashboard.drawing.canvas import ChartStyle, draw
from app.dashboard.drawing.held_out import short
from app.services.explanations.shap_values import ExplainedRows, ranks_of, reasons_of, swarm

MOST_REASONS = 12  # features of the chart; the table has all
SHADES = 24


def beeswarm(explained: ExplainedRows, look: ChartStyle) -> bytes:
    """Draw the values of all rows by feature, the largest on top, each on its interval.

    The colour is the rank of the feature's own value. Of several classes it shows the one that moves most.
    """
    reasons = reasons_of(explained)
    features = reasons.features[:MOST_REASONS]
    cells = list(zip(*(explained.data or []), strict=True))

    def paint(figure: Any, look: ChartStyle) -> None:
        from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

        colours = look.colours
        shades = LinearSegmentedColormap.from_list(
            "ranks", [colours.fair, colours.soft, colours.accent], N=SHADES
        )
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        for place, feature in enumerate(reversed(features)):
            j = feature.position
            values, lower, upper = (part[:, j] for part in (reasons.values, reasons.lower, reasons.upper))
            at = place + swarm(values)
            axes.hlines(at, lower, upper, color=colours.soft, lw=0.6, alpha=0.25, zorder=1)
            ranks = ranks_of(cells[j])
            axes.scatter(values, at, c=ranks, cmap=shades, vmin=0, vmax=1, s=10, lw=0, zorder=2)
        axes.axvline(0, color=colours.soft, lw=0.9, ls=(0, (1, 2)))
        most = 22 if look.narrow else 34
        axes.set_yticks(
            np.arange(len(features)), [short(feature.name, most) for feature in reversed(features)]
        )
        axes.tick_params(axis="y", labelcolor=colours.ink)
        axes.set_ylim(-0.7, len(features) - 0.3)
        axes.set_xlabel(
            "moves the prediction by" if look.narrow else f"SHAP value; {short(reasons.scale, 90)}"
        )
        for end, label in ((colours.fair, "low value"), (colours.accent, "high value")):
            axes.plot([], [], ls="none", marker="o", ms=4, mew=0, color=end, label=label)
        figure.legend(loc="outside upper right", ncols=2)

    return draw(paint, look)


def height(num_features: int) -> float:
    """Return the height of the chart in inches."""
    return 1.1 + 0.36 * min(num_features, MOST_REASONS)
