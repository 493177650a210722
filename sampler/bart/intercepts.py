"""Random intercepts of groups beside the trees (docs/maths.md#groups).

y = f(x) + the intercept of the row's group + e, intercepts ~ Normal(0, tau^2), tau half-Cauchy; there is such
a term for each column of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart import forest_call
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.kernels.steps import intercepts as kernels
from sampler.bart.part import ChainPart, HasParts
from sampler.data.groupings import FOREST, all_scalars, scalar_names
from sampler.storage.draws import Draws
from sampler.training import GroupTraining, Training

GROUP = "intercepts"  # group of compiled kernels, see `sampler.kernels.groups`


class ColumnOfGroups(NamedTuple):
    """A column's groups by row, their effects [term, group], the prior's scale in grid steps.

    The figures of its covariance begin at `place` of the outcome's scalars; there are `figures` of them.
    """

    group: NDArray[np.int32]
    effect: NDArray[np.int32]
    scale: float
    place: int
    figures: int


class SampledEffects(ChainPart):
    """The effects of one chain's groups, in grid steps, `effects`; a checkpoint holds them."""

    def __init__(self, training: Training, host: HasParts) -> None:
        self._groups, self._host = training.part(GroupTraining), host
        self.effects = np.zeros((1 + self._groups.num_slopes) * sum(self._groups.sizes), np.int32)
        self._kept: list[NDArray[np.int32]] = []

    def columns(self) -> Iterator[ColumnOfGroups]:
        """Yield each column of groups, the standard deviations of its effects set to the prior's scale."""
        groups, outcome, start = self._groups, self._host.outcome, 0
        terms = 1 + groups.num_slopes
        for k, (group, size, scale) in enumerate(zip(groups.index, groups.sizes, groups.scales, strict=True)):
            names = scalar_names(k, groups.num_slopes)
            place = self._host.scalar_names.index(names[0])
            outcome.scalars[place : place + terms] = scale
            effect = self.effects[start : start + terms * size].reshape(terms, size)
            yield ColumnOfGroups(np.array(group, np.int32), effect, scale / outcome.step, place, len(names))
            start += terms * size

    @classmethod
    def of(cls, training: Training) -> type[ChainPart]:
        """Return the class for intercepts alone, or with slopes."""
        if training.part(GroupTraining).num_slopes == 0:
            return GroupIntercepts
        with_slopes: type[ChainPart] = resolve_name("sampler.bart.group_slopes:InterceptsAndSlopes")
        return with_slopes

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:
        """Name the figures of the effects' covariances."""
        groups = training.part(GroupTraining)
        return all_scalars(len(groups.sizes), groups.num_slopes)

    def fits(self, scalars: Mapping[str, float]) -> bool:
        """Tell whether standard deviations are positive and partial correlations between -1 and 1."""
        positive = all(value > 0 for name, value in scalars.items() if name.startswith("group_sd"))
        partial = (value for name, value in scalars.items() if name.startswith("group_partial"))
        return positive and all(abs(value) < 1 for value in partial)

    def state(self) -> list[NDArray[Any]]:
        """Return the effects, as a view."""
        return [self.effects]

    def keep(self) -> None:
        """Keep the present effects."""
        self._kept.append(self.effects.copy())

    def take(self, sigma: Floats) -> dict[str, Draws]:
        """Hand over the effects kept since the last take, as trees of one leaf, by the forest's name."""
        kept, self._kept = self._kept, []
        return {FOREST: as_stumps(np.array(kept, np.int32), sigma)}


class GroupIntercepts(SampledEffects):
    """The intercepts of one chain; their standard deviations are scalars of its outcome."""

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels."""
        return (forest_call.GROUP, GROUP)

    def __init__(self, training: Training, host: HasParts) -> None:
        super().__init__(training, host)
        self._parts = [
            kernels.Intercepts(
                group=column.group,
                effect=column.effect[0],
                total=np.zeros(column.effect.size, np.int64),
                size=np.zeros(column.effect.size, np.int64),
                power=np.zeros(2),
                scale=column.scale,
                place=column.place,
            )
            for column in self.columns()
        ]

    def take_out(self, model: Normal) -> None:
        """Take the intercepts out of residuals that have them all."""
        for part in self._parts:
            model.residual[: len(part.group)] -= part.effect[part.group]

    def draw(self, forest: Forest, work: Work, places: Sequence[int]) -> None:  # noqa: ARG002
        """Draw the intercepts and their standard deviations given the trees, the line and the noise."""
        model = self._host.models[0]
        for part in self._parts:
            kernels.draw_intercepts(part, model, self._host.outcome, work)
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
