"""Noise by row: Geweke's joint-distribution test, and coverage where the noise is known to grow."""

import numpy as np
import pytest

from sampler import fit
from tests.support.joint_law import Law, keeps_joint_law
from tests.support.models.precisions import (
    draw_precisions,
    figures_of_noise,
    figures_of_precisions,
    log_precisions,
    make_few,
    spread_of,
)
from tests.support.reports.p_values import ALARM, all_above


class ByRow(Law):
    """States: f at the rows, the noise's variance, leaves; log precisions, their trees' leaves and spread."""

    left_out = 6

    def training(self, y, seed):
        return self.model.training(y, **self.lengths, noise="forest", seed=seed)

    def draw(self, rng):
        return *self.draw_trees(rng), *draw_precisions(self.model, rng)

    def state_of(self, chain):
        of_noise = log_precisions(chain), chain._forests[1].num_leaves, spread_of(chain)
        return *self.trees_of(chain), *of_noise

    def outcome(self, state, rng):
        f, sigma2, _, log_w, *_ = state
        return self.model.outcome(f, sigma2 * np.exp(-log_w), rng)

    def functions(self, state, y):
        f, sigma2, mean_leaves, log_w, leaves, spread = state
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
            "f at a row squared": (f[0] - self.model.offset) ** 2,
        }

    def figures(self, state):
        f, sigma2, _, log_w, _, spread = state
        return figures_of_noise(f, sigma2, log_w) | figures_of_precisions(log_w, spread)


def law(weighted, moves):
    """Return a small model with noise by row."""
    return ByRow("noise", weighted=weighted, missing=0.1, moves=moves)


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
    all_above(keeps_joint_law(law(weighted, moves), 12_000, 4_000), ALARM)


@pytest.mark.long
@pytest.mark.usefixtures("_few_precisions")
@pytest.mark.parametrize("moves", ["default", "pg"])
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_long(weighted, moves):
    """Geweke's test of noise by row with many more draws."""
    all_above(keeps_joint_law(law(weighted, moves), 96_000, 40_000), ALARM)


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
