"""Draws of a chain: each constant given trees, noise and the other constants."""

import numpy as np

from level_constants import NAME
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT
from sampler.bart.kernels.leaf_models.residual_bound import measure_bound
from sampler.bart.part import ChainPart
from sampler.kernels.random import next_word


def scalar_names(count):
    """Name the scalars of a draw that are constants."""
    return tuple(f"level_constant_{k}" for k in range(count))


class LevelConstants(ChainPart):
    """The constants of one chain: scalars of its outcome, whole grid steps in units of y."""

    @classmethod
    def scalars(cls, training):
        """Name the constants."""
        return scalar_names(len(training.parts[NAME].inside))

    def __init__(self, training, host):
        own = training.parts[NAME]
        self._host = host
        self._rows = [np.flatnonzero(inside) for inside in own.inside]
        self._places = [host.scalar_names.index(name) for name in self.scalars(training)]
        self._variance = (own.sd / host.outcome.step) ** 2

    def take_out(self, model):
        """Take the constants out of residuals that have them all."""
        scalars, step = self._host.outcome.scalars, self._host.outcome.step
        for rows, place in zip(self._rows, self._places, strict=True):
            model.residual[rows] -= np.int32(np.rint(scalars[place] / step))

    def draw(self, forest, work, places):
        """Draw each constant in turn, rounded to the grid."""
        model, outcome = self._host.models[0], self._host.outcome
        random = np.random.Generator(np.random.PCG64(int(next_word(work.random))))
        power = model.noise[LIKELIHOOD] / model.noise[SIGMA2]
        for rows, place in zip(self._rows, self._places, strict=True):
            old = int(np.rint(outcome.scalars[place] / outcome.step))
            weights = model.weights[rows] * model.noise[UNIT] if len(model.weights) else np.ones(len(rows))
            precision = 1 / self._variance + power * weights.sum()
            mean = power * (weights @ (model.residual[rows] + old)) / precision
            new = int(np.rint(mean + random.standard_normal() / np.sqrt(precision)))
            model.residual[rows] += np.int32(old - new)
            outcome.scalars[place] = new * outcome.step
        measure_bound(model.residual, model.bound)
