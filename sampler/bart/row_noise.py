"""Noise whose size differs by row: by a forest of precisions, by heavy tails, both, or a mixture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sampler.bart import forest_call, noise_forest, noise_mixture, student
from sampler.bart.forest_call import ForestCall
from sampler.bart.kernels.leaf_models.log_linear_pass import TARGET, begin_precision, weigh
from sampler.bart.kernels.leaf_models.normal import SIGMA2, UNIT
from sampler.bart.noise_mixture import MixtureNoise
from sampler.bart.student import StudentScales
from sampler.noise import DEGREES, NOISES, SPREAD, component_names

if TYPE_CHECKING:
    from sampler.bart.kernels.leaf_models.log_linear import LogLinear
    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.bart.kernels.state import Forest, Outcome, Work
    from sampler.kernels.arrays import Data
    from sampler.settings import Settings
    from sampler.training import Training

WEIGHT_SUM_BITS = 36  # of the sum of the rows' weights; a residual takes up to 26 of 62
LATEST_START = 100  # iterations that the mean has alone at first, before the precisions, at most


def groups_of(settings: Settings) -> tuple[str, ...]:
    """Name the kernels that the noise needs."""
    noise = NOISES[settings.noise]
    if not noise.weighs_rows:
        return ()
    forest = noise_forest.groups_of(settings) if noise.forest else ("log-linear",)
    own = (student.GROUP,) if noise.heavy_tails else (noise_mixture.GROUP,) if noise.mixture else ()
    return (forest_call.GROUP, "weights", *forest, *own)


class RowNoise:
    """The steps of a sweep that let the noise differ by row."""

    def __init__(
        self,
        training: Training,
        models: tuple[Normal, LogLinear | None],
        scalars: tuple[str, ...],
        outcome: Outcome,
    ) -> None:
        """Make the rows' scales, and note the leaf models of the mean and of the precisions, if any."""
        self._given = noise_forest.given_weights(training)
        self._num_rows = len(training.y)
        self._mean, self._precision = models
        self._call = ForestCall()
        self._log_value = np.zeros(self._num_rows, np.int32) if models[1] is None else models[1].log_value
        self._first = min(LATEST_START, training.settings.num_burnin // 4)
        self._outcome = outcome
        self._spread = None
        if models[1] is not None:
            self._spread = noise_forest.NoiseSpread(models[0], models[1], scalars.index(SPREAD), outcome)
        self._scales = (
            StudentScales(self._num_rows, scalars.index(DEGREES), outcome) if DEGREES in scalars else None
        )
        self._mixture = None
        if NOISES[training.settings.noise].mixture:
            place, sigma = scalars.index(component_names()[0]), training.constants.sigma_start
            self._mixture = MixtureNoise(self._num_rows, place, sigma, self._first, outcome)
        self._weights = self._given
        self._values = np.ones(self._num_rows)  # of the precisions at a sweep's start

    @property
    def mean(self) -> float:
        """The mean of the noise, in grid steps."""
        return self._mixture.mean if self._mixture else 0.0

    def apply(self) -> None:
        """Let the precisions have the prior that the scalars say."""
        if self._spread:
            self._spread.apply()

    def weigh(self, work: Work, iteration: int) -> None:
        """Draw the rows' scales or labels, if any, and weigh the rows."""
        if self._scales:
            self._weights = self._scales.draw(
                self._mean, self._log_value, self._given, self._outcome, work, iteration
            )
        if self._mixture:
            self._weights = self._mixture.draw(self._mean, self._outcome, work, iteration)
        self._mean.noise[UNIT] = weigh(
            self._log_value, self._weights, self._num_rows, WEIGHT_SUM_BITS, self._values, self._mean.weights
        )

    def end(self) -> None:
        """End what `weigh` began: residuals have the components' means again."""
        if self._mixture:
            self._mixture.put_back(self._mean.residual)

    def sweep(self, data: Data, forest: Forest, work: Work, iteration: int) -> None:
        """Update the precisions and their spread, but in the first iterations: the mean comes first."""
        if iteration < self._first:
            return
        model = self._precision
        assert model is not None, "there is a forest of precisions"
        assert self._spread is not None, "so there is its spread"
        total = begin_precision(
            model.part, self._values, self._weights, self._mean.residual, self._mean.noise[SIGMA2],
            self._num_rows,
        )  # fmt: skip
        model.scale[0] = 2.0 ** (TARGET - math.floor(math.log2(total))) if total > 0 else 1.0
        self._call(data, forest, model, work)
        self._spread.draw(forest, self._weights, self._num_rows, work.random)
