"""Noise by row that several outcomes have in common (docs/maths.md#several-outcomes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.chain import Chain
from sampler.bart.families.gaussian import name_scalars, plan_forests
from sampler.bart.families.likelihood import Likelihood
from sampler.bart.kernels.leaf_models import normal
from sampler.bart.kernels.leaf_models.log_linear_pass import weigh
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.noise_forest import Precisions, make_model
from sampler.bart.row_noise import LATEST_START, WEIGHT_SUM_BITS
from sampler.kernels.arrays import Data
from sampler.training import Training


class SharedPrecisions(Likelihood):
    """A forest of precisions that sees of each row the size of its errors, and how many there are."""

    def __init__(self, training: Training) -> None:
        self.plans = plan_forests(training)[1:]
        self.scalar_names = name_scalars(training)
        self.scalars = np.ones(2)
        noise = np.zeros(normal.NOISE_SIZE)
        noise[[normal.SIGMA2, normal.UNIT]] = 1.0
        noise[normal.LIKELIHOOD] = not training.settings.prior_only
        errors, rows = training.y.astype(np.int32), len(training.y)
        alike = int(errors[0]) if np.all(errors == errors[0]) else 0
        self.models = [make_model(training, noise, errors[: 0 if alike else rows], alike or 1)]
        self._precisions = Precisions(self.models[0], np.ones(rows, np.int32), self.scalars[1:])
        self._first = min(LATEST_START, training.settings.num_burnin // 4)
        self.squares, self._values, self._units = np.ones(rows), np.ones(rows), np.ones(rows, np.int32)

    def state(self) -> list[NDArray[Any]]:
        """Return the spread of the precisions, as a view."""
        return [self.scalars[1:]]

    def fits(self) -> bool:
        """Tell whether the spread is positive."""
        return bool(self.scalars[1] > 0)

    def clear(self, training: Training) -> None:  # noqa: ARG002
        """Let precisions be 1, with the prior that the spread says."""
        self.models[0].log_value[:] = 0
        self._precisions.apply()

    def values(self) -> Floats:
        """Compute the rows' precisions from the trees, float64 [n]."""
        rows = len(self._values)
        weigh(self.models[0].log_value, np.zeros(0), rows, WEIGHT_SUM_BITS, self._values, self._units)
        return self._values

    def sweep(self, data: Data, forests: Sequence[Forest], work: Work, iteration: int) -> None:
        """Update the trees and their spread; not in the first iterations, in which means come first."""
        if iteration >= self._first:
            self._precisions.draw(data, forests[0], work, self._values, self.squares, len(self.squares))


class SharedNoise(Chain):
    """The chain of the precisions, on a training whose y says how many outcomes each row has."""

    _likelihood: SharedPrecisions

    @staticmethod
    def _make_likelihood(training: Training) -> Likelihood:
        return SharedPrecisions(training)

    def precisions(self) -> Floats:
        """Compute the rows' precisions, float64 [n]: errors of precision w have the covariance by w."""
        return self._likelihood.values()

    def learn(self, squares: Floats) -> None:
        """Do one iteration given the sizes of the rows' errors, float64 [n], and how many they are."""
        self._likelihood.squares[:] = squares
        self.run(1)


def in_units(precision: Floats) -> tuple[NDArray[np.int32], float]:
    """Return weights of rows in proportion to precisions, int32 [n], and their unit."""
    rows = len(precision)
    weights, none = np.empty(rows, np.int32), np.zeros(rows, np.int32)
    unit = weigh(none, precision, rows, WEIGHT_SUM_BITS, np.empty(rows), weights)
    return weights, float(unit)
