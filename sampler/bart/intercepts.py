"""Random intercepts of groups beside the trees (docs/maths.md#groups).

y = f(x) + the intercept of the row's group + e, intercepts ~ Normal(0, tau^2), tau half-Cauchy; there is such
a term for each column of groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.groupings import FOREST, sd_names
from sampler.storage.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.bart.kernels.state import Forest, Outcome, Work
    from sampler.bart.kernels.steps import intercepts as kernels
    from sampler.data.groupings import Groupings

    Floats = NDArray[np.float64]

GROUP = "intercepts"  # of kernels


@dataclass(frozen=True)
class GroupTraining:
    """Groups of the training rows.

    Attributes
    ----------
    index
        The group of each row, int32 [grouping, n].
    sizes
        Number of groups of each grouping.
    scales
        Scale of the half-Cauchy prior of the intercepts' standard deviation, in units of y.

    """

    index: NDArray[np.int32]
    sizes: tuple[int, ...]
    scales: tuple[float, ...]

    @classmethod
    def of(cls, groupings: Groupings, index: NDArray[np.int32]) -> GroupTraining:
        """Take sizes and scales from the groupings, for rows of those groups (int32 [grouping, n])."""
        return cls(index, tuple(len(rows) for rows in groupings.rows), groupings.scales)


class GroupIntercepts:
    """The intercepts of one chain, in grid steps; their standard deviations are scalars of its outcome."""

    def __init__(self, training: GroupTraining, scalars: Sequence[str], outcome: Outcome) -> None:
        from sampler.bart.kernels.steps import intercepts as kernels  # noqa: PLC0415  # kernels load late

        total = sum(training.sizes)
        self.effects = np.zeros(total, np.int32)
        self._kept: list[NDArray[np.int32]] = []
        self._parts: list[kernels.Intercepts] = []
        start = 0
        for name, group, size, scale in zip(
            sd_names(len(training.sizes)), training.index, training.sizes, training.scales, strict=True
        ):
            place = scalars.index(name)
            outcome.scalars[place] = scale
            self._parts.append(
                kernels.Intercepts(
                    group=np.array(group, np.int32),
                    effect=self.effects[start : start + size],
                    total=np.zeros(size, np.int64),
                    size=np.zeros(size, np.int64),
                    power=np.zeros(2),
                    scale=scale / outcome.step,
                    place=place,
                )
            )
            start += size

    def apply(self, residual: NDArray[np.int32]) -> None:
        """Take the intercepts out of a residual that has them all."""
        for part in self._parts:
            residual[: len(part.group)] -= part.effect[part.group]

    def draw(self, model: Normal, forest: Forest, outcome: Outcome, work: Work) -> None:
        """Draw the intercepts and their standard deviations given the trees and the noise."""
        from sampler.bart.kernels.steps import intercepts as kernels  # noqa: PLC0415

        for part in self._parts:
            kernels.draw_intercepts(part, model, outcome, work)
            kernels.exchange_level(part, forest, model.variance, work.random)

    def keep(self) -> None:
        """Keep the present intercepts."""
        self._kept.append(self.effects.copy())

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the intercepts kept since the last take, as trees of one leaf, by the forest's name."""
        kept, self._kept = self._kept, []
        return {FOREST: as_stumps(np.array(kept, np.int32), sigma)}


def as_stumps(effects: NDArray[np.int32], sigma: Floats) -> Draws:
    """Arrange values, int32 [draw, group], as draws of a forest: a tree of one leaf for each group."""
    draws, trees = effects.shape
    nodes = effects.size
    empty: dict[str, Any] = {name: np.zeros(nodes, np.uint8) for name in ("cut", "missing_left")}
    return Draws(
        num_trees=trees,
        sigma=np.array(sigma[:draws]),
        tree_start=np.arange(nodes + 1, dtype=np.int64),
        feature=np.full(nodes, -1, np.int32),
        leaf=np.ascontiguousarray(effects.reshape(-1)),
        **empty,
    )
