"""The prior of soft trees, and the numbers that a column's codes stand for (docs/maths.md#soft-trees)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.schema import Schema
from sampler.definitions.design import Design
from sampler.errors import DataError, SettingsError
from sampler.methods import METHODS
from sampler.prior import SIGMA_FLOOR, Constants, check_entries, estimate_sigma, range_of
from sampler.settings import Settings
from sampler.training import Training

GRID_BITS = 20
MOST_COLUMNS = 500  # every split has a weight for each column
CODES = 256  # the last one stands for missing values
SHARES = {"sharpness": 0.01, "sharpness_start": 0.1}
DEFAULTS: dict[str, Any] = {**SHARES, "sigma_estimate": "linear", "sigma_shape": 1.5}
CLASS_DEFAULTS: dict[str, Any] = {**SHARES, "concentration": 1.0}
ABSOLUTE = ("mean", "leaf_sd", "sigma_scale")
NOISE_SHARE = 0.5  # sigma's scale over the residual sd of a linear model; a good tree leaves less noise


@dataclass(frozen=True)
class SoftConstants(Constants):
    """Prior of one tree of soft splits in absolute constants, in units of y.

    A node of depth d splits with probability alpha (1 + d)^-beta; there is at least one split. A leaf's mean
    is Normal(offset, leaf_sd^2); sigma (not its square) is inverse gamma (sigma_shape, sigma_scale); a leaf's
    class probabilities are Dirichlet(concentration, ..). Thresholds are uniform on [0, 1] and all columns are
    equally likely. `sharpness` is the width h of every split, `sharpness_start` that at the start of warm-up,
    both in units of the scaled columns; `values` holds the scaled number of each code of each column, with
    that of a missing value last.
    """

    sigma_shape: float = 1.5
    sigma_scale: float = 1.5
    concentration: float = 1.0
    classes: int = 0
    sharpness: float = 0.01
    sharpness_start: float = 0.1
    values: tuple[tuple[float, ...], ...] = ()


def soft_constants(training: Training) -> SoftConstants:
    """Return the constants of a fit with soft splits."""
    assert isinstance(training.constants, SoftConstants)
    return training.constants


def check_soft_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the given prior entries of a tree of soft splits and add the defaults of the others.

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
    defaults = dict(METHODS[settings.method].split_prior) | (CLASS_DEFAULTS if classes else DEFAULTS)
    known = tuple(defaults) if classes else (*defaults, *ABSOLUTE)
    entries = check_entries(prior, known, " of a tree of soft splits")
    values = defaults | entries
    if values["sharpness_start"] < values["sharpness"]:
        if "sharpness_start" in entries:
            raise SettingsError(
                "prior sharpness_start must be at least sharpness: splits sharpen in warm-up",
                field="prior.sharpness_start",
                code="contradiction",
            )
        values["sharpness_start"] = values["sharpness"]
    return values


def calibrate_soft(
    y: NDArray[np.float64],
    design: Design,
    weights: NDArray[np.float64] | None,
    settings: Settings,
    prior: Mapping[str, Any] | None,
    codes: NDArray[np.uint8],
) -> SoftConstants:
    """Compute the constants of the prior.

    Parameters
    ----------
    y
        float64 [n]: numbers, or class indices from 0.
    design
        float64 [p, n], NaN where missing.
    weights
        float64 [n], all positive, or None.
    settings
        Settings of the fit; only family and method are used.
    prior
        Any of alpha, beta, sharpness, sharpness_start (in units of columns scaled to [0, 1]); for numbers
        sigma_estimate ("linear" or "naive") and sigma_shape, and, instead of scaling from the data, in units
        of y: mean and leaf_sd (of the leaves), sigma_scale; for classes concentration.
    codes
        uint8 [p, n], the encoded design.

    Returns
    -------
    SoftConstants
        The constants.

    Raises
    ------
    SettingsError
        For an unknown entry or a value out of range; the message lists what is accepted.
    DataError
        For more columns than `MOST_COLUMNS`, and for weights of 0.

    """
    values = check_soft_prior(prior, settings)
    if len(design) > MOST_COLUMNS:
        raise DataError(
            f"method {settings.method} takes up to {MOST_COLUMNS} coded columns (a category is one for each "
            f"level), and there are {len(design)}: use fewer features"
        )
    if weights is not None and not np.all(weights > 0):
        raise DataError("weights must be positive: leave rows of weight 0 out")
    common: dict[str, Any] = {
        name: float(values[name]) for name in ("alpha", "beta", "sharpness", "sharpness_start")
    }
    common |= {"nu": 3.0, "lambda_": 1.0, "values": code_values(design, codes)}
    if settings.family == "categorical":
        return SoftConstants(
            offset=0.0, step=1.0, leaf_sd=1.0, sigma_start=1.0, sigma_fixed=True,
            concentration=float(values["concentration"]), classes=max(int(np.max(y)) + 1, 2), **common,
        )  # fmt: skip
    spread = float(np.max(y)) - float(np.min(y)) or 1.0
    centre = float(values.get("mean", np.average(y, weights=weights)))
    noise = max(estimate_sigma(y, design, weights, values), SIGMA_FLOOR * range_of(y, weights, spread))
    reach = max(float(np.max(np.abs(y - centre))), SIGMA_FLOOR * spread)
    return SoftConstants(
        offset=centre,
        step=2.0 ** (math.ceil(math.log2(reach)) - GRID_BITS),
        leaf_sd=float(values.get("leaf_sd", np.std(y) or spread)),
        sigma_start=noise,
        sigma_fixed=False,
        sigma_shape=float(values["sigma_shape"]),
        sigma_scale=float(values.get("sigma_scale", NOISE_SHARE * noise)),
        **common,
    )


def code_values(design: Design, codes: NDArray[np.uint8]) -> tuple[tuple[float, ...], ...]:
    """Compute the number that each code of each column stands for, with the column scaled to [0, 1].

    It is the mean of the code's training rows. Codes without rows are interpolated between their neighbours;
    a missing value stands for the column's mean.
    """
    by_column = []
    for column, code in zip(design, codes, strict=True):
        seen = ~np.isnan(column)
        if not seen.any():
            by_column.append((0.5,) * CODES)
            continue
        low, high = float(column[seen].min()), float(column[seen].max())
        scaled = (column[seen] - low) / (high - low) if high > low else np.zeros(int(seen.sum()))
        many = np.bincount(code[seen], minlength=CODES)
        sums = np.bincount(code[seen], scaled, minlength=CODES)
        there = np.flatnonzero(many)
        values = np.interp(np.arange(CODES), there, sums[there] / many[there])
        values[-1] = scaled.mean()
        by_column.append((*np.clip(values[: there[-1] + 1], 0, 1).tolist(), float(values[-1])))
    return tuple(by_column)


def missing_warnings(_training: Training, schema: Schema) -> list[str]:
    """Warn about columns with missing values, which soft splits replace by the mean."""
    return [
        f"{column.name}: {column.missing} missing values count as the column's mean: soft splits don't learn "
        "from them"
        for column in schema.columns
        if column.missing and column.kind != "category"
    ]
