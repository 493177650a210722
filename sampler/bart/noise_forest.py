"""Noise by row: a forest of precisions beside the mean's (docs/maths.md#noise-that-differs-by-row).

y = f(x) + sigma (a w(x))^(-1/2) e, with a row's own weight a, and w a product of log-linear trees whose
logarithm has prior mean 0 (Pratola, Chipman, George and McCulloch 2020; Murray 2021) and a prior standard
deviation that is drawn.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.forest_call import ForestCall
from sampler.bart.kernels.leaf_models.log_linear import COUNT, LogLinear
from sampler.bart.kernels.leaf_models.log_linear_pass import TARGET, begin_precision
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.kernels.steps import leaf_scale
from sampler.bart.log_linear import LeafScale, gamma_prior, make_log_linear
from sampler.families import LOG_LINEAR_KERNELS
from sampler.kernels.arrays import Data
from sampler.noise import NOISE_TREES
from sampler.settings import Settings
from sampler.training import Training

NAME = "precision"
# Prior standard deviation of log s(x), s the noise's: uniform, on a grid evenly spaced in its logarithm. At
# the largest, where chains start, 90% of the prior of s are within a factor of 2.3: larger ones would take a
# misfit of the mean for noise.
LEAST, MOST, GRID = 0.05, 0.5, 32
SCALE_MOVES = 2  # of the standard deviation with all leaves, in a sweep
MOVES = {"grow": 0.5, "prune": 0.5, "rule": 0.1}


def groups_of(settings: Settings) -> tuple[str, ...]:
    """Name the kernels that a forest of precisions needs."""
    return (
        "log-linear-trees",
        "log-linear-scale",
        *(each for name, each in LOG_LINEAR_KERNELS.items() if name in (*settings.moves, settings.start)),
    )


def make_model(training: Training, noise: Floats, errors: NDArray[np.int32], unit: int = 1) -> LogLinear:
    """Make the leaf model of the precisions, beside the mean's, whose noise this is.

    `errors` are how many a row has, int32 [n], in units of `unit`; empty: 1.
    """
    leaves = gamma_prior(2.0 * MOST, NOISE_TREES)
    return make_log_linear(leaves, 0.5 * unit, noise, errors, training.padded_codes.shape[1])


class Precisions:
    """The forest of precisions of one chain, and its spread: the prior sd of log s(x), a scalar.

    Parameters
    ----------
    model
        Its leaf model, which has the noise of the errors.
    residual
        The errors, int32 [n].
    scalar
        Room for the spread, float64 [1].

    """

    def __init__(self, model: LogLinear, residual: NDArray[np.int32], scalar: Floats) -> None:
        self._grid = np.geomspace(LEAST, MOST, GRID)
        log_prior = np.log(self._grid)  # of values whose logarithms are evenly spaced
        self._scale = LeafScale(2.0 * self._grid, log_prior, 2.0 * MOST, NOISE_TREES, model)
        self._model, self._residual, self._scalar = model, residual, scalar
        self._call = ForestCall()
        self._scalar[0] = self._grid[self._scale.place[0]]

    def apply(self) -> None:
        """Set the prior of the leaves to that of the scalar."""
        self._scale.place[0] = np.argmin(abs(self._grid - self._scalar[0]))
        self._scale.apply()

    def draw(
        self, data: Data, forest: Forest, work: Work, values: Floats, weights: Floats, num_rows: int
    ) -> None:
        """Update the trees, from the rows' f and weights at the sweep's start, and draw the spread."""
        model, noise = self._model, self._model.noise
        total = begin_precision(model.part, values, weights, self._residual, noise[SIGMA2], num_rows)
        model.scale[0] = 2.0 ** (TARGET - math.floor(math.log2(total))) if total > 0 else 1.0
        self._call(data, forest, model, work)
        self._draw_spread(forest, weights, num_rows, work.random)

    def _draw_spread(
        self, forest: Forest, weights: Floats, num_rows: int, random: NDArray[np.uint64]
    ) -> None:
        """Draw it given the leaves, then twice move it with all their logarithms in proportion."""
        self._scale.draw([forest], random)
        model, place = self._model, self._scale.place
        noise, log_value, unit = model.noise, model.log_value, 2.0 * float(model.leaf_law[COUNT])
        for _ in range(SCALE_MOVES):
            old = int(place[0])
            new = int(leaf_scale.propose_place(len(self._grid), old, random))
            if new < 0:
                continue
            factor = float(self._grid[new] / self._grid[old])
            if leaf_scale.accepts_precisions(
                self._scale.grid, (old, new), factor, forest, log_value, model.weights, unit, weights,
                self._residual, noise[SIGMA2], noise[LIKELIHOOD], num_rows, random,
            ):  # fmt: skip
                leaf_scale.multiply_logarithms(forest, log_value, factor, num_rows)
                place[0] = new
                self._scale.apply()
        self._scalar[0] = self._grid[place[0]]


def given_weights(training: Training) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give the rows' own weights, 0 where they are too small to count; empty without weights."""
    if training.weights is None:
        return np.zeros(0)
    return np.where(training.unweighed, 0.0, training.weights)
