"""The prior of single-tree models, scaled from the data or given in absolute constants.

The mathematics: docs/maths.md#single-trees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.definitions.design import Design
from sampler.errors import DataError
from sampler.prior import (
    SIGMA_FLOOR,
    Constants,
    check_entries,
    chi2_quantile,
    estimate_sigma,
    range_of,
)
from sampler.settings import Settings
from sampler.training import Training

GRID_BITS = 20  # bits of the largest outcome, so that the squares of 4 million rows add up in 64 bits
MOST_ROWS = 1 << 22
LEAST_WEIGHT = 2.0**-58  # as a share of the sum; sums of weights are integers of 61 bits
NOISE_SHARE = 0.1  # noise sd over the outcome's sd at which the leaf means' prior still spans the data
DEFAULTS: dict[str, Any] = {"alpha": 0.95, "beta": 1.0, "nu": 3.0, "q": 0.95, "sigma_estimate": "linear"}
CLASS_DEFAULTS: dict[str, Any] = {"alpha": 0.95, "beta": 1.0, "concentration": 1.0}
ABSOLUTE = ("mean", "precision", "lambda")


@dataclass(frozen=True)
class TreeConstants(Constants):
    """Prior of one tree in absolute constants, in units of y.

    A node of depth d splits with probability alpha (1 + d)^-beta where it can. A leaf's mean is
    Normal(offset, sigma^2 / precision), with sigma the noise of a row of weight 1, and sigma^2 is nu lambda /
    chi-square(nu), one for the tree or one for each leaf. A leaf's class probabilities are
    Dirichlet(concentration, ..). Outcomes are whole multiples of `step` above the offset, or indices of
    classes.
    """

    precision: float = 1.0
    concentration: float = 1.0
    classes: int = 0


def tree_constants(training: Training) -> TreeConstants:
    """Return the constants of a single-tree fit."""
    assert isinstance(training.constants, TreeConstants)
    return training.constants


def check_tree_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the given prior entries of a single tree and add the defaults of the others.

    Returns
    -------
    dict
        Every entry of the prior, by name.

    Raises
    ------
    SettingsError
        For an unknown entry or a value out of range; the message lists what is accepted.

    """
    classes = settings.family == "categorical"
    defaults = CLASS_DEFAULTS if classes else DEFAULTS
    known = tuple(defaults) if classes else (*defaults, *ABSOLUTE)
    entries = check_entries(prior, known, " of a single tree")
    return defaults | entries


def calibrate_tree(
    y: NDArray[np.float64],
    design: Design,
    weights: NDArray[np.float64] | None,
    settings: Settings,
    prior: Mapping[str, Any] | None = None,
    _codes: NDArray[np.uint8] | None = None,
) -> TreeConstants:
    """Compute the constants of the prior.

    Parameters
    ----------
    y
        float64 [n]: numbers, or class indices from 0.
    design
        float64 [p, n], NaN where missing; used by the linear sigma estimate only.
    weights
        float64 [n], positive, or None: row i has variance sigma^2 / weight. Multiplying all of them by a
        number changes sigma and nothing else.
    settings
        Settings of the fit; only the family is used.
    prior
        Any of alpha, beta; for numbers nu, q, sigma_estimate ("linear" or "naive"), and, instead of scaling
        from the data, in units of y: mean (of the leaves), precision (the noise's variance over that of the
        leaf means), lambda; for classes concentration.

    Returns
    -------
    TreeConstants
        The constants.

    Raises
    ------
    SettingsError
        For an unknown entry or a value out of range; the message lists what is accepted.
    DataError
        For more rows than the sums of squares have room for; for a weight that is not positive, or too small
        to count beside the others.

    """
    entries = check_tree_prior(prior, settings)
    if len(y) > MOST_ROWS:
        raise DataError(f"a single tree is fitted to at most {MOST_ROWS} rows, and there are {len(y)}")
    alpha, beta = float(entries["alpha"]), float(entries["beta"])
    if settings.family == "categorical":
        many = int(np.max(y)) + 1
        concentration = float(entries["concentration"])
        return TreeConstants(
            offset=0.0, step=1.0, leaf_sd=1.0, nu=1.0, lambda_=1.0, sigma_start=1.0, sigma_fixed=True,
            precision=1.0, concentration=concentration, classes=max(many, 2), alpha=alpha, beta=beta,
        )  # fmt: skip
    spread = float(np.max(y)) - float(np.min(y)) or 1.0
    if weights is not None and not np.all(weights > 0):
        raise DataError("weights must be positive: leave rows of weight 0 out")
    if weights is not None and float(np.min(weights)) < LEAST_WEIGHT * float(np.sum(weights)):
        raise DataError(
            f"weights: the smallest, {np.min(weights):.3g}, is negligible beside the sum of all, "
            f"{np.sum(weights):.3g}: leave such rows out"
        )
    scale_of_weights = 1.0 if weights is None else float(np.mean(weights))
    offset = float(entries.get("mean", np.average(y, weights=weights)))
    noise = max(estimate_sigma(y, design, weights, entries), SIGMA_FLOOR * range_of(y, weights, spread))
    scale = noise**2 * chi2_quantile(1 - entries["q"], entries["nu"]) / entries["nu"]
    reach = max(float(np.max(np.abs(y - offset))), SIGMA_FLOOR * spread)
    default = scale_of_weights * (NOISE_SHARE * float(np.std(y)) / (spread / 4)) ** 2
    precision = float(entries.get("precision", default))
    return TreeConstants(
        offset=offset,
        step=2.0 ** (math.ceil(math.log2(reach)) - GRID_BITS),
        leaf_sd=noise / math.sqrt(precision),
        sigma_start=noise,
        sigma_fixed=False,
        precision=precision,
        nu=float(entries["nu"]),
        lambda_=float(entries.get("lambda", scale)),
        concentration=1.0,
        classes=0,
        alpha=alpha,
        beta=beta,
    )
