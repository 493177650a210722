"""Noise by row: a forest of precisions beside the mean's (docs/maths.md#noise-that-differs-by-row).

y = f(x) + sigma (a w(x))^(-1/2) e, with a row's own weight a, and w a product of log-linear trees whose
logarithm has prior mean 0 (Pratola, Chipman, George and McCulloch 2020; Murray 2021) and a prior standard
deviation that is drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.kernels.leaf_models.log_linear import LogLinear
from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, Normal
from sampler.bart.kernels.state import Forest, Outcome
from sampler.bart.kernels.steps import leaf_scale
from sampler.bart.log_linear import LeafScale, gamma_prior, make_log_linear
from sampler.families import LOG_LINEAR_KERNELS
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


def make_model(training: Training, mean: Normal) -> LogLinear:
    """Make the leaf model of the precisions, beside that of the mean."""
    precision = given_weights(training)
    seen = (precision > 0).astype(np.int32) if np.any(precision == 0) else np.zeros(0, np.int32)
    leaves = gamma_prior(2.0 * MOST, NOISE_TREES)
    return make_log_linear(leaves, 0.5, mean.noise, seen, training.padded_codes.shape[1])


class NoiseSpread:
    """Prior standard deviation of log s(x) of one chain; it is a scalar of its outcome.

    Parameters
    ----------
    mean, precision
        The leaf models.
    place
        That of the spread among the scalars.
    outcome
        Has the scalars.

    """

    def __init__(self, mean: Normal, precision: LogLinear, place: int, outcome: Outcome) -> None:
        self._grid = np.geomspace(LEAST, MOST, GRID)
        log_prior = np.log(self._grid)  # of values whose logarithms are evenly spaced
        self._scale = LeafScale(2.0 * self._grid, log_prior, 2.0 * MOST, NOISE_TREES, precision)
        self._mean, self._precision, self._scalar = mean, precision, outcome.scalars[place : place + 1]
        self._scalar[0] = self._grid[self._scale.place[0]]

    def apply(self) -> None:
        """Set the prior of the leaves to that of the scalar."""
        self._scale.place[0] = np.argmin(abs(self._grid - self._scalar[0]))
        self._scale.apply()

    def draw(self, forest: Forest, weights: Floats, num_rows: int, random: NDArray[np.uint64]) -> None:
        """Draw it given the leaves, then twice move it with all their logarithms in proportion."""
        self._scale.draw([forest], random)
        noise, place, log_value = self._mean.noise, self._scale.place, self._precision.log_value
        for _ in range(SCALE_MOVES):
            old = int(place[0])
            new = int(leaf_scale.propose_place(len(self._grid), old, random))
            if new < 0:
                continue
            factor = float(self._grid[new] / self._grid[old])
            if leaf_scale.accepts_precisions(
                self._scale.grid, (old, new), factor, forest, log_value, weights, self._mean.residual,
                noise[SIGMA2], noise[LIKELIHOOD], num_rows, random,
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
