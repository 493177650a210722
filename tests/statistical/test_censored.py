"""Censored outcomes: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.reports.p_values import ALARM, all_above

THIRDS = 3  # of the rows: censored from the right, known to be in a cell, censored from the left


def limits_of(y):
    """Censor outcomes by a design that doesn't depend on them: beyond .5, by cells of width .8, below 0."""
    part = np.arange(len(y)) % THIRDS
    low, high = y.copy(), y.copy()
    right, cells, left = (part == 0) & (y > 0.5), part == 1, (part == 2) & (y < 0)
    low[right], high[right] = 0.5, np.inf
    low[cells] = 0.8 * np.floor(y[cells] / 0.8)
    high[cells] = low[cells] + 0.8
    low[left], high[left] = -np.inf, 0.0
    return np.stack([low, high])


def seen_of(limits):
    """Return what is seen of outcomes by their limits."""
    return np.where(np.isinf(limits[0]), limits[1], limits[0])


class Censored(Law):
    """States: f at the rows, the noise's variance and the trees' leaves."""

    def training(self, y, seed):
        limits = limits_of(y)
        return replace(super().training(seen_of(limits), seed), limits=limits)

    def first(self, rng):
        rows = self.model.num_rows
        return self.model.outcome(np.full(rows, self.model.offset), 1.0, rng)

    def replace(self, chain, y):
        """Replace the outcomes of a running chain, and which of them are censored."""
        assert not chain.done, "a chain that is done stands still: it needs more iterations than the test has"
        limits = limits_of(y)
        chain.training = replace(chain.training, y=seen_of(limits), limits=limits)
        likelihood = chain._likelihood
        likelihood.outcome = likelihood.outcome._replace(
            censored=chain.training.censored, limits=chain.training.grid_limits
        )
        chain._recompute()

    def draw(self, rng):
        return self.draw_trees(rng)

    def state_of(self, chain):
        """Return the state; latent outcomes stand in the likelihood."""
        constants, rows = chain.training.constants, self.model.num_rows
        latent = chain._likelihood.outcome.latent[:rows]
        f = constants.offset + constants.step * (latent - chain.residual())
        return f, chain.sigma**2, chain._forests[0].num_leaves

    def functions(self, state, y):
        f, sigma2, leaves = state
        middle = f - self.model.offset
        return {
            "log sigma2": np.log(sigma2),
            "log sigma2 squared": np.log(sigma2) ** 2,
            "f at a row censored from the right": middle[0],
            "its square": middle[0] ** 2,
            "f at a row in a cell": middle[1],
            "f at a row censored from the left": middle[2],
            "product of two": middle[0] * middle[2],
            "mean of f": middle.mean(),
            "survival at a row": stats.norm.sf((0.5 - f[0]) / np.sqrt(sigma2)),
            "sigma2 x f": np.log(sigma2) * middle[0],
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        f, sigma2, _ = state
        return {
            "f at a row censored from the right": f[0],
            "f at a row in a cell": f[1],
            "f at a row censored from the left": f[2],
            "mean of f": f.mean(),
            "survival at a row": stats.norm.sf((0.5 - f[0]) / np.sqrt(sigma2)),
            "sigma": np.sqrt(sigma2),
        }


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, censored, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Censored("censored", missing=0.1), 16_000, 6_000), ALARM)


@pytest.mark.long
def test_joint_long():
    """Geweke's test of censored outcomes with many more draws."""
    all_above(keeps_joint_law(Censored("censored", missing=0.1), 96_000, 60_000), ALARM)


def ranks(count, bins):
    """Return the p-values of calibration."""
    return calibrated(Censored("censored", 60, 5), count, bins, burnin=400, thin=20)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(ranks(128, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(ranks(768, 16), ALARM)
