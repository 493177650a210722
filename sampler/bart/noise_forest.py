"""Noise by row: a forest of precisions beside the mean's (docs/maths.md#noise-that-differs-by-row).

y = f(x) + sigma (a w(x))^(-1/2) e, with a row's own weight a, and w a product of log-linear trees whose
logarithm has prior mean 0 (Pratola, Chipman, George and McCulloch 2020; Murray 2021).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sampler.bart.log_linear import gamma_prior, make_log_linear

if TYPE_CHECKING:
    from sampler.bart.kernels.leaf_models.log_linear import LogLinear
    from sampler.bart.kernels.leaf_models.normal import Normal
    from sampler.settings import Settings
    from sampler.training import Training

NAME = "precision"
NUM_TREES = 40
LOG_SD = 0.5  # prior standard deviation of log s(x), s the noise's: 90% of the prior within a factor of 2.3
MOVES = {"grow": 0.5, "prune": 0.5, "rule": 0.1}


def groups_of(settings: Settings) -> tuple[str, ...]:
    """Name the kernels that a forest of precisions needs."""
    return ("log-linear-trees", *(("log-linear-rule",) if settings.moves.get("rule") else ()))


def make_model(training: Training, mean: Normal) -> LogLinear:
    """Make the leaf model of the precisions, beside that of the mean."""
    precision = given_weights(training)
    seen = (precision > 0).astype(np.int32) if np.any(precision == 0) else np.zeros(0, np.int32)
    leaves = gamma_prior(2.0 * LOG_SD, NUM_TREES)
    return make_log_linear(leaves, 0.5, mean.noise, seen, training.padded_codes.shape[1])


def given_weights(training: Training) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give the rows' own weights, 0 where they are too small to count; empty without weights."""
    if training.weights is None:
        return np.zeros(0)
    return np.where(training.unweighed, 0.0, training.weights)
