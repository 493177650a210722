"""Choice of the leaf model for a method and a family."""

from __future__ import annotations

import math

import numpy as np

from sampler.cart.kernels.state import CLASSES, MEAN_SHIFT, MEAN_VARIANCE
from sampler.methods import METHODS
from sampler.settings import Settings
from sampler.training import Training
from sampler.trees.cart.prior import tree_constants


def leaf_model(settings: Settings) -> int:
    """Return the kernels' leaf model for these settings."""
    if settings.family == "categorical":
        return CLASSES
    return MEAN_VARIANCE if METHODS[settings.method].variant == "leaf-noise" else MEAN_SHIFT


def log_constant(training: Training) -> float:
    """Compute the terms missing from the kernels' log likelihood, so that evidences are in units of y."""
    constants = tree_constants(training)
    model, rows = leaf_model(training.settings), len(training.y)
    if training.settings.prior_only or model == CLASSES:
        return 0.0
    in_units = -rows * math.log(constants.step)
    if training.weights is not None:
        in_units += 0.5 * float(np.sum(np.log(training.weights)))
    if model == MEAN_VARIANCE:
        return in_units
    nu, scale = constants.nu, constants.nu * constants.lambda_ / constants.step**2
    gammas = math.lgamma(0.5 * (rows + nu)) - math.lgamma(0.5 * nu)
    return in_units - 0.5 * rows * math.log(math.pi) + 0.5 * nu * math.log(scale) + gammas
