"""Noise by row: Geweke's joint-distribution test, and coverage where the noise is known to grow."""

import numpy as np
import pytest

from sampler import fit
from sampler.bart.chain import Chain
from tests.support.chain_driver import f_of
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model
from tests.support.models.precisions import draw_precisions, log_precisions, make_few, spread_of
from tests.support.reports.p_values import ALARM, all_above


def functions_of(model, f, sigma2, log_w, leaves, spread, mean_leaves):
    """Return the functions compared, at the training rows."""
    return {
        "log w at a row": log_w[0],
        "log w at another": log_w[5],
        "log w at a row squared": log_w[0] ** 2,
        "product of log w at two rows": log_w[0] * log_w[5],
        "mean log w": log_w.mean(),
        "spread of log w": log_w.var(),
        "log spread": np.log(spread),
        "log spread squared": np.log(spread) ** 2,
        "log spread x leaves": np.log(spread) * np.mean(leaves),
        "leaves of precisions": np.mean(leaves),
        "leaves of the mean": np.mean(mean_leaves),
        "log sigma2": np.log(sigma2),
        "log sigma2 x log w": np.log(sigma2) * log_w[0],
        "f at a row": f[0],
        "f at a row squared": (f[0] - model.offset) ** 2,
    }


def outcome(model, f, sigma2, log_w, rng):
    """Return outcomes at the training rows."""
    return model.outcome(f[: model.num_rows], sigma2 * np.exp(-log_w), rng)


def prior_draw(model, rng):
    """Return functions of an independent draw from the prior, by the twins."""
    forest, sigma2 = model.draw(rng)
    log_w, leaves, spread = draw_precisions(model, rng)
    mean_leaves = [tree.num_leaves for tree in forest.trees]
    return functions_of(model, forest.f, sigma2, log_w, leaves, spread, mean_leaves)


def joint(rounds, draws, *, weighted, moves="default"):
    """Return the p-values of Geweke's test by function."""
    model = Model("noise", num_rows=24, num_trees=3, weighted=weighted, missing=0.1, moves=moves)
    rng = np.random.default_rng(7)
    prior = [prior_draw(model, rng) for _ in range(draws)]
    y = model.outcome(np.zeros(model.num_rows), 1.0, rng)
    chain = Chain.start(model.training(y, **ENDLESS, noise="forest", seed=3), 0)

    def observe(chain):
        f, sigma2 = f_of(chain), chain.sigma**2
        log_w = log_precisions(chain)
        leaves = [forest.num_leaves for forest in chain._forests]
        values = functions_of(model, f, sigma2, log_w, leaves[1], spread_of(chain), leaves[0])
        return values, outcome(model, f, sigma2, log_w, rng)

    return keeps_joint_law(chain, prior, observe, rounds, left_out=6)


@pytest.fixture
def _few_precisions(monkeypatch):
    make_few(monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("_few_precisions")
@pytest.mark.parametrize(
    ("weighted", "moves"), [(True, "default"), pytest.param(True, "pg", marks=pytest.mark.long)]
)
def test_joint(weighted, moves):
    """Alternating outcomes given the state and a sweep keeps the prior law of functions of the state."""
    all_above(joint(12_000, 4_000, weighted=weighted, moves=moves), ALARM)


@pytest.mark.long
@pytest.mark.usefixtures("_few_precisions")
@pytest.mark.parametrize("moves", ["default", "pg"])
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_long(weighted, moves):
    """Geweke's test of noise by row with many more draws."""
    all_above(joint(96_000, 40_000, weighted=weighted, moves=moves), ALARM)


def test_intervals_hold_where_the_noise_grows():
    """On y = 4 x^2 + e^(2x) / 5 e the 90% intervals cover 85 to 95% in every fifth of x."""
    rng = np.random.default_rng(11)
    X = rng.uniform(size=(10_000, 1))
    y = 4 * X[:, 0] ** 2 + np.exp(2 * X[:, 0]) / 5 * rng.normal(size=10_000)
    short = {"num_trees": 50, "num_chains": 1, "num_burnin": 400, "num_draws": 150, "thin": 2}
    posterior = fit(X[:5000], y[:5000], noise="forest", transform="none", progress=False, **short)
    prediction = posterior.predict(X[5000:])
    inside = (prediction.lower <= y[5000:]) & (y[5000:] <= prediction.upper)
    fifths = np.array_split(np.argsort(X[5000:, 0]), 5)
    held = [inside[rows].mean() for rows in fifths]
    assert all(0.85 <= share <= 0.95 for share in held), held
    assert posterior.score(X[5000:], y[5000:], quick=True)["intervals_verdict"]["verdict"] == "held"
