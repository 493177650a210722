"""Intercepts of crossed groups: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.training import GroupTraining
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

SCALE = 0.3  # of tau's half-Cauchy prior
CUT = 10.0  # where that ends
SIZES = (4, 3)
DRAWS = 63


def groups_of(model):
    """Put the training rows into two crossed groupings."""
    rng = np.random.default_rng(5)
    index = np.array([rng.integers(0, size, model.num_rows) for size in SIZES], np.int32)
    return GroupTraining(index, SIZES, (SCALE,) * len(SIZES))


def draw_groups(rng):
    """Draw standard deviations, and the intercepts of each grouping, from the prior."""
    tau = SCALE * np.tan(rng.uniform(size=len(SIZES)) * np.arctan(CUT))
    return tau, [sd * rng.normal(size=size) for sd, size in zip(tau, SIZES, strict=True)]


def at_rows(effects, index):
    """Add the intercepts of each row's groups."""
    return sum(own[places] for own, places in zip(effects, index, strict=True))


def functions_of(model, trees, sigma2, tau, effects, leaves):
    """Return the functions that are compared; those of intercepts grow slowly, since tau has a heavy tail."""
    a, b = (np.arcsinh(own / SCALE) for own in effects)
    middle = trees - model.offset
    return {
        "log tau": np.log(tau[0]),
        "log tau squared": np.log(tau[0] / SCALE) ** 2,
        "log of the other tau": np.log(tau[1]),
        "product of log taus": np.log(tau[0] / SCALE) * np.log(tau[1] / SCALE),
        "an intercept": a[0],
        "an intercept squared": a[1] ** 2,
        "product of intercepts": a[0] * a[1],
        "product across": a[0] * b[0],
        "mean of squares over tau^2": min(np.mean(effects[0] ** 2) / tau[0] ** 2, 20.0),
        "trees at a row": middle[0],
        "trees at a row squared": middle[0] ** 2,
        "trees x intercepts' mean": np.tanh(middle.mean()) * a.mean(),
        "log sigma2": np.log(sigma2) if sigma2 != 1 else 0.0,
        "log sigma2 x log tau": np.log(sigma2) * np.log(tau[0] / SCALE),
        "leaves": np.mean(leaves),
    }


def prior_draw(model, rng):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    forest, sigma2 = model.draw(rng)
    tau, effects = draw_groups(rng)
    leaves = [tree.num_leaves for tree in forest.trees]
    return functions_of(model, forest.f[: model.num_rows], sigma2, tau, effects, leaves)


def state_of(chain):
    """Return the standard deviations and intercepts of a chain, in units of y."""
    likelihood = chain._likelihood
    effects = chain.training.constants.step * likelihood.parts["groups"].effects
    return likelihood.outcome.scalars[1:3].copy(), np.split(effects, SIZES[:1])


def joint(rounds, draws, options):
    """Return the p-values of Geweke's test by function."""
    model = Model("groups", num_rows=24, num_trees=3, missing=0.1, **options)
    rng = np.random.default_rng(7)
    groups = groups_of(model)
    prior = [prior_draw(model, rng) for _ in range(draws)]
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    data = model.training(y, **ENDLESS, seed=3)
    chain = Chain.start(replace(data, parts={"groups": groups}), 0)

    def observe(chain):
        f, sigma2, (tau, effects) = f_of(chain), chain.sigma**2, state_of(chain)
        trees = f - at_rows(effects, groups.index)
        sigma2 = 1.0 if model.family == "probit" else sigma2
        values = functions_of(model, trees, sigma2, tau, effects, chain._forests[0].num_leaves)
        return values, model.outcome(f, sigma2, rng)

    return keeps_joint_law(chain, prior, observe, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"weighted": True}, {"number": "poisson"}], ids=str)
def test_joint(options):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(16_000, 6_000, options), ALARM)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"weighted": True}, {"family": "probit"}, {"weighted": True, "moves": "pg"}),
        *({"number": "uniform"}, {"family": "probit", "number": "geometric"}),
    ],
    ids=str,
)
def test_joint_long(options):
    """Geweke's test of groups with many more draws."""
    all_above(joint(96_000, 60_000, options), ALARM)


def ranks_of(model, groups, seed, rng):
    """Return the ranks of the truth among the draws of one replication, by name."""
    forest, sigma2 = model.draw(rng)
    tau, effects = draw_groups(rng)
    f = forest.f[: model.num_rows] + at_rows(effects, groups.index)
    y = model.outcome(f, sigma2, rng)
    data = model.training(y, num_draws=DRAWS, thin=20, num_burnin=600, seed=seed)
    chain = Chain.start(replace(data, parts={"groups": groups}), 0)
    chain.run(chain.iterations)
    draws = chain.take()
    drawn = data.constants.step * draws.forests["groups"].leaf.reshape(DRAWS, -1)
    of_rows = at_rows(np.split(drawn.T, SIZES[:1]), groups.index)
    return {
        "tau": rank_of(tau[0], draws.scalars["group_sd_0"], rng),
        "the other tau": rank_of(tau[1], draws.scalars["group_sd_1"], rng),
        "an intercept": rank_of(effects[0][1], drawn[:, 1], rng),
        "difference of intercepts": rank_of(effects[1][0] - effects[1][1], drawn[:, 4] - drawn[:, 5], rng),
        "intercepts of a row": rank_of(at_rows(effects, groups.index)[0], of_rows[0], rng),
        "sigma": rank_of(np.sqrt(sigma2), draws.sigma, rng),
    }


def calibrated(count, bins):
    """Return p-values of the ranks being uniform over replications."""
    model = Model("groups", num_rows=60, num_trees=5)
    groups, rng = groups_of(model), np.random.default_rng(11)
    ranks = [ranks_of(model, groups, seed, rng) for seed in range(count)]
    return uniform_by_name(ranks, DRAWS, bins)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(64, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(512, 16), ALARM)
