"""Trees of one draw, node by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.results.answer import Answer


@dataclass(frozen=True, repr=False)
class TreeTable(Answer):
    """The trees of one state, node by node: each tree in pre-order, the left child right after its parent.

    Attributes
    ----------
    tree, depth
        Number of the node's tree, and of the splits above it, int64 [node].
    feature
        Name of the feature of a split; None for a leaf.
    at
        Rows go left where a number is at most this, a date not later, or a level is another one than this
        (None: than missing), or none of these; infinite where only rows without a value go apart. None for a
        leaf.
    missing_left
        Whether rows without a value go left, bool [node].
    value
        Value of a leaf, in units of the outcome, float64 [node]; NaN for a split. The values of a row's
        leaves add up to f less the prior's middle (and less the parts beside the trees).

    """

    tree: NDArray[np.int64]
    depth: NDArray[np.int64]
    feature: list[str | None]
    at: list[float | str | tuple[str | None, ...] | None]
    missing_left: NDArray[np.bool_]
    value: Floats

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with a row for each node."""
        names = ("tree", "depth", "feature", "at", "missing_left", "value")
        return {name: getattr(self, name) for name in names}
