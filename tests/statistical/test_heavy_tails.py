"""Heavy tails: Geweke's joint-distribution test, with and without noise by row."""

import numpy as np
import pytest

from sampler.bart import student
from sampler.bart.chain import Chain
from sampler.noise import DEGREE_GRID
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.models.precisions import draw_precisions, log_precisions, make_few
from tests.support.reports.p_values import ALARM, all_above


def functions_of(model, f, sigma2, degrees, log_w, leaves):
    """Return the functions that are compared, at the training rows."""
    return {
        "log degrees": np.log(degrees),
        "log degrees squared": np.log(degrees) ** 2,
        "few degrees": float(degrees <= 5),
        "log sigma2": np.log(sigma2),
        "log sigma2 x log degrees": np.log(sigma2) * np.log(degrees),
        "f at a row": f[0],
        "f at a row squared": (f[0] - model.offset) ** 2,
        "log w at a row": log_w[0],
        "log w at a row squared": log_w[0] ** 2,
        "log w x log degrees": log_w[5] * np.log(degrees),
        "leaves": np.mean(leaves),
    }


def outcome(model, f, sigma2, degrees, log_w, rng):
    """Draw outcomes at the training rows."""
    scales = rng.gamma(0.5 * degrees, 2 / degrees, model.num_rows)
    return model.outcome(f[: model.num_rows], sigma2 * np.exp(-log_w) / scales, rng)


def prior_draw(model, law, forest, rng):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    trees, sigma2 = model.draw(rng)
    degrees = rng.choice(DEGREE_GRID, p=law)
    log_w = draw_precisions(model, rng)[0] if forest else np.zeros(model.num_rows)
    leaves = [tree.num_leaves for tree in trees.trees]
    return functions_of(model, trees.f, sigma2, degrees, log_w, leaves)


def joint(rounds, draws, noise):
    """Return the p-values of Geweke's test by function."""
    forest = noise == "t-forest"
    model = Model("tails", num_rows=24, num_trees=3, weighted=True, missing=0.1)
    law = np.exp(student.log_prior())
    rng = np.random.default_rng(7)
    prior = [prior_draw(model, law / law.sum(), forest, rng) for _ in range(draws)]
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    chain = Chain.start(model.training(y, **ENDLESS, noise=noise, seed=3), 0)

    def observe(chain):
        f, sigma2, degrees = f_of(chain), chain.sigma**2, chain._likelihood.outcome.scalars[1]
        log_w = log_precisions(chain) if forest else np.zeros(model.num_rows)
        values = functions_of(model, f, sigma2, degrees, log_w, chain._forests[0].num_leaves)
        return values, outcome(model, f, sigma2, degrees, log_w, rng)

    return keeps_joint_law(chain, prior, observe, rounds, left_out=12)


@pytest.fixture(autouse=True)
def _few_precisions(monkeypatch):
    make_few(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["t-forest"])
def test_joint(noise):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(joint(12_000, 5_000, noise), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("noise", ["t", "t-forest"])
def test_joint_long(noise):
    """Geweke's test of heavy tails with many more draws."""
    all_above(joint(96_000, 50_000, noise), ALARM)
