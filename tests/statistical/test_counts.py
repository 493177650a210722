"""Counts: Geweke's test of rates, dispersion and structural zeros, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from sampler.bart.families import counts
from sampler.bart.log_linear import gamma_prior
from tests.support.chain_driver import training
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.models.covering_models import draw_leaf_sd
from tests.support.reports.p_values import ALARM, all_above

TREES, LEAF_SD, ZERO_SD, RATE, OFFSET = 3, 0.4, 0.5, 1.5, -0.4


class Counts(Law):
    """States: log f and g at the rows (g is None without structural zeros), and the dispersion.

    `drawn`: with the scale of the leaves drawn.
    """

    left_out, batches, seed, of_outcomes = 6, 32, 13, True

    def __init__(self, family, num_rows=24, *, drawn=False, moves="default"):
        super().__init__("counts", num_rows, TREES, missing=0.1, moves=moves)
        self.family, self.drawn = family, drawn

    def training(self, y, seed):
        model = self.model
        settings = {"num_trees": TREES, "seed": seed, "moves": model.moves, **self.lengths}
        entries = {"leaf_sd": LEAF_SD, "k": 2.0, "alpha": model.alpha, "beta": model.beta}
        entries |= {"k_df": 4.0, "k_scale": 3.0} if self.drawn else {}
        codes = model.codes[:, : model.num_rows]
        data = training(codes, y, prior=entries, family=self.family, **settings)
        constants = replace(data.constants, rate=RATE, zero_offset=OFFSET, zero_sd=ZERO_SD)
        return replace(data, constants=constants)

    def first(self, rng):
        return np.arange(self.model.num_rows) % 3

    def draw(self, rng):
        shape, rate = gamma_prior(draw_leaf_sd(LEAF_SD, TREES, rng) if self.drawn else LEAF_SD, 1)
        log_f, _ = self.model.draw_tree_sum(
            TREES, lambda leaves: np.log(rng.gamma(shape, 1 / rate, leaves)), rng
        )
        g = None
        if "zero" in self.family:
            g, _ = self.model.draw_tree_sum(TREES, lambda leaves: rng.normal(0, ZERO_SD, leaves), rng)
        return log_f, g, rng.normal() ** -2.0 if "negative" in self.family else np.inf

    def state_of(self, chain):
        likelihood, rows = chain._likelihood, slice(self.model.num_rows)
        log_f, g = counts.STEP * chain._models[0].log_value[rows], None
        if "zero" in self.family:
            g = counts.STEP * (likelihood._zero_outcome.latent[rows] - chain._models[1].residual[rows])
        return log_f, g, likelihood.scalars[1] if "negative" in self.family else np.inf

    def outcome(self, state, rng):
        log_f, g, dispersion = state
        mean = RATE * np.exp(log_f)
        if np.isfinite(dispersion):
            mean = mean * rng.gamma(dispersion, 1 / dispersion, len(mean))
        y = rng.poisson(np.minimum(mean, 1e6)).astype(float)
        if g is not None:
            y[rng.uniform(size=len(y)) < ndtr(OFFSET + g)] = 0
        return y

    def functions(self, state, y):
        log_f, g, dispersion = state
        values = {
            "log f": log_f[0],
            "log f squared": log_f[0] ** 2,
            "product of log f at two rows": log_f[0] * log_f[5],
            "spread of log f": log_f.var(),
            "share of zeros": np.mean(y == 0),
            "log f x log count": np.mean(log_f * np.log1p(y)),
            "log of counts": np.mean(np.log1p(y)),
        }
        if np.isfinite(dispersion):
            shape = 1 / np.sqrt(dispersion)
            values |= {"root of 1/dispersion": shape, "the same x log count": shape * np.mean(np.log1p(y))}
        if g is not None:
            values |= {"g": g[0], "g squared": g[0] ** 2, "g x zero": np.mean(g * (y == 0))}
        return values

    def figures(self, state):
        """Return log rates, the dispersion, and the zeros' g at a row."""
        log_f, g, dispersion = state
        values = {"log rate": log_f[0], "mean log rate": log_f.mean()}
        values |= {"dispersion": dispersion} if np.isfinite(dispersion) else {}
        return values | ({} if g is None else {"zeros": g[0]})


@pytest.fixture(autouse=True)
def _few_zero_trees(monkeypatch):
    monkeypatch.setattr(counts, "ZERO_TREES", TREES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "drawn", "moves"),
    [
        ("poisson", False, "default"),
        ("zero-inflated-negative-binomial", True, "default"),
        ("zero-inflated-negative-binomial", True, "pg"),
    ],
)
def test_joint(family, drawn, moves):
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Counts(family, drawn=drawn, moves=moves), 2400, 1500), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["default", "pg"])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "zero-inflated-negative-binomial"])
def test_joint_long(family, drawn, moves):
    """Geweke's test of counts with many more draws."""
    all_above(keeps_joint_law(Counts(family, drawn=drawn, moves=moves), 40_000, 20_000), ALARM)


def ranks(family, count, bins, *, drawn):
    """Return the p-values of calibration."""
    return calibrated(Counts(family, 40, drawn=drawn), count, bins, burnin=300, thin=15)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform, of the family with every part."""
    all_above(ranks("zero-inflated-negative-binomial", 48, 8, drawn=True), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "zero-inflated-negative-binomial"])
def test_calibrated_long(family, drawn):
    """Ranks of the truth are uniform over many more replications."""
    all_above(ranks(family, 512, 16, drawn=drawn), ALARM)
