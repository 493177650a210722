"""Random intercepts and slopes of groups beside the trees (docs/maths.md#slopes-of-groups).

y = f(x) + b_g' (1, z) + e, with b_g ~ Normal(0, covariance) for the row's group g: standard deviations
half-Cauchy, correlation matrices uniform; there is such a term for each column of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sampler.bart import forest_call
from sampler.bart.intercepts import SampledEffects
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.kernels.steps import group_slopes as kernels
from sampler.bart.kernels.steps.group_slopes import apply_effects
from sampler.bart.linear_part import LinearSlopes
from sampler.bart.part import HasParts
from sampler.training import Training

GROUP = "group-slopes"  # group of compiled kernels, see `sampler.kernels.groups`


class InterceptsAndSlopes(SampledEffects):
    """The intercepts and slopes of one chain; their covariances' figures are scalars of its outcome.

    `effects` has a column's groups' intercepts, then their slopes, one after the other.
    """

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels."""
        return (forest_call.GROUP, GROUP)

    def __init__(self, training: Training, host: HasParts) -> None:
        super().__init__(training, host)
        groups, line = self._groups, host.parts.get("line")
        assert groups.z is not None, "groups without slopes have intercepts alone"
        self._of_line = groups.of_line
        self._line = line if isinstance(line, LinearSlopes) else None
        self._parts: list[kernels.GroupTerms] = []
        for column in self.columns():
            terms, size = column.effect.shape
            self._parts.append(
                kernels.GroupTerms(
                    group=column.group,
                    z=np.ascontiguousarray(groups.z, np.float64),
                    effect=column.effect,
                    shift=np.zeros(len(column.group), np.int32),
                    gram=np.zeros((size, terms, terms)),
                    total=np.zeros((size, terms)),
                    params=np.zeros(column.figures),
                    factor=np.zeros((terms, terms)),
                    square=np.zeros((terms, terms)),
                    solved=np.zeros((3, terms)),
                    power=np.zeros(1),
                    scale=column.scale,
                    place=column.place,
                )
            )

    def take_out(self, model: Normal) -> None:
        """Take the effects out of residuals that have them all."""
        for part in self._parts:
            part.shift[:] = 0
            apply_effects(part, model.residual)

    def draw(self, forest: Forest, work: Work, places: Sequence[int]) -> None:  # noqa: ARG002
        """Draw the effects and their covariances given the trees, the line and the noise."""
        model, outcome, line = self._host.models[0], self._host.outcome, self._line
        for part in self._parts:
            kernels.draw_effects(part, model, outcome, work)
            kernels.exchange_level(part, forest, model.variance, work.random)
            if line is None:
                continue
            for term, slope in enumerate(self._of_line, 1):
                if slope is not None:
                    kernels.exchange_slope(part, term, slope, outcome, work.random)
            kernels.apply_effects(part, model.residual)
            line.apply_again(model, work)
