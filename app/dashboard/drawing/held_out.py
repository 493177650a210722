"""Charts of predictions on held-out rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.dashboard.drawing.canvas import ChartStyle, draw
from app.services.explanations.diagnostics import HeldOut, draw_pit, draw_residuals


def predicted(rows: Mapping[str, Any], target: str, look: ChartStyle) -> bytes:
    """Draw predicted against actual, with the interval of each row; misses stand out."""
    actual, mean, lower, upper = (
        np.array([np.nan if v is None else v for v in rows[name]], float)
        for name in ("actual", "mean", "lower", "upper")
    )

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        colours = look.colours
        axes.grid(visible=True, axis="both")
        inside = (lower <= actual) & (actual <= upper)
        seen = np.concatenate([actual, mean[np.isfinite(mean)]])
        low, high = seen.min(), seen.max()
        axes.plot([low, high], [low, high], color=colours.soft, lw=0.9, ls=(0, (4, 3)), zorder=1)
        for which, colour, label in (
            (inside, colours.accent, "interval holds the outcome"),
            (~inside, colours.fair, "interval misses it"),
        ):
            if not which.any():
                continue
            axes.vlines(actual[which], lower[which], upper[which], color=colour, lw=1.0, alpha=0.38, zorder=2)
            axes.plot(
                actual[which],
                mean[which],
                ls="none",
                marker="o" if colour == colours.accent else "D",
                ms=3.6,
                mew=0,
                color=colour,
                zorder=3,
                label=f"{label} ({int(which.sum())})",
            )
        axes.set_xlabel(f"actual {short(target)}")
        axes.set_ylabel(f"predicted {short(target)}")
        axes.legend(loc="upper left")

    return draw(paint, look)


def probabilities(rows: Mapping[str, Any], classes: Sequence[str], look: ChartStyle) -> bytes:
    """Draw the predicted probabilities of the rows of two classes, as bars."""
    actual, mean = np.array(rows["actual"], float), np.array(rows["mean"], float)

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        edges = np.linspace(0, 1, 21)
        for value, colour in ((0.0, look.colours.fair), (1.0, look.colours.accent)):
            counts, _ = np.histogram(mean[actual == value], edges)
            axes.stairs(
                counts if value else -counts,
                edges,
                fill=True,
                color=colour,
                alpha=0.8,
                label=f"rows that are {short(str(classes[int(value)]))}",
            )
        axes.axhline(0, color=look.colours.soft, lw=0.8)
        axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        axes.set_xlabel(f"predicted probability of {short(str(classes[1]))}")
        axes.set_ylabel("rows")
        axes.legend(loc="best")

    return draw(paint, look)


def several(rows: Mapping[str, Any], classes: Sequence[str], look: ChartStyle) -> bytes:
    """Draw for more than two classes the probability given to each row's own class, one line per class.

    Rows whose actual class was not the most probable one stand out.
    """
    actual, mean = np.array(rows["actual"], int), np.array(rows["mean"], float)
    right = actual == np.array(rows["predicted"], int)
    seen, at = np.unique(actual, return_inverse=True)
    place = np.empty(len(at))
    for k in range(len(seen)):
        place[at == k] = k + np.linspace(-0.3, 0.3, np.count_nonzero(at == k))

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        for which, colour, marker, label in (
            (right, look.colours.accent, "o", "the most probable class"),
            (~right, look.colours.fair, "D", "another was more probable"),
        ):
            if which.any():
                text = f"{label} ({int(which.sum())})"
                axes.plot(
                    mean[which], place[which], ls="none", marker=marker, ms=3.6, mew=0, color=colour,
                    alpha=0.8, label=text,
                )  # fmt: skip
        every = max(1, len(seen) // 20)
        axes.set_yticks(np.arange(len(seen))[::every], [short(str(classes[k]), 16) for k in seen[::every]])
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("probability given to a row's own class")
        figure.legend(loc="outside upper left", ncols=2)

    return draw(paint, look)


def calibration(entries: Sequence[Mapping[str, float]], *, classes: int, look: ChartStyle) -> bytes:
    """Draw observed against nominal frequencies with binomial intervals; `classes` is 0 for numbers."""
    claimed = np.array([entry["level"] for entry in entries])
    observed = np.array([entry["observed"] for entry in entries])
    ends = np.array([[entry["lower"], entry["upper"]] for entry in entries]).T

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        colours = look.colours
        axes.grid(visible=True, axis="both")
        axes.plot([0, 1], [0, 1], color=colours.soft, lw=0.9, ls=(0, (4, 3)))
        if classes:
            axes.vlines(claimed, *ends, color=colours.accent, lw=1.4, alpha=0.6)
        else:
            axes.fill_between(claimed, *ends, color=colours.accent, alpha=0.18, lw=0)
        axes.plot(claimed, observed, color=colours.accent, lw=0 if classes else 1.5, marker="o", ms=3.4)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        claims = "probability of the most probable class" if classes > 2 else "predicted probability"
        axes.set_xlabel(claims if classes else "intervals claim to hold")
        observed_as = "share of rows of that class" if classes > 2 else "share observed"
        axes.set_ylabel(observed_as if classes else "of the outcomes they held")

    return draw(paint, look)


def roc(
    counts: Sequence[Mapping[str, float]], auc: Mapping[str, float], name: str, look: ChartStyle
) -> bytes:
    """Draw the ROC curve of two classes, from numbers of rows by threshold of the probability of `name`."""
    hit, false_alarm, missed, passed = (
        np.array([entry[kind] for entry in counts], float)
        for kind in ("true_positives", "false_positives", "false_negatives", "true_negatives")
    )

    def paint(figure: Any, look: ChartStyle) -> None:
        axes = figure.subplots()
        axes.grid(visible=True, axis="both")
        axes.plot([0, 1], [0, 1], color=look.colours.soft, lw=0.9, ls=(0, (4, 3)))
        label = f"area {auc['value']:.3f} ({auc['lower']:.3f} to {auc['upper']:.3f})"
        others, found = false_alarm / (false_alarm + passed), hit / (hit + missed)
        axes.plot([1, *others, 0], [1, *found, 0], color=look.colours.accent, lw=1.6, label=label)
        axes.set_xlabel(f"share of the others taken for {short(name)}")
        axes.set_ylabel(f"share of {short(name)} found")
        axes.legend(loc="lower right")

    return draw(paint, look)


def short(text: str, most: int = 40) -> str:
    """Shorten a name to at most `most` characters."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def pit(rows: HeldOut, look: ChartStyle) -> bytes:
    """Draw the histogram of the probability integral transforms."""

    def paint(figure: Any, look: ChartStyle) -> None:
        u, colours = np.array(rows.pit), look.colours
        draw_pit(u, figure.subplots(), accent=colours.accent, soft=colours.soft)

    return draw(paint, look)


def residuals(rows: HeldOut, look: ChartStyle) -> bytes:
    """Draw the quantile residuals against the predictions."""

    def paint(figure: Any, look: ChartStyle) -> None:
        mean, u, colours = np.array(rows.predicted), np.array(rows.pit), look.colours
        draw_residuals(
            mean, u, short(rows.target), figure.subplots(), accent=colours.accent, soft=colours.soft
        )

    return draw(paint, look)
