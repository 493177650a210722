"""The regressor of skpro passes that package's checks, and its distributions are the posterior's."""

import numpy as np
import pytest

pytest.importorskip("skpro", reason="skpro is not there: locks/bench.txt has it")

import pandas as pd
from skpro.metrics import CRPS, LogLoss
from skpro.utils import check_estimator

from bartserve import BARTRegressor
from bartserve.skpro import BARTProbaRegressor

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]  # those of skpro
RNG = np.random.default_rng(1)
X = pd.DataFrame({"x": RNG.uniform(size=80), "kind": RNG.choice(["a", "b"], 80)}, index=range(100, 180))
Y = pd.DataFrame({"y": 5 * X["x"] + (X["kind"] == "a") + RNG.normal(0, 0.3, 80)})  # labelled as X
SMALL = {"num_trees": 10, "num_chains": 2, "num_burnin": 50, "num_draws": 50, "random_state": 0}


@pytest.fixture(scope="module")
def model() -> BARTProbaRegressor:
    return BARTProbaRegressor(BARTRegressor(**SMALL)).fit(X[:60], Y[:60])


def test_its_own_checks_pass():
    """All that skpro asks of a regressor holds."""
    results = check_estimator(BARTProbaRegressor, raise_exceptions=True, verbose=False)
    assert len(results) > 40
    assert set(results.values()) == {"PASSED"}


def test_distributions_are_the_posteriors(model):
    """Densities, quantiles, scores and moments are those of the posterior, of all rows, some and one."""
    rows, outcomes = X[60:], Y[60:]
    found, exact = model.predict_proba(rows), model.estimator_.posterior_.distribution(rows)
    y = outcomes["y"].to_numpy()
    np.testing.assert_allclose(found.log_pdf(outcomes)["y"], exact.log_prob(y))
    np.testing.assert_allclose(found.cdf(outcomes)["y"], exact.cdf(y))
    np.testing.assert_allclose(found.quantile([0.1, 0.9]).to_numpy().T, exact.quantile([0.1, 0.9]))
    np.testing.assert_allclose(found.cdf(found.ppf(found.cdf(outcomes))), found.cdf(outcomes), atol=1e-6)
    assert CRPS()(outcomes, found) == pytest.approx(exact.crps(y).mean())
    assert LogLoss()(outcomes, found) == pytest.approx(-exact.log_prob(y).mean())
    np.testing.assert_allclose(model.predict(rows)["y"], found.mean()["y"])

    some = found.iloc[[3, 1]]
    assert list(some.index) == [163, 161]
    np.testing.assert_allclose(some.mean(), found.mean().iloc[[3, 1]])
    assert found.iloc[3, 0].cdf(2.0) == pytest.approx(found.cdf(2.0).iloc[3, 0])
    assert found.loc[[163]].shape == (1, 1)


def test_outcomes_are_drawn_from_the_distribution(model):
    """Samples have its mean and variance, by row, and their index has the number of the sample."""
    found = model.predict_proba(X[60:64])
    sampled = found.sample(4000)
    assert (sampled.shape, found.sample().shape) == ((16_000, 1), (4, 1))
    by_row = sampled["y"].groupby(level=1)
    np.testing.assert_allclose(by_row.mean(), found.mean()["y"], atol=0.1)
    np.testing.assert_allclose(by_row.var(), found.var()["y"], rtol=0.2)
    assert found.iloc[0, 0].sample(3).shape == (3, 1)


def test_counts_have_probabilities():
    """A distribution of counts is discrete, and its probabilities add up to one."""
    counts = pd.DataFrame({"y": RNG.poisson(3, 60)}, index=X.index[:60])
    model = BARTProbaRegressor(BARTRegressor(family="poisson", **SMALL)).fit(X[:60], counts)
    found = model.predict_proba(X[:5])
    assert found.get_tag("distr:measuretype") == "discrete"
    np.testing.assert_allclose(sum(found.pmf(float(k)) for k in range(60)), 1.0, atol=1e-6)
