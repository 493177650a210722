"""Sparklines: bars of a small histogram, as numbers for the template."""

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, GAP = 120.0, 28.0, 1.0
SMALLEST = 1.0  # keeps every nonempty bin visible


def bars(histogram: Mapping[str, Any]) -> list[tuple[float, float, float, float]]:
    """Return x, y, width and height of each bar, with edges to scale."""
    counts: Sequence[int] = histogram["counts"]
    edges: Sequence[Any] = histogram["edges"]
    if not edges or isinstance(edges[0], str):  # dates: equal widths
        edges = range(len(counts) + 1)
    most = max(counts, default=0)
    span = edges[-1] - edges[0] if len(edges) > 1 else 0
    rectangles = []
    for i, count in enumerate(counts):
        if not count:
            continue
        if span > 0:
            x = WIDTH * (edges[i] - edges[0]) / span
            width = WIDTH * (edges[i + 1] - edges[i]) / span
        else:
            x, width = WIDTH * i / len(counts), WIDTH / len(counts)
        height = max(SMALLEST, HEIGHT * count / most)
        rectangles.append(
            (round(x, 2), round(HEIGHT - height, 2), round(max(width - GAP, 0.5), 2), round(height, 2))
        )
    return rectangles
