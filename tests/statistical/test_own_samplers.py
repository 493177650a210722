"""Gibbs samplers made with `Sampler` as users make them agree with the families that the library has."""

import numpy as np
import pytest
from scipy import stats

from sampler import Sampler, fit
from tests.support.reports.p_values import ALARM, all_above

CHAINS = 8
GROUPS = 6
ROWS = 90


def length(iterations):
    """Return the settings of a fit about as long."""
    draws = {"num_burnin": iterations // 5, "num_draws": iterations // 2, "thin": 2}
    return draws | {"num_chains": CHAINS, "progress": False}


def agreement(own, others):
    """Return p by name of chain means [chain, figure] of two samplers having equal means (Welch's t-test)."""
    return {name: float(stats.ttest_ind(own[name], others[name], equal_var=False).pvalue) for name in own}


def own_intercepts(X, y, group, scale, settings, chain, iterations):
    """Run one chain of trees and intercepts by hand; return means of draws by name."""
    rng = np.random.default_rng((5, chain))
    trees = Sampler(X, y, chain=chain, **settings)
    intercepts, variance, mixing = np.zeros(GROUPS), scale**2, 1.0
    count, kept = np.bincount(group), []
    for iteration in range(iterations):
        trees.set_outcome(y - intercepts[group])
        trees.step()
        precision = count / trees.sigma**2 + 1 / variance
        left = np.bincount(group, y - trees.sums) / trees.sigma**2
        intercepts = left / precision + rng.normal(size=GROUPS) / np.sqrt(precision)
        variance = (1 / mixing + np.sum(intercepts**2) / 2) / rng.gamma((GROUPS + 1) / 2)
        mixing = (1 / scale**2 + 1 / variance) / rng.gamma(1.0)
        if iteration >= iterations // 5:
            f = trees.sums
            kept.append([np.log(variance) / 2, *(intercepts[:2] - intercepts.mean()), f[0] - f[1],
                         trees.sigma, f[0] + intercepts[group[0]]])  # fmt: skip
    return np.mean(kept, axis=0)


def compare_intercepts(iterations):
    """Compare intercepts by hand with those of `fit(groups=..)`."""
    rng = np.random.default_rng(4)
    x, group = rng.uniform(size=(ROWS, 2)), rng.integers(0, GROUPS, ROWS)
    y = np.sin(5 * x[:, 0]) + rng.normal(0, 0.5, GROUPS)[group] + rng.normal(0, 0.3, ROWS)
    prior = {"offset": 0.0, "leaf_sd": 0.3, "lambda": 0.05, "sigma_start": 0.3, "step": 2.0**-18}
    settings = {"num_trees": 8, "seed": 3, "prior": prior, "transform": "none", "linear": False}
    X = {"a": x[:, 0], "b": x[:, 1]}
    posterior = fit(X | {"g": group.astype(str)}, y, groups="g", **settings, **length(iterations))
    (scale,) = posterior.header.groupings.scales
    table = {"a": x[:2, 0], "b": x[:2, 1], "g": group[:2].astype(str)}
    effects = np.stack(
        [posterior.sample({"a": [0.5] * GROUPS, "b": [0.5] * GROUPS, "g": [str(g) for g in range(GROUPS)]})]
    )[0]
    effects = effects - effects.mean(axis=-1, keepdims=True)
    f = posterior.sample(table)
    middle = f - effects[..., group[:2]]
    theirs = np.stack(
        [np.log(posterior.group_sds()[0]), effects[..., 0], effects[..., 1], middle[..., 0] - middle[..., 1],
         posterior.sigma, f[..., 0]],
        axis=-1,
    ).mean(axis=1)  # fmt: skip
    ours = np.stack(
        [own_intercepts(X, y, group, scale, settings, chain, iterations) for chain in range(CHAINS)]
    )
    names = ["log sd", "an intercept", "another", "difference of f", "sigma", "f and intercept"]
    all_above(
        agreement(dict(zip(names, ours.T, strict=True)), dict(zip(names, theirs.T, strict=True))), ALARM
    )


def compare_probit(iterations):
    """Compare two classes by latent outcomes drawn by hand with family "probit"."""
    rng = np.random.default_rng(6)
    x = rng.uniform(size=(ROWS, 2))
    second = rng.uniform(size=ROWS) < stats.norm.cdf(3 * x[:, 0] - 1)
    prior = {"offset": 0.1, "leaf_sd": 0.4, "step": 2.0**-17, "cuts": "quantile"}
    settings = {"num_trees": 8, "seed": 2}
    posterior = fit(x, second, family="probit", prior=prior, **settings, **length(iterations))
    theirs = posterior.sample(x[:4]).mean(axis=1)
    ours = []
    for chain in range(CHAINS):
        trees, kept = Sampler(x, second - 0.5, chain=chain, prior=prior | {"sigma": 1.0}, **settings), []
        for iteration in range(iterations):
            f = trees.sums
            below = stats.norm.cdf(-f)
            u = rng.uniform(np.where(second, below, 0), np.where(second, 1, below))
            trees.set_outcome(f + np.clip(stats.norm.ppf(u), -9, 9))
            trees.step()
            if iteration >= iterations // 5:
                kept.append(stats.norm.cdf(trees.sums[:4]))
        ours.append(np.mean(kept, axis=0))
    names = [f"P at row {row}" for row in range(4)]
    all_above(
        agreement(dict(zip(names, np.transpose(ours), strict=True)), dict(zip(names, theirs.T, strict=True))),
        ALARM,
    )


@pytest.mark.slow
@pytest.mark.parametrize("compare", [compare_intercepts, compare_probit])
def test_agree(compare):
    """Means of draws agree within the error that chains show."""
    compare(1500)


@pytest.mark.long
@pytest.mark.parametrize("compare", [compare_intercepts, compare_probit])
def test_agree_long(compare):
    """Many more draws agree too."""
    compare(12_000)
