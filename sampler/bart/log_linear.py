"""Leaf models of log-linear forests: their prior and their arrays (docs/maths.md#log-linear-forests)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.kernels.leaf_models import log_linear
from sampler.bart.kernels.leaf_models.log_linear import LogLinear
from sampler.bart.kernels.leaf_models.log_linear_pass import TARGET, log_gamma, tabulate_log_gamma
from sampler.bart.kernels.leaf_models.parts_pass import PARTS
from sampler.bart.kernels.state import Forest
from sampler.bart.kernels.steps import leaf_scale
from sampler.definitions.tree_laws import entries_of_law
from sampler.kernels.jit import address
from sampler.prior import Constants

STEP = 2.0**-20  # grid step of the logarithms of leaf values, and of the probit forest of structural zeros
MOST_LEAVES = 1 << 16
TABLED = 8192  # values of log Gamma in a table: serves leaves with r up to half as large
LARGEST_EXPONENT = 1000  # largest exponent of a scale
FIRST_K = 2.0  # where k is drawn
SPAN, GRID = (0.2, 20.0), 200  # grid of the standard deviation of log f, where k is drawn
TABLES = 32  # tables of log Gamma that a chain keeps


def gamma_prior(log_sd: float, num_trees: int) -> tuple[float, float]:
    """Find the shape and rate of leaves whose product over trees has log mean 0 and this log sd.

    The shape's trigamma function is log_sd^2 / num_trees; its digamma function is the logarithm of the rate.
    """
    from scipy.special import polygamma, psi  # noqa: PLC0415  # slow to import

    variance = log_sd**2 / num_trees
    shape = 1.0 / variance + 0.5
    for _ in range(100):
        step = float((polygamma(1, shape) - variance) / polygamma(2, shape))
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
    of_k = hyperprior_of_k(entries)
    return {
        "offset": 0.0,
        "step": STEP,
        "leaf_sd": float(entries.get("leaf_sd", log_sd / (of_k["k"] * math.sqrt(num_trees)))),
        "nu": 1.0,
        "lambda_": 1.0,
        "sigma_start": 1.0,
        "sigma_fixed": True,
        **{name: float(entries[name]) for name in ("alpha", "beta")},
        "trees": entries_of_law(entries),
        **of_k,
    }


def hyperprior_of_k(entries: Mapping[str, Any]) -> dict[str, float]:
    """Return the constants k, k_df and k_scale for entries of the prior."""
    k, degrees = float(entries.get("k", FIRST_K)), float(entries.get("k_df", 0.0))
    scale = float(entries.get("k_scale", k / math.sqrt(degrees) if degrees else 1.0))
    return {"k": k, "k_df": degrees, "k_scale": scale}


class LeafScale:
    """Scale of the leaves of forests with one prior, drawn on a grid of standard deviations of log f.

    Parameters
    ----------
    log_sd, log_prior
        The grid, increasing, and the log prior of its values up to a constant, float64 [place].
    start
        The value nearest to which it starts.
    num_trees
        Trees of a forest.
    model
        Leaf model of one of the forests; all have its arrays of the prior.

    """

    def __init__(
        self, log_sd: Floats, log_prior: Floats, start: float, num_trees: int, model: LogLinear
    ) -> None:
        laws = [gamma_prior(float(sd), num_trees) for sd in log_sd]
        rows = [(shape, rate, -empty_evidence(shape, rate)) for shape, rate in laws]
        self.grid = np.ascontiguousarray(np.column_stack([*np.array(rows).T, log_prior]).T)
        self._model = model
        self._room = np.zeros(len(log_sd))
        self._tables: dict[int, Floats] = {}
        self.place = np.array([np.argmin(abs(log_sd - start))])

    def fits(self) -> bool:
        """Tell whether the place is on the grid."""
        return bool(0 <= self.place[0] < self.grid.shape[1])

    def apply(self) -> None:
        """Set the prior of the leaf model to that at the present place."""
        place = int(self.place[0])
        shape, rate, less_empty, _ = self.grid[:, place].tolist()
        if place not in self._tables:
            if len(self._tables) == TABLES:
                self._tables.clear()
            self._tables[place] = table_of_log_gamma(shape)
        self._model.leaf_law[:3] = shape, rate, -less_empty
        self._model.log_gamma[:] = self._tables[place]

    def draw(self, forests: Sequence[Forest], random: NDArray[np.uint64]) -> None:
        """Draw the scale given all leaves."""
        sums, before = np.zeros(3), int(self.place[0])
        for forest in forests:
            leaf_scale.add_leaves(forest.num_leaves, forest.leaf, sums)
        self.place[0] = leaf_scale.draw_place(self.grid, sums, self._room, random)
        if self.place[0] != before:
            self.apply()


def scale_by_k(constants: Constants, num_trees: int, model: LogLinear) -> LeafScale | None:
    """Make the scale of leaves whose k is drawn (k_df > 0); None where it is given.

    The standard deviation of log f is `constants.leaf_sd` times the root of the number of trees times
    constants.k / k', where k' is k_scale times a chi variable with k_df degrees of freedom.
    """
    if not constants.k_df:
        return None
    log_sd, start = np.geomspace(*SPAN, GRID), constants.leaf_sd * math.sqrt(num_trees)
    k = constants.leaf_sd * constants.k * math.sqrt(num_trees) / log_sd
    log_prior = constants.k_df * np.log(k) - 0.5 * (k / constants.k_scale) ** 2
    return LeafScale(log_sd, log_prior, start, num_trees, model)


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

    Returns
    -------
    LogLinear
        The parameters and rows of the forest.

    """
    shape, rate = leaves
    return log_linear.LogLinear(
        leaf_law=np.array([shape, rate, empty_evidence(shape, rate), count]),
        noise=noise,
        log_value=np.zeros(num_rows, np.int32),
        part=np.zeros(num_rows),
        weights=weights,
        counted=weights if len(weights) else np.ones(num_rows, np.int32),
        scale=np.ones(1),
        passes=np.array([address(entry) for entry in PARTS], np.int64),
        factors=np.ones(min(MOST_LEAVES, num_rows) + 16),
        log_gamma=table_of_log_gamma(shape),
    )


def empty_evidence(shape: float, rate: float) -> float:
    """Return the log evidence of a leaf without rows, log Gamma(shape) - shape log(rate)."""
    return float(log_gamma(shape)) - shape * math.log(rate)


def table_of_log_gamma(shape: float) -> NDArray[np.float64]:
    """Tabulate log Gamma(shape + k / 2)."""
    table = np.empty(TABLED)
    tabulate_log_gamma(shape, table)
    return table


def scale_for(total: float) -> float:
    """Choose the power of two that parts are multiplied by, for parts of that sum, to be whole numbers."""
    if total <= 0.0:
        return 1.0
    return math.ldexp(1.0, min(TARGET - math.floor(math.log2(total)), LARGEST_EXPONENT))
