"""A linear part beside the trees: Geweke's joint-distribution test."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.chain import Chain
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import ALARM, all_above

SCALE = 0.2  # of tau's half-Cauchy prior
GRID = 2.0**-9  # wide enough for its tail


def functions_of(model, f, sigma2, tau, slopes, line, leaves):
    """Return the compared functions; those of the line are bounded or grow slowly: tau has no mean."""
    slow = np.arcsinh(np.array([slopes[0], slopes[1], line[0], line[5], f[0] - model.offset]) / SCALE)
    return {
        "log tau": np.log(tau),
        "log tau squared": np.log(tau / SCALE) ** 2,
        "a slope": slow[0],
        "another slope": slow[1],
        "product of slopes": slow[0] * slow[1],
        "a slope squared": slow[0] ** 2,
        "a slope over tau, squared": min((slopes[1] / tau) ** 2, 20.0),
        "line at a row": slow[2],
        "product of the line at two rows": slow[2] * slow[3],
        "f at a row": slow[4],
        "f at a row squared": slow[4] ** 2,
        "trees at a row squared": (f[0] - line[0] - model.offset) ** 2,
        "trees x line": np.tanh(f[0] - line[0] - model.offset) * slow[2],
        "log sigma2": np.log(sigma2),
        "log sigma2 x log tau": np.log(sigma2) * np.log(tau / SCALE),
        "leaves": np.mean(leaves),
    }


def prior_draw(model, z, rng):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    forest, sigma2 = model.draw(rng)
    tau = SCALE * abs(rng.standard_cauchy())
    slopes = tau * rng.normal(size=len(z))
    line = slopes @ z
    f = forest.f[: model.num_rows] + line
    leaves = [tree.num_leaves for tree in forest.trees]
    return functions_of(model, f, sigma2, tau, slopes, line, leaves)


def joint(rounds, draws, *, weighted):
    """Return the p-values of Geweke's test by function."""
    model = Model("line", num_rows=24, num_trees=3, weighted=weighted, missing=0.1)
    rng = np.random.default_rng(7)
    linear = model.linear_terms(SCALE)
    prior = [prior_draw(model, linear.z, rng) for _ in range(draws)]
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    data = model.training(y, **ENDLESS, linear=True, seed=3)
    data = replace(data, parts={"line": linear}, constants=replace(data.constants, step=GRID))
    chain = Chain.start(data, 0)

    def observe(chain):
        f, sigma2, (tau, *slopes) = f_of(chain), chain.sigma**2, chain._likelihood.outcome.scalars[1:]
        line = np.array(slopes) @ linear.z
        values = functions_of(model, f, sigma2, tau, slopes, line, chain._forests[0].num_leaves)
        return values, model.outcome(f, sigma2, rng)

    return keeps_joint_law(chain, prior, observe, rounds)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [True])
def test_joint(weighted):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(16_000, 6_000, weighted=weighted), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_long(weighted):
    """Geweke's test of the linear part with many more draws."""
    all_above(joint(96_000, 60_000, weighted=weighted), ALARM)
