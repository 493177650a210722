"""Chart of outcomes by week: the shares inside intervals, with the ranges that chance allows."""

from typing import Any

import numpy as np

from app.dashboard.drawing.canvas import ChartStyle, draw
from app.services.outcomes.summary import OutcomeSummary

MOST_WEEKS = 104  # the newest that are drawn


def coverage(outcomes: OutcomeSummary, look: ChartStyle) -> bytes:
    """Draw the share of each week's outcomes inside 50% and 90% intervals; weeks beyond chance stand out."""
    weeks = outcomes.weeks[-MOST_WEEKS:]
    at = np.array([each.week.toordinal() for each in weeks], float)

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        colours = look.colours
        axes.grid(visible=True, axis="y")
        for k, level in enumerate(("50%", "90%")):
            shares = [each.figures.coverage[k] for each in weeks]
            observed, lower, upper = (
                np.array([share[name] for share in shares]) for name in ("observed", "lower", "upper")
            )
            chance = "chance allows" if k else None
            axes.vlines(at, lower, upper, color=colours.accent, lw=5, alpha=0.2, label=chance)
            axes.axhline(0.9 if k else 0.5, color=colours.soft, lw=0.9, ls=(0, (4, 3)))
            beyond = (observed < lower) | (observed > upper)
            for which, colour, marker, word in (
                (~beyond, colours.accent, "o", "within"),
                (beyond, colours.fair, "D", "beyond"),
            ):
                if which.any():
                    axes.plot(
                        at[which], observed[which], ls="none", marker=marker, ms=4.5 if k else 3.2, mew=0,
                        color=colour, label=f"in {level} intervals, {word} chance",
                    )  # fmt: skip
        if outcomes.since is not None:
            axes.axvline(outcomes.since.toordinal() - 3, color=colours.fair, lw=1.2, ls=(0, (1, 2)))
        ticks = np.unique(
            np.linspace(0, len(weeks) - 1, min(len(weeks), 4 if look.narrow else 9)).astype(int)
        )
        axes.set_xticks(at[ticks], [weeks[k].week.isoformat() for k in ticks])
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        axes.set_xlabel("week from")
        axes.set_ylabel("outcomes inside")
        figure.legend(loc="outside upper left", ncols=1 if look.narrow else 3)

    return draw(paint, look)
