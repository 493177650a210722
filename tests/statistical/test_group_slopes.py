"""Slopes of crossed groups: Geweke's joint-distribution test, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from sampler.training import GroupTraining
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

SCALE = 0.3  # of the standard deviations' half-Cauchy prior
CUT = 10.0  # where that ends
SIZES = (4, 3)
SLOPES = 2
TERMS = 1 + SLOPES
DRAWS = 63


def groups_of(model):
    """Put the training rows into two crossed groupings, with two numbers that have slopes."""
    rng = np.random.default_rng(5)
    index = np.array([rng.integers(0, size, model.num_rows) for size in SIZES], np.int32)
    z = rng.normal(size=(SLOPES, model.num_rows))
    return GroupTraining(index, SIZES, (SCALE,) * len(SIZES), z, (None,) * SLOPES)


def draw_correlations(rng):
    """Draw a correlation matrix from all with equal density, by rejection."""
    below = np.tril_indices(TERMS, -1)
    while True:
        correlations = np.eye(TERMS)
        correlations[below] = rng.uniform(-1, 1, len(below[0]))
        correlations += np.tril(correlations, -1).T
        if np.linalg.eigvalsh(correlations)[0] > 0:
            return correlations


def draw_groups(rng):
    """Draw standard deviations, correlations and effects [term, group] of each grouping from the prior."""
    tau = SCALE * np.tan(rng.uniform(size=(len(SIZES), TERMS)) * np.arctan(CUT))
    correlations = [draw_correlations(rng) for _ in SIZES]
    effects = [
        sd[:, None] * np.linalg.cholesky(own) @ rng.normal(size=(TERMS, size))
        for sd, own, size in zip(tau, correlations, SIZES, strict=True)
    ]
    return tau, correlations, effects


def at_rows(effects, groups):
    """Add the intercepts of each row's groups, and their slopes times its numbers."""
    terms = np.concatenate([np.ones((1, groups.z.shape[1])), groups.z])
    return sum(
        (own[:, places] * terms).sum(axis=0) for own, places in zip(effects, groups.index, strict=True)
    )


def functions_of(model, trees, sigma2, state, leaves):
    """Return the compared functions; those of effects grow slowly: standard deviations have heavy tails."""
    tau, correlations, effects = state
    a, b = (np.arcsinh(own / SCALE) for own in effects)
    middle = trees - model.offset
    logs = np.log(tau / SCALE)
    return {
        "log sd of intercepts": logs[0, 0],
        "log sd of slopes": logs[0, 1],
        "log sd of slopes squared": logs[0, 2] ** 2,
        "log sd of the other slopes": logs[1, 1],
        "correlation with the intercept": correlations[0][1, 0],
        "that squared": correlations[0][1, 0] ** 2,
        "correlation of slopes": correlations[0][2, 1],
        "that of slopes squared": correlations[0][2, 1] ** 2,
        "product of correlations": correlations[0][2, 1] * correlations[0][2, 0] * correlations[0][1, 0],
        "correlation of the other slopes": correlations[1][2, 0],
        "an intercept squared": a[0, 0] ** 2,
        "a slope": a[1, 0],
        "a slope squared": b[2, 1] ** 2,
        "slope x intercept x correlation": a[1, 0] * a[0, 0] * correlations[0][1, 0],
        "product across": a[1, 0] * b[1, 0],
        "trees at a row squared": middle[0] ** 2,
        "trees x slopes' mean": np.tanh(middle.mean()) * a[1].mean(),
        "log sigma2": np.log(sigma2) if sigma2 != 1 else 0.0,
        "log sigma2 x log sd": np.log(sigma2) * logs[0, 1],
        "leaves": np.mean(leaves),
    }


def prior_draw(model, rng):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    forest, sigma2 = model.draw(rng)
    leaves = [tree.num_leaves for tree in forest.trees]
    return functions_of(model, forest.f[: model.num_rows], sigma2, draw_groups(rng), leaves)


