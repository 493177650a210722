"""Random intercepts and slopes of groups beside the trees (docs/maths.md#slopes-of-groups).

y = f(x) + b_g' (1, z) + e, with b_g ~ Normal(0, covariance) for the row's group g: standard deviations
half-Cauchy, correlation matrices uniform; there is such a term for each column of groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.bart.intercepts import SampledEffects
from sampler.bart.kernels.steps import group_slopes as kernels
from sampler.bart.kernels.steps.group_slopes import apply_effects
from sampler.data.groupings import scalar_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.bart.kernels.state import Forest, Outcome, Work
    from sampler.bart.linear_part import LinearSlopes
    from sampler.training import GroupTraining

GROUP = "group-slopes"  # group of compiled kernels, see `sampler.kernels.groups`


class InterceptsAndSlopes(SampledEffects):
    """The intercepts and slopes of one chain; their covariances' figures are scalars of its outcome.

    `effects` has a column's groups' intercepts, then their slopes, one after the other.
    """

    def __init__(self, training: GroupTraining, scalars: Sequence[str], outcome: Outcome) -> None:

        assert training.z is not None, "groups without slopes have intercepts alone"
        terms = 1 + training.num_slopes
        super().__init__(terms * sum(training.sizes))
        self._of_line = training.of_line
        self._parts: list[kernels.GroupTerms] = []
        start, rows = 0, len(training.index[0])
        for k, (group, size, scale) in enumerate(
            zip(training.index, training.sizes, training.scales, strict=True)
        ):
            names = scalar_names(k, training.num_slopes)
            place = scalars.index(names[0])
            outcome.scalars[place : place + terms] = scale
            self._parts.append(
                kernels.GroupTerms(
                    group=np.array(group, np.int32),
                    z=np.ascontiguousarray(training.z, np.float64),
                    effect=self.effects[start : start + terms * size].reshape(terms, size),
                    shift=np.zeros(rows, np.int32),
                    gram=np.zeros((size, terms, terms)),
                    total=np.zeros((size, terms)),
                    params=np.zeros(len(names)),
                    factor=np.zeros((terms, terms)),
                    square=np.zeros((terms, terms)),
                    solved=np.zeros((3, terms)),
                    power=np.zeros(1),
                    scale=scale / outcome.step,
                    place=place,
                )
            )
            start += terms * size

    def apply(self, residual: NDArray[np.int32]) -> None:
        """Take the effects out of a residual that has them all."""
        for part in self._parts:
            part.shift[:] = 0
            apply_effects(part, residual)

    def draw(
        self, model: Normal, forest: Forest, outcome: Outcome, work: Work, line: LinearSlopes | None
    ) -> None:
        """Draw the effects and their covariances given the trees, the line and the noise."""
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
