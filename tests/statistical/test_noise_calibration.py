"""Simulation-based calibration of noise by row, heavy tails, mixtures and the linear part."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sampler.bart import student
from sampler.bart.chain import Chain
from sampler.noise import DEGREE_GRID
from tests.support.chain_driver import RESTRUCTURED, f_of
from tests.support.models.covering_models import Model
from tests.support.models.mixtures import draw_mixture, mixture_of, noise_of
from tests.support.models.precisions import draw_precisions, log_precisions, make_few, spread_of
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

DRAWS, THIN, BURNIN, REPLICATIONS = 63, 12, 300, 96
SLOWER = 4  # times as long where the noise is a mixture, whose components are drawn given the rows' labels
SLOPE_SCALE = 0.2  # of tau's half-Cauchy prior
GRID = 2.0**-9  # wide enough for its tail
WIDE = {"weighted": True, "missing": 0.1}
COVERING = {
    "by row, weights, missing values": ("forest", WIDE),
    "by row, all classical moves": ("forest", {"moves": "cgm", "levels": (40, 3, 250, 9)}),
    "by row, restructured": ("forest", {"moves": RESTRUCTURED, "missing": 0.3}),
    "tails, weights, missing values": ("t", WIDE | {"moves": "cgm"}),
    "tails by row": ("t-forest", WIDE),
    "mixture, missing values": ("mixture", {"missing": 0.1}),
    "line": ("line", {}),
    "line, weights, missing values": ("line", WIDE | {"moves": "cgm"}),
}


def simulated(model, noise, rng):
    """Draw a truth and its outcomes; return the truth's figures and the training data without a seed."""
    forest, sigma2 = model.draw(rng)
    f, log_w, more = forest.f[: model.num_rows], np.zeros(model.num_rows), {}
    scales = np.ones(model.num_rows)
    line = model.linear_terms(SLOPE_SCALE) if noise == "line" else None
    if line is not None:
        tau = SLOPE_SCALE * abs(rng.standard_cauchy())
        slopes = tau * rng.normal(size=3)
        f = f + slopes @ line.z
        more = {"tau": tau, "a slope": slopes[1], "difference of slopes": slopes[0] - slopes[2]}
    if noise.startswith("t"):
        law = np.exp(student.log_prior())
        degrees = rng.choice(DEGREE_GRID, p=law / law.sum())
        scales, more = rng.gamma(0.5 * degrees, 2 / degrees, model.num_rows), {"degrees": degrees}
    if noise.endswith("forest"):
        log_w, _, spread = draw_precisions(model, rng)
        more |= {"log w at a row": log_w[0], "spread of log w": log_w.var(), "spread": spread}
    y = model.outcome(f, sigma2 * np.exp(-log_w) / scales, rng)
    if noise == "mixture":
        parts = draw_mixture(model, rng)
        sigma2, more = np.sum(parts[0] * (parts[2] ** 2 + parts[1] ** 2)), of_mixture(f, parts)
        y = f + noise_of(parts, model.num_rows, rng)
    return figures(f, np.sqrt(sigma2), log_w) | more, y, line


def figures(f, sigma, log_w):
    """Return what is compared under every noise; the noise's size at a row is known better than sigma."""
    return {
        "f at a row": f[0],
        "mean of f": f.mean(),
        "spread of f": f.var(),
        "noise at a row": np.log(sigma) - 0.5 * log_w[3],
    }


def of_mixture(f, parts):
    """Return what is compared of a mixture: f alone is known less well than f and the noise's mean."""
    middle = np.sum(parts[0] * parts[1])
    return {"largest share": parts[0].max(), "mean": middle, "expected outcome": f[0] + middle}


def state_of(chain, noise):
    """Return the same figures of a chain's state."""
    rows = len(chain.training.y)
    forest = noise.endswith("forest")
    log_w = log_precisions(chain) if forest else np.zeros(rows)
    scalars = chain._likelihood.outcome.scalars
    more = {}
    if noise == "line":
        tau, *slopes = scalars[1:]
        more = {"tau": tau, "a slope": slopes[1], "difference of slopes": slopes[0] - slopes[2]}
    if noise.startswith("t"):
        more = {"degrees": scalars[1]}
    sigma = chain.sigma
    if noise == "mixture":
        parts = mixture_of(chain)
        sigma, more = (
            np.sqrt(np.sum(parts[0] * (parts[2] ** 2 + parts[1] ** 2))),
            of_mixture(f_of(chain), parts),
        )
    if forest:
        more |= {"log w at a row": log_w[0], "spread of log w": log_w.var(), "spread": spread_of(chain)}
    return figures(f_of(chain), sigma, log_w) | more


def ranks_of(model, noise, rng, seed):
    """Return the ranks of the truth among the draws of one replication, by name."""
    truth, y, line = simulated(model, noise, rng)
    settings = {"linear": True} if line is not None else {"noise": noise}
    slower = SLOWER if noise == "mixture" else 1
    data = model.training(
        y, num_draws=DRAWS, thin=slower * THIN, num_burnin=slower * BURNIN, seed=seed, **settings
    )
    if line is not None:
        data = replace(data, parts={"line": line}, constants=replace(data.constants, step=GRID))
    chain = Chain.start(data, 0)
    chain.run(slower * BURNIN)
    states = []
    for _ in range(DRAWS):
        chain.run(slower * THIN)
        states.append(state_of(chain, noise))
    return {name: rank_of(truth[name], np.array([each[name] for each in states]), rng) for name in truth}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.long] if later else []) for later, case in enumerate(COVERING)],
)
def test_calibrated(monkeypatch, case):
    """The rank of the truth among its posterior draws is uniform, over a covering set of options."""
    make_few(monkeypatch)
    noise, options = COVERING[case]
    model = Model(case, num_rows=60, num_trees=5, **options)
    ranked = partial(ranks_of, model, noise, np.random.default_rng(11))
    ranks = [ranked(seed) for seed in range(REPLICATIONS)]
    all_above(uniform_by_name(ranks, DRAWS, 8), ALARM)
