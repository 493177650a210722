"""Common parts of the priors of all engines: constants, checks of entries, estimates of the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.definitions.design import Design
from sampler.definitions.other_names import meant_setting
from sampler.definitions.prior import PRIOR
from sampler.errors import SettingsError

MEDIAN_SIZE = 1.4826  # sd of normal noise over the median of its absolute values
SUMMED_ROWS, READ_CELLS = 4096, 1 << 19  # at once, for a straight line
SIGMA_FLOOR = 1e-6  # least noise as a share of y's range; a perfect linear fit would give a prior of scale 0


@dataclass(frozen=True)
class Constants:
    """Prior in absolute constants, in units of y.

    A leaf value is Normal(0, leaf_sd^2); sigma^2 is nu lambda / chi-square(nu), or known where `sigma_fixed`;
    a node of depth d splits with probability alpha (1 + d)^-beta where it can; f = offset + sum of trees.
    Leaf values and residuals are whole multiples of `step`, a power of two.

    With k_df > 0, leaf_sd is only a start: it becomes leaf_sd k / k' with k' = k_scale chi(k_df). Where
    `sparse` (DART, Linero 2018), a split's column has probability in proportion to s, s ~ Dirichlet(theta /
    p, ..), with theta = sparse_theta or, if that is 0, theta / (theta + sparse_rho) ~ Beta(sparse_a,
    sparse_b); else all columns are equally likely.

    `trees` has the entries of another prior of trees (`sampler.definitions.tree_laws`), empty for that by
    depth. Where `num_trees` is "poisson", "geometric" or "uniform", so is the number of trees, up to as many
    as there are places, with mean num_trees_mean but for that bound. JSON has none of these if empty.
    """

    offset: float
    step: float
    leaf_sd: float
    nu: float
    lambda_: float
    sigma_start: float
    sigma_fixed: bool
    alpha: float
    beta: float
    k: float = 2.0
    k_df: float = 0.0
    k_scale: float = 1.0
    sparse: bool = False
    sparse_a: float = 0.5
    sparse_b: float = 1.0
    sparse_rho: float = 1.0
    sparse_theta: float = 0.0
    trees: Mapping[str, Any] = field(default_factory=dict, repr=False)
    num_trees: str = field(default="", repr=False)
    num_trees_mean: float = field(default=0.0, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads exactly."""
        later = ("trees", "num_trees", "num_trees_mean")
        return {name: value for name, value in asdict(self).items() if name not in later or value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Constants:
        """Read constants from the dict that `to_json` returned."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})


@dataclass(frozen=True)
class HurdleConstants(Constants):
    """Prior in absolute constants, of the outcomes that are not `point`.

    An outcome is `point` with probability Phi(point_offset + g), and a leaf value of g is Normal(0,
    point_sd^2).
    """

    point: float = 0.0
    point_offset: float = 0.0
    point_sd: float = 0.0


def range_of(y: NDArray[np.float64], weights: NDArray[np.float64] | None, spread: float) -> float:
    """Return the range of y in units of sigma, the noise of a row of weight 1."""
    if weights is None:
        return spread
    return float(np.ptp(np.sqrt(weights) * (y - np.average(y, weights=weights)))) or spread


def check_entries(
    prior: Mapping[str, Any] | None,
    known: Sequence[str],
    whose: str = "",
) -> dict[str, Any]:
    """Check prior entries.

    Parameters
    ----------
    prior
        Entries by name, or None.
    known
        Accepted names.
    whose
        Text after a name in messages, such as " of a single tree".

    Returns
    -------
    dict
        The given entries, numbers as floats.

    Raises
    ------
    SettingsError
        For an unknown entry or a value out of range.

    """
    entries = dict(prior or {})
    for name, value in entries.items():
        if name not in known:
            raise SettingsError(
                f"unknown prior entry {name!r}{whose}; accepted are "
                f"{', '.join(known)}{meant_setting(name, known)}",
                field=f"prior.{name}",
                code="unknown",
            )
        entries[name] = PRIOR[name].check(f"prior.{name}", value)
    return entries


def chi2_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of the chi-square distribution at a probability."""
    from scipy.special import chdtri  # noqa: PLC0415  # slow to import, and only fitting needs it

    return float(chdtri(degrees, 1 - probability))


def estimate_sigma(
    y: NDArray[np.float64],
    design: Design,
    weights: NDArray[np.float64] | None,
    entries: Mapping[str, Any],
    *,
    robust: bool = False,
) -> float:
    """Estimate the noise's standard deviation, 0 where the prior gives it, from a straight line or from y.

    Parameters
    ----------
    y
        Outcomes, float64 [n].
    design
        Numeric coded columns before binning, float64 [p, n].
    weights
        float64 [n] or None.
    entries
        Entries of the prior.
    robust
        Whether outliers count little, see `residual_sd`.

    Returns
    -------
    float
        The standard deviation, in units of y.

    """
    if "lambda" in entries and "sigma_start" in entries:
        return 0.0
    weight = np.ones(len(y)) if weights is None else weights
    naive = _weighted_sd(y, weight)
    if entries["sigma_estimate"] == "naive":
        return naive
    linear = residual_sd(y, design, weight, robust=robust)
    return naive if linear is None else linear


def outcome_sd(y: NDArray[np.float64], weights: NDArray[np.float64] | None) -> float:
    """Return the sd of y among rows as their weights count them, in units of y; 1 where y is constant."""
    weight = np.ones(len(y)) if weights is None else weights / np.mean(weights)
    return _weighted_sd(y, weight) or 1.0


def _weighted_sd(y: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Return the sd of y in units of the noise of a row of weight 1."""
    seen = weight > 0
    centred = y[seen] - np.average(y[seen], weights=weight[seen])
    return math.sqrt(float(np.sum(weight[seen] * centred**2)) / max(int(seen.sum()) - 1, 1))


def residual_sd(
    y: NDArray[np.float64], design: Design, weight: NDArray[np.float64], *, robust: bool = False
) -> float | None:
    """Compute the residual sd of least squares with intercept; None with too few rows.

    A `robust` one is at most the sd of the normal noise that has the residuals' median absolute value.

    The normal equations are summed over blocks of rows, with standardised columns and missing cells at the
    column's mean, so that a design of a million rows is not copied. Nearly dependent columns count as
    dependent.
    """
    seen = weight > 0
    num_rows = int(seen.sum())
    columns = len(design)
    if columns + 1 >= num_rows and columns > 2000:
        return None
    means = np.zeros(columns)
    scales = np.zeros(columns)
    for j, column in enumerate(design):
        values = column[seen]
        values = values[~np.isnan(values)]
        if len(values) and np.ptp(values) > 0:
            means[j], scales[j] = values.mean(), values.std()
    used = np.flatnonzero(scales > 0)
    gram = np.zeros((len(used) + 2, len(used) + 2))
    y_mean = float(np.average(y[seen], weights=weight[seen]))
    y_scale = max(float(np.ptp(y[seen])), np.finfo(float).tiny)
    many = SUMMED_ROWS * max(READ_CELLS // (SUMMED_ROWS * len(gram)), 1)
    for start in range(0, len(y), SUMMED_ROWS):
        if start % many == 0:
            read = design[used, start : start + many]
        rows = slice(start, start + SUMMED_ROWS)
        block = np.ones((len(used) + 2, len(y[rows])))
        x = read[:, start % many :][:, :SUMMED_ROWS]
        block[1:-1] = np.nan_to_num((x - means[used, None]) / scales[used, None], nan=0.0)
        block[-1] = (y[rows] - y_mean) / y_scale
        gram += (block * weight[rows]) @ block.T
    values, vectors = np.linalg.eigh(gram[:-1, :-1])
    keep = values > values[-1] * 1e-10
    rank = int(keep.sum())
    if num_rows <= rank + 1:
        return None
    projected = vectors[:, keep].T @ gram[:-1, -1]
    squares = gram[-1, -1] - float(np.sum(projected**2 / values[keep]))
    sd = y_scale * math.sqrt(max(squares, 0.0) / (num_rows - rank))
    if robust:
        slopes = vectors[:, keep] @ (projected / values[keep])
        line = np.full(num_rows, slopes[0])
        for slope, k in zip(slopes[1:], used, strict=True):
            line += slope * np.nan_to_num((design[k, seen] - means[k]) / scales[k], nan=0.0)
        sizes = np.sqrt(weight[seen]) * np.abs(y[seen] - y_mean - y_scale * line)
        sd = min(sd, MEDIAN_SIZE * float(np.median(sizes)))
    return sd
