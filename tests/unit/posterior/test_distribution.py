"""Predictive distributions of rows: log densities, probabilities, quantiles and scores of outcomes."""

import numpy as np
import pytest
from scipy.integrate import quad

from sampler import DataError, SettingsError, fit

SHORT = {"num_chains": 2, "num_burnin": 30, "num_draws": 15, "thin": 1, "num_trees": 5, "progress": False}
RNG = np.random.default_rng(4)
X = RNG.uniform(size=(60, 2))
Y = 3 * X[:, 0] + RNG.normal(0, 0.4, 60)


@pytest.mark.parametrize(
    "extra",
    [{"noise": noise} for noise in ("constant", "t", "forest", "mixture")] + [{"transform": "log"}],
    ids=str,
)
def test_densities_probabilities_and_quantiles_are_of_one_distribution(extra):
    """The density integrates to the cdf, quantiles invert it, scores are those of `score`."""
    y = np.exp(Y) if "transform" in extra else Y
    posterior = fit(X, y, linear=False, seed=2, **SHORT, **extra)
    law, scores = posterior.distribution(X), posterior.score(X, y)
    assert law.log_prob(y).mean() == pytest.approx(scores["log_score"])
    assert law.crps(y).mean() == pytest.approx(scores["crps"])
    q = np.array([0.05, 0.5, 0.8])
    ends = law.quantile(q)
    np.testing.assert_allclose(law.cdf(ends), np.broadcast_to(q[:, None], (3, 60)), atol=1e-6)
    np.testing.assert_allclose(law.interval(0.9), law.quantile([0.05, 0.95]), rtol=1e-9)
    one = posterior.distribution(X[:1])
    between = quad(lambda value: one.prob(value)[0], ends[0, 0], ends[2, 0], limit=200)[0]
    assert between == pytest.approx(0.75, abs=1e-4)
    assert one.mean == pytest.approx(posterior.predict(X[:1]).mean)


def test_counts_have_probabilities_of_whole_numbers():
    """Probabilities of counts add up to the cdf, which is that of at most the count."""
    y = RNG.poisson(np.exp(X[:, 0]))
    law = fit(X, y, family="poisson", seed=2, **SHORT).distribution(X[:3])
    few = np.arange(6.0)[:, None]
    np.testing.assert_allclose(np.cumsum(law.prob(few), axis=0), law.cdf(few), atol=1e-9)
    assert law.num_rows == 3


def test_refusals():
    """Classes, outcomes of another number than the rows, missing ones, and quantiles outside (0, 1)."""
    posterior = fit(X, Y, seed=2, noise="constant", **SHORT)
    law = posterior.distribution(X)
    for bad in ([1.0, 2.0], np.nan, "a"):
        with pytest.raises(DataError, match="one for each of the 60 rows"):
            law.cdf(bad)
    with pytest.raises(SettingsError, match="between 0 and 1"):
        law.quantile([0.5, 1.0])
    classes = fit(X, Y > 1, family="probit", seed=2, **SHORT)
    with pytest.raises(SettingsError, match="which predict gives"):
        classes.distribution(X)
