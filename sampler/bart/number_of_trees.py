"""Number of trees of a forest that is drawn, in chains (docs/maths.md#number-of-trees)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.bart.kernels.state import Forest
from sampler.bart.kernels.steps.number_of_trees import UPDATE_TREES
from sampler.bart.part import ChainPart
from sampler.bart.prior import law_of_number
from sampler.kernels.jit import address
from sampler.prior import Constants
from sampler.storage.draws import NUM_TREES
from sampler.training import Training

GROUP = "number-of-trees"  # group of compiled kernels, see `sampler.kernels.groups`


def with_number_drawn(forest: Forest, model: Any, constants: Constants, number: Floats) -> Forest:
    """Return the forest with its number of trees drawn, which `number` [1] then is; it starts at its mean.

    Given their number all sets of so many places are equally likely.
    """
    places = len(forest.num_leaves)
    law = law_of_number(constants.num_trees, constants.num_trees_mean, places)
    number[0] = round(float(law @ np.arange(places + 1)))
    forest.num_leaves[int(number[0]) :] = 0
    others = np.arange(places)
    log_odds = np.diff(np.log(law)) + np.log((others + 1) / (places - others))
    update = address(UPDATE_TREES, type(model))
    return forest._replace(prior=forest.prior._replace(update=update, log_odds=log_odds, number=number))


class NumberOfTrees(ChainPart):
    """The number of the mean's trees, a scalar of a draw; which are present is told by their leaves."""

    is_compiled = True

    @classmethod
    def of(cls, training: Training) -> type[ChainPart] | None:
        """Return the class where the number has a prior."""
        return cls if training.constants.num_trees else None

    @classmethod
    def scalars(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the number."""
        return (NUM_TREES,)

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels."""
        return (GROUP,)