def state_of(chain):
    """Return standard deviations, correlations and effects of a chain, in units of y."""
    likelihood, count = chain._likelihood, TERMS + TERMS * (TERMS - 1) // 2
    tau, correlations = [], []
    for part in likelihood.parts["groups"]._parts:
        scalars = likelihood.outcome.scalars[part.place : part.place + count]
        factor, at = np.zeros((TERMS, TERMS)), TERMS
        for i in range(TERMS):
            for j in range(i):
                factor[i, j] = scalars[at] * np.sqrt(1 - np.sum(factor[i, :j] ** 2))
                at += 1
            factor[i, i] = np.sqrt(1 - np.sum(factor[i, :i] ** 2))
        tau.append(scalars[:TERMS])
        correlations.append(factor @ factor.T)
    step = chain.training.constants.step
    effects = [step * part.effect for part in likelihood.parts["groups"]._parts]
    return np.array(tau), correlations, effects


def joint(rounds, draws, options):
    """Return the p-values of Geweke's test by function."""
    model = Model("group slopes", num_rows=24, num_trees=3, missing=0.1, **options)
    rng = np.random.default_rng(7)
    groups = groups_of(model)
    prior = [prior_draw(model, rng) for _ in range(draws)]
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    data = model.training(y, **ENDLESS, seed=3)
    chain = Chain.start(replace(data, parts={"groups": groups}), 0)

    def observe(chain):
        f, sigma2, state = f_of(chain), chain.sigma**2, state_of(chain)
        trees = f - at_rows(state[2], groups)
        sigma2 = 1.0 if model.family == "probit" else sigma2
        values = functions_of(model, trees, sigma2, state, chain._forests[0].num_leaves)
        return values, model.outcome(f, sigma2, rng)

    return keeps_joint_law(chain, prior, observe, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"family": "probit"}], ids=str)
def test_joint(options):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(9_000, 4_000, options), ALARM)


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{}, {"weighted": True}, {"family": "probit"}, {"number": "poisson"}], ids=str
)
def test_joint_long(options):
    """Geweke's test of slopes by group with many more draws."""
    all_above(joint(90_000, 40_000, options), ALARM)


def ranks_of(model, groups, seed, rng):
    """Return the ranks of the truth among the draws of one replication, by name."""
    forest, sigma2 = model.draw(rng)
    tau, correlations, effects = draw_groups(rng)
    f = forest.f[: model.num_rows] + at_rows(effects, groups)
    y = model.outcome(f, sigma2, rng)
    data = model.training(y, num_draws=DRAWS, thin=20, num_burnin=600, seed=seed)
    chain = Chain.start(replace(data, parts={"groups": groups}), 0)
    chain.run(chain.iterations)
    draws = chain.take()
    drawn = data.constants.step * draws.forests["groups"].leaf.reshape(DRAWS, -1)
    first = drawn[:, : TERMS * SIZES[0]].reshape(DRAWS, TERMS, SIZES[0])
    return {
        "sd of slopes": rank_of(tau[0][1], draws.scalars["group_sd_0_1"], rng),
        "sd of the other intercepts": rank_of(tau[1][0], draws.scalars["group_sd_1"], rng),
        "correlation": rank_of(correlations[0][1, 0], draws.scalars["group_partial_0_1_0"], rng),
        "a slope": rank_of(effects[0][1, 1], first[:, 1, 1], rng),
        "difference of slopes": rank_of(
            effects[0][2, 0] - effects[0][2, 1], first[:, 2, 0] - first[:, 2, 1], rng
        ),
        "sigma": rank_of(np.sqrt(sigma2), draws.sigma, rng),
    }


def calibrated(count, bins):
    """Return p-values of the ranks being uniform over replications."""
    model = Model("group slopes", num_rows=60, num_trees=5)
    groups, rng = groups_of(model), np.random.default_rng(11)
    ranks = [ranks_of(model, groups, seed, rng) for seed in range(count)]
    return uniform_by_name(ranks, DRAWS, bins)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform."""
    all_above(calibrated(48, 8), ALARM)


@pytest.mark.long
def test_calibrated_long():
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(512, 16), ALARM)
