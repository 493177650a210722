"""Hyperparameters: k of the leaf prior, drawn at the end of a sweep, and the columns' shares (DART)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.kernels import hyperpriors as hyper
from sampler.bart.kernels.leaf_models.normal import Normal
from sampler.bart.kernels.particles.layout import Swarm
from sampler.bart.kernels.state import Forest, Work
from sampler.bart.particle_gibbs import FIRST_NODES, make_swarm
from sampler.kernels.arrays import Data
from sampler.prior import Constants
from sampler.training import Training

ROUNDING = 1e-6  # of a sum of shares
GRID = 200  # points of theta, evenly spaced in theta / (theta + rho)
GROUP = "hyper"  # group of compiled kernels, see `sampler.kernels.groups`


def drawn(constants: Constants) -> bool:
    """Whether any is drawn."""
    return constants.k_df > 0 or constants.sparse


def theta_grid(constants: Constants, num_columns: int) -> Floats:
    """[theta / p; log prior + log normaliser of the Dirichlet], a column a point of theta.

    theta / (theta + rho) is Beta(a, b) on the midpoints of even cells; one point where theta is known.
    """
    from scipy.special import gammaln  # noqa: PLC0415  # slow to import

    if constants.sparse_theta > 0:
        theta, log_prior = np.array([constants.sparse_theta]), np.zeros(1)
    else:
        share = (np.arange(GRID) + 0.5) / GRID
        theta = constants.sparse_rho * share / (1 - share)
        a, b = constants.sparse_a, constants.sparse_b
        log_prior = (a - 1) * np.log(share) + (b - 1) * np.log1p(-share)
    normaliser = gammaln(theta) - num_columns * gammaln(theta / num_columns)
    return np.stack([theta / num_columns, log_prior + normaliser])


class Hyper:
    """Hyperparameters of one chain; all of their state is in its checkpoint."""

    def __init__(self, data: Data, training: Training) -> None:
        constants = training.constants
        self._constants = constants
        columns = len(data.codes)
        self._log_share = np.full(columns, -math.log(columns))
        self._swarm: Swarm | None = None
        self._grid = theta_grid(constants, columns) if constants.sparse else np.zeros((2, 0))
        self._theta = np.array([float(len(self._grid[0]) // 2)])  # place on the grid

    @property
    def shares(self) -> Floats:
        """The columns' probabilities, float64 [p]."""
        shares: Floats = np.exp(self._log_share)
        return shares

    def with_shares(self, forest: Forest) -> Forest:
        """Return the forest with an array for the shares, if they are drawn."""
        if not self._constants.sparse:
            return forest
        shares = np.zeros((2, len(self._log_share)))
        return forest._replace(prior=forest.prior._replace(shares=shares))

    def set_shares(self, forest: Forest) -> None:
        """Copy the present shares to the forest's prior."""
        if self._constants.sparse:
            hyper.set_shares(forest.prior.shares, self._log_share)

    def step(self, data: Data, forest: Forest, work: Work) -> None:
        """Draw the shares and theta given the forest."""
        shares = hyper.ShareTables(self._log_share, *np.zeros((3, len(self._log_share))))
        theta, swarm = int(self._theta[0]), self._room(int(forest.num_leaves.max()), data)
        self._theta[0] = hyper.draw_shares(data, forest, work, swarm, shares, self._grid, theta)

    def state(self, model: Normal) -> list[NDArray[Any]]:
        """Values that a checkpoint holds, as views."""
        return [model.variance[:1], self._theta, self._log_share]

    def fits(self, model: Normal) -> bool:
        """Tell whether a restored state is one that draws leave: a place on the grid, shares that add up."""
        place = float(self._theta[0])
        on_grid = place.is_integer() and 0 <= place < max(self._grid.shape[1], 1)
        return on_grid and model.variance[0] > 0 and abs(float(np.sum(self.shares)) - 1) < ROUNDING

    def _room(self, leaves: int, data: Data) -> Swarm:

        if self._swarm is None or 2 * leaves > self._swarm.node.shape[1]:
            self._swarm = make_swarm(data, 1, max(4 * leaves, FIRST_NODES))
        return self._swarm
