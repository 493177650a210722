"""Heavy tails: Geweke's joint-distribution test, with and without noise by row."""

import numpy as np
import pytest

from sampler.bart import student
from sampler.noise import DEGREE_GRID
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


class Tails(Law):
    """States: f at the rows, the noise's variance, leaves, degrees of freedom, log precisions and spread."""

    left_out = 12

    def __init__(self, noise, *sizes, **options):
        super().__init__("tails", *sizes, **options)
        self.noise = noise
        law = np.exp(student.log_prior())
        self.law = law / law.sum()

    def training(self, y, seed):
        return self.model.training(y, **self.lengths, noise=self.noise, seed=seed)

    def draw(self, rng):
        trees = self.draw_trees(rng)
        degrees, of_noise = rng.choice(DEGREE_GRID, p=self.law), (np.zeros(self.model.num_rows), 1.0)
        if self.noise == "t-forest":
            log_w, _, spread = draw_precisions(self.model, rng)
            of_noise = log_w, spread
        return *trees, degrees, *of_noise

    def state_of(self, chain):
        of_noise = np.zeros(self.model.num_rows), 1.0
        if self.noise == "t-forest":
            of_noise = log_precisions(chain), spread_of(chain)
        return *self.trees_of(chain), chain._likelihood.outcome.scalars[1], *of_noise

    def outcome(self, state, rng):
        f, sigma2, _, degrees, log_w, _ = state
        scales = rng.gamma(0.5 * degrees, 2 / degrees, self.model.num_rows)
        return self.model.outcome(f, sigma2 * np.exp(-log_w) / scales, rng)

    def functions(self, state, y):
        f, sigma2, leaves, degrees, log_w, _ = state
        return {
            "log degrees": np.log(degrees),
            "log degrees squared": np.log(degrees) ** 2,
            "few degrees": float(degrees <= 5),
            "log sigma2": np.log(sigma2),
            "log sigma2 x log degrees": np.log(sigma2) * np.log(degrees),
            "f at a row": f[0],
            "f at a row squared": (f[0] - self.model.offset) ** 2,
            "log w at a row": log_w[0],
            "log w at a row squared": log_w[0] ** 2,
            "log w x log degrees": log_w[5] * np.log(degrees),
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        f, sigma2, _, degrees, log_w, spread = state
        by_row = figures_of_precisions(log_w, spread) if self.noise == "t-forest" else {}
        return figures_of_noise(f, sigma2, log_w) | {"degrees": degrees} | by_row


@pytest.fixture(autouse=True)
def _few_precisions(monkeypatch):
    make_few(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["t-forest"])
def test_joint(noise):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Tails(noise, weighted=True, missing=0.1), 12_000, 5_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("noise", ["t", "t-forest"])
def test_joint_long(noise):
    """Geweke's test of heavy tails with many more draws."""
    all_above(keeps_joint_law(Tails(noise, weighted=True, missing=0.1), 96_000, 50_000), ALARM)
