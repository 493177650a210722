"""Noise by row: a forest of precisions beside the mean's (docs/maths.md#noise-that-differs-by-row).

y = f(x) + sigma (a w(x))^(-1/2) e, with a row's own weight a, and w a product of log-linear trees whose
logarithm has prior mean 0 (Pratola, Chipman, George and McCulloch 2020; Murray 2021).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sampler.bart.kernels.leaf_models.log_linear import LogLinear
    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.settings import Settings
    from sampler.training import Training

NAME = "precision"
NUM_TREES = 40
LOG_SD = 0.5  # prior standard deviation of log s(x), s the noise's: 90% of the prior within a factor of 2.3
MOVES = {"grow": 0.5, "prune": 0.5, "rule": 0.1}
MOST_LEAVES = 1 << 16
TABLED = 8192  # of log Gamma: leaves of so many rows


def groups_of(settings: Settings) -> tuple[str, ...]:
    """Name the kernels that a forest of precisions needs."""
    return ("precision", *(("precision-rule",) if settings.moves.get("rule") else ()))


def gamma_prior(log_sd: float, num_trees: int) -> tuple[float, float]:
    """Find the shape and rate of leaves whose product over trees has log mean 0 and this log sd.

    The shape's trigamma function is log_sd^2 / num_trees; its digamma function is the logarithm of the rate.
    """
    from scipy.special import polygamma, psi  # noqa: PLC0415  # slow to import

    wanted = log_sd**2 / num_trees
    shape = 1.0 / wanted + 0.5
    for _ in range(100):
        step = float((polygamma(1, shape) - wanted) / polygamma(2, shape))
        shape = max(shape - step, 0.5 * shape)
        if abs(step) < 1e-14 * shape:
            break
    return shape, float(math.exp(psi(shape)))


def make_model(training: Training, mean: Normal) -> LogLinear:
    """Make the leaf model of the precisions, beside that of the mean."""
    from sampler.bart.kernels.leaf_models import log_linear  # noqa: PLC0415  # kernels load late
    from sampler.bart.kernels.leaf_models.log_linear_pass import log_gamma  # noqa: PLC0415

    shape, rate = gamma_prior(2.0 * LOG_SD, NUM_TREES)
    rows = training.padded_codes.shape[1]
    given = given_weights(training)
    return log_linear.LogLinear(
        prior=np.array([shape, rate, log_gamma(shape) - shape * math.log(rate)]),
        noise=mean.noise,
        log_value=np.zeros(rows, np.int32),
        part=np.zeros(rows),
        weights=(given > 0).astype(np.int32) if np.any(given == 0) else np.zeros(0, np.int32),
        scale=np.ones(1),
        wholes=np.zeros(rows, np.int64),
        factors=np.ones(min(MOST_LEAVES, rows) + 16),
        log_gamma=np.array([log_gamma(shape + 0.5 * k) for k in range(TABLED)]),
    )


def given_weights(training: Training) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give the rows' own weights, 0 where they are too small to count; empty without weights."""
    if training.weights is None:
        return np.zeros(0)
    return np.where(training.unweighed, 0.0, training.weights)
