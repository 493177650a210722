"""Agreement with other packages: bartz with our settings; regressions where they have the right form too."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from lab import agreement
from sampler import fit

CELLS = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]})  # a regression with an interaction has any rates
FAST = {"num_chains": 4, "num_burnin": 150, "num_draws": 100, "thin": 2, "progress": False}


def saturated(X):
    """Terms of a regression that gives each cell its own value."""
    return X.assign(ab=X.a * X.b)


def agree(ours, sd, theirs, error):
    """Means are within half a standard error of the other's, and errors within a quarter."""
    np.testing.assert_allclose((ours - theirs) / error, 0, atol=0.5)
    np.testing.assert_allclose(sd / error, 1, atol=0.25)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_poisson_regression(family):
    """Rates of four cells, of rows with exposures, and their errors are scikit-learn's."""
    rng = np.random.default_rng(3)
    X = CELLS.iloc[np.arange(800) % 4].reset_index(drop=True)
    exposure = rng.uniform(0.5, 2, 800)
    y = rng.poisson(exposure * np.array([0.5, 1.0, 2.0, 6.0])[2 * X.a + X.b])
    glm = PoissonRegressor(alpha=0, max_iter=1000, tol=1e-9)
    theirs = glm.fit(saturated(X), y / exposure, sample_weight=exposure).predict(saturated(CELLS))
    seen = np.bincount(2 * X.a + X.b, exposure)
    prediction = fit(X, y, family=family, exposure=exposure, **FAST).predict(
        CELLS.assign(exposure=1.0), interval="credible"
    )
    agree(prediction.mean, prediction.sd, theirs, np.sqrt(theirs / seen))


def test_multinomial_regression():
    """Probabilities of three classes in four cells, and their errors, are scikit-learn's."""
    rng = np.random.default_rng(4)
    X = CELLS.iloc[np.arange(800) % 4].reset_index(drop=True)
    law = np.array([[0.2, 0.3, 0.5], [0.4, 0.2, 0.4], [0.6, 0.3, 0.1], [0.1, 0.4, 0.5]])
    y = (rng.uniform(size=(800, 1)) > law[2 * X.a + X.b].cumsum(axis=1)).sum(axis=1)
    logit = LogisticRegression(C=1e6, max_iter=10_000, tol=1e-9).fit(saturated(X), y)
    theirs = logit.predict_proba(saturated(CELLS))
    prediction = fit(X, y, family="categorical", **FAST).predict(CELLS)
    agree(prediction.mean, prediction.sd, theirs, np.sqrt(theirs * (1 - theirs) / 200))


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # the other package's
def test_log_normal_times():
    """Logarithms of censored times in four cells, and their spread, are those of lifelines' regression."""
    lifelines = pytest.importorskip("lifelines", reason="lifelines is not there: locks/bench.txt has it")
    rng = np.random.default_rng(5)
    X = CELLS.iloc[np.arange(800) % 4].reset_index(drop=True)
    time = np.exp(np.array([0.0, 0.5, 1.0, 2.0])[2 * X.a + X.b] + 0.8 * rng.normal(size=800))
    limit = rng.exponential(8, 800)
    table = saturated(X).assign(time=np.minimum(time, limit), seen=time <= limit)
    theirs = lifelines.LogNormalAFTFitter().fit(table, "time", "seen")
    medians = theirs.predict_median(saturated(CELLS)).to_numpy()
    posterior = fit(X, table.time, event=table.seen, **FAST)
    log_f = np.log(posterior.survival(CELLS).median.value)
    np.testing.assert_allclose(log_f, np.log(medians), atol=0.5 * 0.8 / np.sqrt(200) * 1.3)
    sigma = np.exp(theirs.params_["sigma_"].iloc[0])
    assert posterior.sigma.mean() == pytest.approx(sigma, rel=0.03)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("default")  # the other package's
def test_bartz():
    """R-hat of f over eight chains of each package, pooled, is below 1.05."""
    pytest.importorskip("bartz", reason="bartz is not there: `make statistical` installs it")
    X, y = agreement.problem()
    (f, sigma), (g, tau) = agreement.ours(X, y, 1000), agreement.theirs(X, y, 1000)
    rhat = agreement.rhat(np.concatenate([f, g]))
    noise = float(agreement.rhat(np.concatenate([sigma, tau])))
    print(f"\nR-hat of f: median {np.median(rhat):.4f}, largest {rhat.max():.4f}; of sigma {noise:.4f}")
    assert f.shape == g.shape == (8, 1000, 100)
    assert rhat.max() < 1.05
    assert noise < 1.05
