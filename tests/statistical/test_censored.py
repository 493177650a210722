"""Censored outcomes: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

DRAWS = 63
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


def data_of(model, y, **settings):
    """Make training data of outcomes that are censored."""
    limits = limits_of(y)
    seen = np.where(np.isinf(limits[0]), limits[1], limits[0])
    return replace(model.training(seen, **settings), limits=limits)


def f_of(chain):
    """Return f at the chain's rows, whose latent outcomes stand in the likelihood."""
    constants, rows = chain.training.constants, len(chain.training.y)
    latent = chain._likelihood.outcome.latent[:rows]
    return constants.offset + constants.step * (latent - chain.residual())


def give(chain, y):
    """Replace the outcomes of a running chain, and which of them are censored."""
    assert not chain.done, "a chain that is done stands still: it needs more iterations than the test makes"
    limits = limits_of(y)
    seen = np.where(np.isinf(limits[0]), limits[1], limits[0])
    chain.training = replace(chain.training, y=seen, limits=limits)
    likelihood = chain._likelihood
    likelihood.outcome = likelihood.outcome._replace(
        censored=chain.training.censored, limits=chain.training.grid_limits
    )
    chain._recompute()


def functions_of(model, f, sigma2, leaves):
    """Return the functions that are compared, at the training rows."""
    middle = f[: model.num_rows] - model.offset
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


def prior_draw(model, rng):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    forest, sigma2 = model.draw(rng)
    return functions_of(model, forest.f, sigma2, [tree.num_leaves for tree in forest.trees])


def joint(rounds, draws):
    """Return the p-values of Geweke's test by function."""
    model = Model("censored", num_rows=24, num_trees=3, missing=0.1)
    rng = np.random.default_rng(7)
    prior = [prior_draw(model, rng) for _ in range(draws)]
    y = model.outcome(np.full(model.num_rows, model.offset), 1.0, rng)
    chain = Chain.start(data_of(model, y, **ENDLESS, seed=3), 0)

    def observe(chain):
        f, sigma2 = f_of(chain), chain.sigma**2
        return functions_of(model, f, sigma2, chain._forests[0].num_leaves), model.outcome(f, sigma2, rng)

    return keeps_joint_law(chain, prior, observe, rounds, replace=give)


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, censored, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(16_000, 6_000), ALARM)


@pytest.mark.long
def test_joint_long():
    """Geweke's test of censored outcomes with many more draws."""
    all_above(joint(96_000, 60_000), ALARM)


def ranks_of(model, seed, rng):
    """Return the ranks of the truth among the draws of one replication, by name."""
    forest, sigma2 = model.draw(rng)
    f = forest.f[: model.num_rows]
    y = model.outcome(f, sigma2, rng)
    chain = Chain.start(data_of(model, y, num_draws=DRAWS, thin=20, num_burnin=400, seed=seed), 0)
    chain.run(400)
    states = []
    for _ in range(DRAWS):
        chain.run(20)
        states.append((f_of(chain), chain.sigma))
    drawn = np.array([each[0] for each in states])
    sigma = np.array([each[1] for each in states])
    above = stats.norm.sf((0.5 - drawn[:, 0]) / sigma)
    return {
        "f at a row censored from the right": rank_of(f[0], drawn[:, 0], rng),
        "f at a row in a cell": rank_of(f[1], drawn[:, 1], rng),
        "f at a row censored from the left": rank_of(f[2], drawn[:, 2], rng),
        "mean of f": rank_of(f.mean(), drawn.mean(axis=1), rng),
        "survival at a row": rank_of(stats.norm.sf((0.5 - f[0]) / np.sqrt(sigma2)), above, rng),
        "sigma": rank_of(np.sqrt(sigma2), sigma, rng),
    }


def calibrated(count, bins):
    """Return p-values of the ranks being uniform over replications."""
    model, rng = Model("censored", num_rows=60, num_trees=5), np.random.default_rng(11)
    ranks = [ranks_of(model, seed, rng) for seed in range(count)]
    return uniform_by_name(ranks, DRAWS, bins)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(128, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(768, 16), ALARM)
