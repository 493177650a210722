"""Chart of the topologies of a tree, each with its probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sampler.posterior.charts.style import ChartStyle, chart, in_percent, label_axes

MOST_SHAPES = 10  # in the chart; the table has more
MOST_LEAVES = 64  # larger topologies are described in words


@chart
def topologies(style: ChartStyle, entries: Sequence[Mapping[str, Any]]) -> Any:
    """Draw the most probable topologies as small trees, each beside the bar of its probability.

    `entries` are ``topologies`` of a posterior's diagnostics.
    """
    shown = entries[:MOST_SHAPES][::-1]  # from below
    share = np.array([entry["probability"] for entry in shown])
    at = np.arange(len(shown))
    widths = (1, 2 if style.narrow else 4)
    size = 0.8 + 0.52 * len(shown)
    trees, bars = axes = style.axes(size, shape=(1, 2), sharey=True, width_ratios=widths)
    trees.set_axis_off()
    trees.set_xlim(-0.08, 1.08)
    for place, entry in zip(at, shown, strict=True):
        _draw_tree(trees, str(entry["topology"]), float(place), style)
    bars.grid(visible=False, axis="y")
    bars.grid(visible=True, axis="x")
    bars.barh(at, share, height=0.5, color=style.colours.accent, alpha=0.85)
    for place, value in zip(at, share, strict=True):
        bars.annotate(f"{100 * value:.3g}%", (value, place), (4, 0), textcoords="offset points", va="center")
    bars.set_yticks([])
    bars.set_ylim(-0.6, len(shown) - 0.4)
    bars.set_xlim(0, 1.12 * share.max(initial=1e-9))
    in_percent(bars.xaxis)
    label_axes(bars, "posterior probability")
    return axes


def _draw_tree(axes: Any, text: str, place: float, style: ChartStyle) -> None:
    """Draw one topology in a row of the chart."""
    leaves, colours = text.count("."), style.colours
    if leaves > MOST_LEAVES:
        axes.text(0.5, place, f"{leaves} leaves", ha="center", va="center", color=colours.soft)
        return
    nodes, edges = lay_out(text)
    x, depth = np.array(nodes).T
    y = place + 0.36 - 0.72 * depth / max(depth.max(), 1)
    for above, below in edges:
        axes.plot(x[[above, below]], y[[above, below]], color=colours.soft, lw=1.0, zorder=1)
    is_leaf = np.isin(np.arange(len(nodes)), [above for above, _ in edges], invert=True)
    for which, marker, colour in ((is_leaf, "s", colours.accent), (~is_leaf, "o", colours.ink)):
        axes.plot(x[which], y[which], ls="none", marker=marker, ms=3.4, mew=0, color=colour)


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
