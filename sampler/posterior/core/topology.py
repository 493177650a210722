"""The posterior over shapes of a tree, which ignore its rules.

A shape is written in pre-order, with "." for a leaf and "(" left right ")" for a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.protocol import Document

MOST = 50  # shapes in a report


@dataclass(frozen=True, eq=False, repr=False)
class TreeShape(Document):
    """A topology of the tree: its splits regardless of their rules."""

    topology: Annotated[str, 'Pre-order notation: a leaf is ".", a split is "(", left part, right part, ")".']
    probability: Annotated[float, "The posterior probability."]


def shape_of(splits: NDArray[np.bool_]) -> str:
    """Write the shape of a tree; `splits` marks the nodes, in pre-order, that are splits."""
    out, waiting = [], [0]  # for each open split, the number of its subtrees written so far
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
    """Compute the probability of each shape, in descending order; ties are sorted by spelling.

    Parameters
    ----------
    splits
        bool [node], whether each node is a split; trees in pre-order, one after another.
    tree_start
        int64 [tree + 1], first node of each tree.
    share
        float64 [tree], weights of the trees, with sum 1.

    Returns
    -------
    dict
        Probability of each shape, by its spelling.

    """
    raw = splits.astype(np.uint8).tobytes()
    shares: dict[bytes, float] = {}
    for start, end, weight in zip(tree_start[:-1], tree_start[1:], share.tolist(), strict=True):
        shares[raw[start:end]] = shares.get(raw[start:end], 0.0) + weight
    named = {shape_of(np.frombuffer(key, np.bool_)): weight for key, weight in shares.items()}
    return dict(sorted(named.items(), key=lambda entry: (-entry[1], entry[0])))


def report(shapes: dict[str, float], most: int = MOST) -> list[TreeShape]:
    """Return the first `most` shapes as documents."""
    return [TreeShape(name, share) for name, share in list(shapes.items())[:most] if share]
