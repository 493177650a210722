"""Prior of Chipman, George and McCulloch (2010), calibrated to data or given in absolute constants.

The mathematics: docs/maths.md#leaf-prior, docs/maths.md#noise-prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sampler.data.schema import Schema
from sampler.definitions.design import Design
from sampler.definitions.prior import ABSOLUTE
from sampler.definitions.recipes import prior_of_recipe
from sampler.definitions.tree_laws import LAW_SETTINGS, check_law, entries_of_law
from sampler.errors import SettingsError
from sampler.families import FAMILIES
from sampler.noise import NOISES
from sampler.prior import (
    SIGMA_FLOOR,
    Constants,
    check_entries,
    chi2_quantile,
    estimate_sigma,
    range_of,
)
from sampler.settings import Settings
from sampler.training import LEAST_UNITS, Training

GRID_BITS = 20  # grid steps in the range of y
FINEST_BITS = 25  # a finer grid would leave a residual no room in its 32 bits
STEPS_PER_SD = 16  # grid steps in the standard deviation of the best known leaf

DEFAULTS: dict[str, Any] = {
    "k": 2.0,
    "alpha": 0.95,
    "beta": 2.0,
    "nu": 3.0,
    "q": 0.9,
    "sigma_estimate": "linear",
    "sparse": False,
}
# of a hyperprior: k = k_scale x chi(k_df); theta / (theta + rho) ~ Beta(a, b), or theta known
HYPER = ("k_df", "k_scale", "sparse_a", "sparse_b", "sparse_rho", "sparse_theta")
NUMBER = ("num_trees", "num_trees_mean")  # of the number of trees, where it is drawn
OF_ANOTHER = {"k_scale": "k_df", "num_trees_mean": "num_trees: poisson or geometric"}
PROBIT_REACH = 8.0  # range of the latent outcomes, in standard deviations of their noise
FARTHEST_LATENT = 6.0  # how far latent outcomes may lie beyond their limits, in the same unit


def calibrate(
    y: NDArray[np.float64],
    design: Design,
    weights: NDArray[np.float64] | None,
    settings: Settings,
    prior: Mapping[str, Any] | None = None,
    _codes: NDArray[np.uint8] | None = None,
    line: NDArray[np.float64] | None = None,
    noise: float | None = None,
    sigma_of: Callable[..., float] = estimate_sigma,
    finer: float = 1.0,
) -> Constants:
    """Calibrate the prior to data.

    Parameters
    ----------
    y
        float64 [n], finite.
    design
        float64 [p, n], NaN where missing; used by the linear sigma estimate only.
    weights
        float64 [n] or None.
    settings
        The number of trees enters the leaf prior.
    prior
        Any of k, alpha, beta, nu, q, sigma_estimate ("linear" or "naive"), or instead of what the data would
        scale, in units of y: offset, leaf_sd, lambda, sigma (known noise), sigma_start (first state of the
        chain), step (the grid). k_df and k_scale: k = k_scale chi(k_df) is drawn, E[k^2] = k^2 unless k_scale
        is given; of numbers it is unless k, k_df or leaf_sd is given. sparse: the columns' shares are drawn
        (DART), with sparse_a, sparse_b, sparse_rho (the number of coded columns unless given) or a known
        sparse_theta. num_trees: their number, up to that of the settings, is drawn, with num_trees_mean.
        trees: the prior of trees (`sampler.definitions.tree_laws`), with entries of its own.
    line
        Rough estimate of a linear part, float64 [n], or None: the leaf prior spans what it leaves of y.
    noise
        Estimate of sigma where y is censored (`sampler.data.censoring.regression`); None: found from y.
    sigma_of
        Estimates it from y, as `estimate_sigma`, which may be known already.
    finer
        Factor by which the grid must be finer than for leaves of f.

    Returns
    -------
    Constants
        The constants of the family.

    Raises
    ------
    SettingsError
        For an unknown key or a value out of range, naming what is accepted.

    """
    entries = check_prior(prior, settings)
    if own := FAMILIES[settings.family].calibrate:
        constants: Constants = resolve_name(own)(y, design, weights, settings, entries)
        return constants
    num_columns = len(design)
    rest = y if line is None else y - line
    low, high = float(np.min(rest)), float(np.max(rest))
    spread = high - low if high > low else 1.0
    offset = entries.get("offset", low + 0.5 * (high - low))
    k = entries.get("k", DEFAULTS["k"])  # where k is drawn, its first value
    leaf_sd = entries.get("leaf_sd", 0.5 * spread / (k * math.sqrt(expected_trees(entries, settings))))
    sigma_fixed = "sigma" in entries
    if sigma_fixed:
        lambda_ = entries["sigma"] ** 2
        sigma_start = entries["sigma"]
    else:
        robust = not NOISES[settings.noise].is_normal
        estimate = noise or sigma_of(y, design, weights, entries, robust=robust)
        estimate = max(estimate, SIGMA_FLOOR * range_of(y, weights, spread))
        lambda_ = entries.get(
            "lambda", estimate**2 * chi2_quantile(1 - entries["q"], entries["nu"]) / entries["nu"]
        )
        sigma_start = entries.get("sigma_start", estimate)
    low, high = float(np.min(y)), float(np.max(y))
    reach = max(spread, abs(high - offset), abs(low - offset), leaf_sd, FARTHEST_LATENT * (noise or 0.0))
    known = (len(y) if weights is None else float(np.sum(weights))) * finer**2
    return Constants(
        offset=float(offset),
        step=float(entries.get("step", grid_step(reach, sigma_start, known))),
        leaf_sd=float(leaf_sd),
        nu=float(entries["nu"]),
        lambda_=float(lambda_),
        sigma_start=float(sigma_start),
        sigma_fixed=sigma_fixed,
        alpha=float(entries["alpha"]),
        beta=float(entries["beta"]),
        **_hyperpriors(entries, num_columns),
        **_number(entries, settings),
    )


def calibrate_probit(
    y: NDArray[np.float64],
    design: Design,
    weights: NDArray[np.float64] | None,  # noqa: ARG001
    settings: Settings,
    entries: Mapping[str, Any],
) -> Constants:
    """P(y = 1) = Phi(offset + f), noise 1: nothing is scaled from y but the offset (docs/maths.md#probit)."""
    num_columns = len(design)
    k = entries.get("k", DEFAULTS["k"])
    leaf_sd = entries.get("leaf_sd", 3.0 / (k * math.sqrt(expected_trees(entries, settings))))
    reach = max(PROBIT_REACH, leaf_sd)
    return Constants(
        offset=float(entries.get("offset", ndtri(_share_of_ones(y)))),
        step=float(entries.get("step", 2.0 ** (math.ceil(math.log2(reach)) - GRID_BITS))),
        leaf_sd=float(leaf_sd),
        nu=float(DEFAULTS["nu"]),
        lambda_=1.0,
        sigma_start=1.0,
        sigma_fixed=True,
        alpha=float(entries["alpha"]),
        beta=float(entries["beta"]),
        **_hyperpriors(entries, num_columns),
        **_number(entries, settings),
    )


def _share_of_ones(y: NDArray[np.float64]) -> float:
    """Return the share of ones, half a row away from 0 and 1 at least."""
    edge = 0.5 / len(y)
    return min(max(float(np.mean(y)), edge), 1 - edge)


def with_offsets(constants: Constants, y: NDArray[np.float64], offsets: NDArray[np.float64]) -> Constants:
    """Return constants whose offset, with those of the rows, expects the share of ones that y has.

    One that the prior was given stays.
    """
    from scipy.optimize import brentq  # noqa: PLC0415  # slow to import

    share = _share_of_ones(y)
    if constants.offset != float(ndtri(share)):
        return constants
    reach = 1 + float(np.abs(offsets).max()) + abs(constants.offset)
    expected = brentq(lambda offset: float(np.mean(ndtr(offset + offsets))) - share, -reach, reach)
    return replace(constants, offset=float(expected))


def _hyperpriors(entries: Mapping[str, Any], num_columns: int) -> dict[str, Any]:
    """Resolve the constants of the hyperpriors, even where they are off, and the prior of trees."""
    k, degrees = float(entries.get("k", DEFAULTS["k"])), float(entries.get("k_df", 0.0))
    return {
        "k": k,
        "k_df": degrees,
        "k_scale": float(entries.get("k_scale", k / math.sqrt(degrees) if degrees else 1.0)),
        "sparse": bool(entries["sparse"]),
        "sparse_a": float(entries.get("sparse_a", 0.5)),
        "sparse_b": float(entries.get("sparse_b", 1.0)),
        "sparse_rho": float(entries.get("sparse_rho", num_columns)),
        "sparse_theta": float(entries.get("sparse_theta", 0.0)),
        "trees": entries_of_law(entries),
    }


def law_of_number(kind: str, mean: float, places: int) -> NDArray[np.float64]:
    """Compute the law of the number of trees, float64 [places + 1]: "poisson", .. of that mean, cut there."""
    from scipy.special import gammaln  # noqa: PLC0415  # slow to import

    number = np.arange(places + 1)
    if kind == "poisson":
        log_law = number * math.log(mean) - gammaln(number + 1)
    else:
        log_law = number * (math.log(mean / (1 + mean)) if kind == "geometric" else 0.0)
    law = np.exp(log_law - np.max(log_law))
    return np.asarray(law / law.sum())


def _number(entries: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Resolve the prior of the number of trees, {} where it is given: its mean is half of the places'."""
    if not (kind := entries.get("num_trees")):
        return {}
    return {"num_trees": kind, "num_trees_mean": entries.get("num_trees_mean", settings.num_trees / 2)}


def expected_trees(entries: Mapping[str, Any], settings: Settings) -> float:
    """Return the number of trees, where it is drawn its prior mean, but at least 1."""
    if not (number := _number(entries, settings)):
        return settings.num_trees
    law = law_of_number(number["num_trees"], number["num_trees_mean"], settings.num_trees)
    return max(float(law @ np.arange(len(law))), 1.0)


def grid_step(reach: float, sigma: float, rows: float) -> float:
    """Step of the grid of residuals and leaf values, a power of two: scaling y by one changes no bit.

    2^20 steps to the reach of y, finer where a leaf that holds every row would be known to few steps. `rows`
    is their number, or the sum of their weights.
    """
    exponent = math.floor(math.log2(reach)) - GRID_BITS
    sharp = math.floor(math.log2(sigma / (STEPS_PER_SD * math.sqrt(rows))))
    return 2.0 ** max(min(exponent, sharp), math.floor(math.log2(reach)) - FINEST_BITS + 1)


def _known_to(family: str) -> dict[str, Any]:
    known = FAMILIES[family].prior or tuple(DEFAULTS)
    return {name: value for name, value in DEFAULTS.items() if name in known}


def check_prior(prior: Mapping[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Check the entries of the prior, and add the defaults of the others that the family knows.

    The defaults of some families have k_df and k_scale instead of k, unless k, k_df or leaf_sd is given;
    with monotone features shares of columns are drawn (sparse).

    Returns
    -------
    dict
        Every entry of the prior, by name.

    Raises
    ------
    SettingsError
        For an unknown key or a value out of range, naming what is accepted.

    """
    family = settings.family
    given = prior or {}
    prior = prior_of_recipe(settings.recipe, family, prior)
    point = ("point",) if FAMILIES[family].point else ()
    checked = check_entries(prior, (*DEFAULTS, *LAW_SETTINGS, *ABSOLUTE, *HYPER, *NUMBER, *point))
    check_law({name: value for name, value in given.items() if DEFAULTS.get(name) != value})  # resolved too
    needless = [name for name in (*HYPER, *NUMBER) if name in checked and not _is_used(name, checked)]
    if needless:
        first = OF_ANOTHER.get(needless[0], "sparse: true")
        raise SettingsError(
            f"prior {needless[0]} has a meaning only with {first}",
            field=f"prior.{needless[0]}",
            code="not_applicable",
        )
    drawn_k = () if checked.keys() & {"k", "k_df", "leaf_sd"} else FAMILIES[family].drawn_k
    entries = _known_to(family) | dict(zip(("k_df", "k_scale"), drawn_k, strict=False))
    if settings.monotone:  # a rise is expected of every such feature that trees split on
        entries["sparse"] = True
    entries |= checked
    if "k_scale" in entries and "k" not in checked:
        del entries["k"]  # it would change nothing
    return entries


def _is_used(name: str, entries: Mapping[str, Any]) -> bool:
    if name in NUMBER:
        return name == "num_trees" or entries.get("num_trees") in ("poisson", "geometric")
    return name == "k_df" or ("k_df" in entries if name == "k_scale" else bool(entries.get("sparse")))


def weight_warnings(training: Training, _schema: Schema) -> list[str]:
    """Warn about weights far smaller than the largest: sums of trees add them up as whole numbers."""
    if not training.unweighed.any():
        return []
    assert training.weights is not None
    many, least = int(training.unweighed.sum()), LEAST_UNITS * training.weight_unit
    largest = float(training.weights.max())
    return [
        f"weights: {many} of {len(training.y)} rows ({many / len(training.y):.1%}) count as weight 0, since "
        f"weights below {least:.3g} can't be told from 0 beside {largest:.3g}, the largest: where only such "
        "rows are, f is what the prior says, and sigma is that of the others"
    ]
