"""Random intercepts of groups beside the trees (docs/maths.md#groups).

y = f(x) + the intercept of the row's group + e, intercepts ~ Normal(0, tau^2), tau half-Cauchy; there is such
a term for each column of groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.bart.kernels.steps import intercepts as kernels
from sampler.data.groupings import FOREST, scalar_names
from sampler.storage.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.bart.kernels.state import Forest, Outcome, Work
    from sampler.bart.linear_part import LinearSlopes
    from sampler.training import GroupTraining

    Floats = NDArray[np.float64]

GROUP = "intercepts"  # group of compiled kernels, see `sampler.kernels.groups`


class SampledEffects:
    """The effects of one chain's groups, in grid steps, `effects`; a checkpoint holds them."""

    def __init__(self, size: int) -> None:
        self.effects = np.zeros(size, np.int32)
        self._kept: list[NDArray[np.int32]] = []

    def keep(self) -> None:
        """Keep the present effects."""
        self._kept.append(self.effects.copy())

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the effects kept since the last take, as trees of one leaf, by the forest's name."""
        kept, self._kept = self._kept, []
        return {FOREST: as_stumps(np.array(kept, np.int32), sigma)}


class GroupIntercepts(SampledEffects):
    """The intercepts of one chain; their standard deviations are scalars of its outcome."""

    def __init__(self, training: GroupTraining, scalars: Sequence[str], outcome: Outcome) -> None:

        super().__init__(sum(training.sizes))
        self._parts: list[kernels.Intercepts] = []
        start = 0
        for k, (group, size, scale) in enumerate(
            zip(training.index, training.sizes, training.scales, strict=True)
        ):
            place = scalars.index(scalar_names(k)[0])
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

    def draw(
        self,
        model: Normal,
        forest: Forest,
        outcome: Outcome,
        work: Work,
        line: LinearSlopes | None,  # noqa: ARG002
    ) -> None:
        """Draw the intercepts and their standard deviations given the trees, the line and the noise."""
        for part in self._parts:
            kernels.draw_intercepts(part, model, outcome, work)
            kernels.exchange_level(part, forest, model.variance, work.random)


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
