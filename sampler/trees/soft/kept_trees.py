"""Collection of kept soft trees, and their conversion to draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.soft.kernels.hmc import draw_classes
from sampler.soft.kernels.state import SoftRoom, SoftRows
from sampler.trees.soft.draws import SoftDraws
from sampler.trees.soft.tree import Parameters, SoftTree


def leaf_values(
    rows: SoftRows,
    tree: SoftTree,
    parts: dict[str, Any],
    width: float,
    room: SoftRoom,
    random: NDArray[np.uint64],
) -> NDArray[np.float64]:
    """Return the means of the leaves [leaf, 1], or draw their class probabilities [leaf, class]."""
    from sampler.trees.soft.tree import shape_of  # noqa: PLC0415

    if not rows.classes:
        return np.asarray(parts["mean"])[:, None]
    room.threshold[:], room.direction[:] = parts["threshold"], parts["direction"]
    into = np.zeros((tree.splits + 1, rows.classes))
    draw_classes(rows, shape_of(tree.is_split, tree.axis), width, room, random, into)
    return into


class KeptSoftTrees:
    """Collected soft trees with their leaf values."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._trees: list[SoftTree] = []
        self._parts: list[dict[str, Any]] = []
        self._values: list[NDArray[np.float64]] = []

    def add(self, tree: SoftTree, parameters: Parameters, values: NDArray[np.float64]) -> None:
        """Keep a tree with its leaf values [leaf, k]."""
        self._trees.append(tree)
        self._parts.append(parameters.taken_apart(tree))
        self._values.append(values)

    def take(self, log_weight: NDArray[np.float64] | None = None) -> SoftDraws | None:
        """Convert all kept trees to draws and release them; None if there are none."""
        if not self._trees:
            return None
        draws = SoftDraws.from_parts(
            num_trees=1,
            sharpness=self._width,
            sigma=np.array([parts["sigma"] for parts in self._parts]),
            log_weight=np.zeros(len(self._trees)) if log_weight is None else log_weight,
            is_split=np.concatenate([np.array(tree.is_split, bool) for tree in self._trees]),
            threshold=np.concatenate([parts["threshold"] for parts in self._parts]),
            direction=np.concatenate([parts["direction"] for parts in self._parts]),
            value=np.concatenate(self._values),
        )
        self.__init__(self._width)  # type: ignore[misc]
        return draws
