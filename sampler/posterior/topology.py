"""The posterior over the shapes of a tree: which splits there are, whatever their rules.

A shape is written in pre-order: a leaf is ".", a split "(" its left part, its right part ")".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST = 50  # shapes of a report


def shape_of(splits: NDArray[np.bool_]) -> str:
    """The shape of a tree, given which of its nodes, in pre-order, are splits."""
    out, waiting = [], [0]  # of each open split, how many of its parts are written
    for split in splits.tolist():
        if split:
            out.append("(")
            waiting.append(0)
            continue
        out.append(".")
        waiting[-1] += 1
        while len(waiting) > 1 and waiting[-1] == 2:
            out.append(")")
            waiting.pop()
            waiting[-1] += 1
    return "".join(out)


def topologies(splits: NDArray[np.bool_], tree_start: NDArray[np.int64], share: Floats) -> dict[str, float]:
    """The probability of each shape, the largest first (and of equal ones the first by spelling).

    Parameters
    ----------
    splits
        bool [node], of trees in pre-order, one after another.
    tree_start
        int64 [tree + 1], the first node of each.
    share
        float64 [tree], the trees' weights, which sum to one.

    """
    raw = splits.astype(np.uint8).tobytes()
    found: dict[bytes, float] = {}
    for start, end, weight in zip(tree_start[:-1], tree_start[1:], share.tolist(), strict=True):
        found[raw[start:end]] = found.get(raw[start:end], 0.0) + weight
    named = {shape_of(np.frombuffer(key, np.bool_)): weight for key, weight in found.items()}
    return dict(sorted(named.items(), key=lambda entry: (-entry[1], entry[0])))


def report(shapes: dict[str, float], most: int = MOST) -> list[dict[str, Any]]:
    """The `most` probable ones as JSON values."""
    return [{"topology": name, "probability": share} for name, share in list(shapes.items())[:most] if share]
