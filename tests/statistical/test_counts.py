"""Counts: Geweke's test of rates, dispersion and structural zeros, and simulation-based calibration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from sampler.bart.chain import Chain
from sampler.bart.families import counts
from sampler.bart.log_linear import gamma_prior
from tests.support.chain_driver import training
from tests.support.joint_law import ENDLESS, keeps_joint_law
from tests.support.models.covering_models import Model, draw_leaf_sd
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

TREES, LEAF_SD, ZERO_SD, RATE, OFFSET = 3, 0.4, 0.5, 1.5, -0.4


def functions_of(log_f, g, dispersion, y):
    """Return the functions that are compared, at the rows."""
    shape = 1 / np.sqrt(dispersion) if np.isfinite(dispersion) else 0.0
    values = {
        "log f": log_f[0],
        "log f squared": log_f[0] ** 2,
        "product of log f at two rows": log_f[0] * log_f[5],
        "spread of log f": log_f.var(),
        "share of zeros": np.mean(y == 0),
        "log f x log count": np.mean(log_f * np.log1p(y)),
        "log of counts": np.mean(np.log1p(y)),
    }
    if shape:
        values |= {"root of 1/dispersion": shape, "the same x log count": shape * np.mean(np.log1p(y))}
    if g is not None:
        values |= {"g": g[0], "g squared": g[0] ** 2, "g x zero": np.mean(g * (y == 0))}
    return values


def outcome(log_f, g, dispersion, rng):
    """Draw counts at the rows."""
    mean = RATE * np.exp(log_f)
    if np.isfinite(dispersion):
        mean = mean * rng.gamma(dispersion, 1 / dispersion, len(mean))
    y = rng.poisson(np.minimum(mean, 1e6)).astype(float)
    if g is not None:
        y[rng.uniform(size=len(y)) < ndtr(OFFSET + g)] = 0
    return y


def draw_state(model, family, rng, drawn):
    """Draw log f and g at the rows (None without structural zeros), and the dispersion, from the prior."""
    shape, rate = gamma_prior(draw_leaf_sd(LEAF_SD, TREES, rng) if drawn else LEAF_SD, 1)
    log_f, _ = model.draw_tree_sum(TREES, lambda leaves: np.log(rng.gamma(shape, 1 / rate, leaves)), rng)
    g = None
    if "zero" in family:
        g, _ = model.draw_tree_sum(TREES, lambda leaves: rng.normal(0, ZERO_SD, leaves), rng)
    return log_f, g, rng.normal() ** -2.0 if "negative" in family else np.inf


def prior_draw(model, family, rng, drawn):
    """Return the functions at an independent draw from the prior, made by the plain twins."""
    state = draw_state(model, family, rng, drawn)
    return functions_of(*state, outcome(*state, rng))


def start(model, family, y, drawn, seed):
    """Start a chain; `drawn`: with the scale of the leaves drawn."""
    settings = {"num_trees": TREES, "seed": seed, "moves": model.moves, **ENDLESS}
    entries = {"leaf_sd": LEAF_SD, "k": 2.0, "alpha": model.alpha, "beta": model.beta}
    entries |= {"k_df": 4.0, "k_scale": 3.0} if drawn else {}
    data = training(model.codes[:, : model.num_rows], y, prior=entries, family=family, **settings)
    constants = replace(data.constants, rate=RATE, zero_offset=OFFSET, zero_sd=ZERO_SD)
    return Chain.start(replace(data, constants=constants), 0)


def state_of(chain, model, family):
    """Return the same figures of a chain's state."""
    likelihood, rows = chain._likelihood, slice(model.num_rows)
    log_f, g = counts.STEP * chain._models[0].log_value[rows], None
    if "zero" in family:
        g = counts.STEP * (likelihood._zero_outcome.latent[rows] - chain._models[1].residual[rows])
    return log_f, g, likelihood.scalars[1] if "negative" in family else np.inf


def joint(family, rounds, draws, *, drawn=False, moves="default"):
    """Return the p-values of Geweke's test by function."""
    model = Model("counts", num_rows=24, num_trees=TREES, missing=0.1, moves=moves)
    rng = np.random.default_rng(7)
    prior = [prior_draw(model, family, rng, drawn) for _ in range(draws)]
    chain = start(model, family, np.arange(model.num_rows) % 3, drawn, 3)

    def observe(chain):
        state = state_of(chain, model, family)
        y = outcome(*state, rng)
        return functions_of(*state, y), y

    return keeps_joint_law(chain, prior, observe, rounds, left_out=6, batches=32)


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
    all_above(joint(family, 2400, 1500, drawn=drawn, moves=moves), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["default", "pg"])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "zero-inflated-negative-binomial"])
def test_joint_long(family, drawn, moves):
    """Geweke's test of counts with many more draws."""
    all_above(joint(family, 40_000, 20_000, drawn=drawn, moves=moves), ALARM)


def figures(log_f, g, dispersion):
    """Figures whose ranks are taken: log rates at two rows, the dispersion, and the zeros' g at a row."""
    values = {"log rate": log_f[0], "mean log rate": log_f.mean()}
    values |= {"dispersion": dispersion} if np.isfinite(dispersion) else {}
    return values | ({} if g is None else {"zeros": g[0]})


def calibrated(family, count, bins, *, drawn=False):
    """Return p-values of the truth's ranks among 63 draws being uniform over replications."""
    model = Model("counts", num_rows=40, num_trees=TREES, missing=0.1)
    rng, ranks = np.random.default_rng(13), []
    for seed in range(count):
        truth = draw_state(model, family, rng, drawn)
        chain, kept = start(model, family, outcome(*truth, rng), drawn, seed), []
        chain.run(300)
        for _ in range(63):
            chain.run(15)
            kept.append(figures(*state_of(chain, model, family)))
        own = figures(*truth)
        ranks.append({name: rank_of(own[name], [each[name] for each in kept], rng) for name in own})
    return uniform_by_name(ranks, 63, bins)


@pytest.mark.slow
def test_calibrated():
    """The rank of the truth among its posterior draws is uniform, of the family with every part."""
    all_above(calibrated("zero-inflated-negative-binomial", 48, 8, drawn=True), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "zero-inflated-negative-binomial"])
def test_calibrated_long(family, drawn):
    """Ranks of the truth are uniform over many more replications."""
    all_above(calibrated(family, 512, 16, drawn=drawn), ALARM)
