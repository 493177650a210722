"""Charts of the topologies of a tree, each with its probability."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.dashboard.drawing.canvas import ChartStyle, draw

MOST_SHAPES = 10  # in the chart; the table has more
MOST_LEAVES = 64  # larger topologies are described in words


def topologies(entries: Sequence[Mapping[str, Any]], look: ChartStyle) -> bytes:
    """Draw the most probable topologies as small trees, each beside the bar of its probability."""
    shown = entries[:MOST_SHAPES]
    share = np.array([entry["probability"] for entry in shown])
    at = np.arange(len(shown))[::-1]

    def paint(figure: Any, look: ChartStyle) -> None:
        drawn, bars = figure.subplots(1, 2, sharey=True, width_ratios=(1, 2 if look.narrow else 4))
        drawn.set_axis_off()
        drawn.set_xlim(-0.08, 1.08)
        for place, entry in zip(at, shown, strict=True):
            _tree(drawn, str(entry["topology"]), float(place), look)
        bars.grid(visible=False, axis="y")
        bars.grid(visible=True, axis="x")
        bars.barh(at, share, height=0.5, color=look.colours.accent, alpha=0.85)
        for place, value in zip(at, share, strict=True):
            bars.annotate(
                f"{100 * value:.3g}%", (value, place), (4, 0), textcoords="offset points", va="center"
            )
        bars.set_yticks([])
        bars.set_ylim(-0.6, len(shown) - 0.4)
        bars.set_xlim(0, 1.12 * share.max(initial=1e-9))
        bars.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        bars.set_xlabel("posterior probability")

    return draw(paint, look)


def height(entries: Sequence[Any]) -> float:
    """Return the height of the chart in inches."""
    return 0.8 + 0.52 * min(len(entries), MOST_SHAPES)


def _tree(axes: Any, text: str, place: float, look: ChartStyle) -> None:
    """Draw one topology in a row of the chart."""
    leaves = text.count(".")
    if leaves > MOST_LEAVES:
        axes.text(0.5, place, f"{leaves} leaves", ha="center", va="center", color=look.colours.soft)
        return
    nodes, edges = lay_out(text)
    x = np.array([node[0] for node in nodes])
    depth = np.array([node[1] for node in nodes])
    y = place + 0.36 - 0.72 * depth / max(depth.max(), 1)
    for above, below in edges:
        axes.plot(x[[above, below]], y[[above, below]], color=look.colours.soft, lw=1.0, zorder=1)
    is_leaf = np.isin(np.arange(len(nodes)), [above for above, _ in edges], invert=True)
    axes.plot(x[is_leaf], y[is_leaf], ls="none", marker="s", ms=3.4, mew=0, color=look.colours.accent)
    axes.plot(x[~is_leaf], y[~is_leaf], ls="none", marker="o", ms=3.4, mew=0, color=look.colours.ink)


def lay_out(text: str) -> tuple[list[tuple[float, int]], list[tuple[int, int]]]:
    """Return a topology's nodes (x from 0 to 1, depth) and the pairs of nodes to connect.

    Leaves are evenly spaced; a split is midway between its parts.
    """
    leaves = text.count(".")
    nodes: list[tuple[float, int]] = []
    edges: list[tuple[int, int]] = []
    finished: list[list[int]] = [[]]  # for each open split, the indices of its parts
    seen = 0
    for letter in text:
        if letter == "(":
            finished.append([])
            continue
        depth = len(finished) - 1
        if letter == ".":
            nodes.append(((seen + 0.5) / leaves, depth))
            seen += 1
        else:
            parts = finished.pop()
            depth -= 1
            nodes.append((sum(nodes[part][0] for part in parts) / 2, depth))
            edges += [(len(nodes) - 1, part) for part in parts]
        finished[-1].append(len(nodes) - 1)
    return nodes, edges
