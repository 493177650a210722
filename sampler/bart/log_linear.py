"""Leaf models of log-linear forests: their prior and their arrays (docs/maths.md#log-linear-forests)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sampler.bart.kernels.leaf_models.log_linear import LogLinear

STEP = 2.0**-20  # of logarithms of leaf values, and of the probit forest of structural zeros
MOST_LEAVES = 1 << 16
TABLED = 8192  # of log Gamma: leaves of r up to half as large
LARGEST_EXPONENT = 1000  # of a scale


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


def prior_of_logarithms(log_sd: float, num_trees: int, entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants of `sampler.prior.Constants` for families of log-linear forests.

    Parameters
    ----------
    log_sd
        Prior sd of the logarithm of a product of trees, times k.
    num_trees
        Number of these trees.
    entries
        Entries of the prior, complete.

    """
    return {
        "offset": 0.0,
        "step": STEP,
        "leaf_sd": float(entries.get("leaf_sd", log_sd / (entries["k"] * math.sqrt(num_trees)))),
        "nu": 1.0,
        "lambda_": 1.0,
        "sigma_start": 1.0,
        "sigma_fixed": True,
        **{name: float(entries[name]) for name in ("alpha", "beta", "k")},
    }


def make_log_linear(
    leaves: tuple[float, float],
    count: float,
    noise: NDArray[np.float64],
    weights: NDArray[np.int32],
    num_rows: int,
) -> LogLinear:
    """Make a leaf model.

    Parameters
    ----------
    leaves
        Shape and rate of the prior of a leaf value.
    count
        r of a row of weight 1.
    noise
        Array that the chain's forests share, with the likelihood's power.
    weights
        int32 [n]; empty: all 1.
    num_rows
        Rows with those that pad them.

    """
    from sampler.bart.kernels.leaf_models import log_linear  # noqa: PLC0415  # kernels load late
    from sampler.bart.kernels.leaf_models.log_linear_pass import log_gamma  # noqa: PLC0415

    shape, rate = leaves
    return log_linear.LogLinear(
        prior=np.array([shape, rate, log_gamma(shape) - shape * math.log(rate), count]),
        noise=noise,
        log_value=np.zeros(num_rows, np.int32),
        part=np.zeros(num_rows),
        weights=weights,
        scale=np.ones(1),
        wholes=np.zeros(num_rows, np.int64),
        factors=np.ones(min(MOST_LEAVES, num_rows) + 16),
        log_gamma=np.array([log_gamma(shape + 0.5 * k) for k in range(TABLED)]),
    )


def scale_for(total: float) -> float:
    """Choose the power of two that parts are multiplied by, for parts of that sum, to be whole numbers."""
    from sampler.bart.kernels.leaf_models.log_linear_pass import TARGET  # noqa: PLC0415

    if total <= 0.0:
        return 1.0
    return math.ldexp(1.0, min(TARGET - math.floor(math.log2(total)), LARGEST_EXPONENT))
