"""Several outcomes of rows with precision weights: errors of weight w have the covariance by w."""

import numpy as np
import pytest

from sampler import fit, load, tune
from sampler.bart.kernels.steps.covariance import add_weighted_products
from sampler.errors import DataError, SettingsError

SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}
ROWS = 80


def made(missing=False):
    """Return columns, two outcomes whose errors have correlation .9 and sd 1 / sqrt(weight), and weights."""
    rng = np.random.default_rng(4)
    X = {"u": rng.uniform(size=ROWS), "v": rng.uniform(size=ROWS)}
    weights = np.where(np.arange(ROWS) % 2, 25.0, 0.25)
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], ROWS) / np.sqrt(weights)[:, None]
    Y = {"a": 3 * X["u"] + errors[:, 0], "b": 2 * X["v"] + errors[:, 1]}
    if missing:
        Y["a"][:10], Y["b"][10:25] = np.nan, np.nan
    return X, Y, weights


def test_weighted_products():
    """Sums of products by weights are those of floats."""
    rng = np.random.default_rng(0)
    residual, weights = rng.integers(-1000, 1000, (3, 50)).astype(np.int32), rng.uniform(size=50)
    scatter = np.eye(3)
    add_weighted_products(residual, weights, scatter)
    assert np.allclose(scatter, np.eye(3) + (residual * weights) @ residual.T)


@pytest.mark.parametrize("missing", [False, True])
def test_weights_all_the_way(tmp_path, missing):
    """Figures are of weight 1, and scores, extensions and files know the weights of their rows."""
    X, Y, weights = made(missing)
    posterior = fit(X, Y, weights, **SHORT)
    assert posterior["a"].header.weighted
    assert posterior["a"].sigma.mean() < 0.95 * fit(X, Y, **SHORT)["a"].sigma.mean()
    assert 0.6 < posterior.correlations[:, :, 0, 1].mean() < 0.99
    scores = posterior.score(X, Y, weights)
    assert scores.log_score > posterior.score(X, Y, np.ones(ROWS)).log_score + 0.5
    with pytest.raises(DataError, match="these rows need theirs too"):
        posterior.score(X, Y)
    assert scores.coverage == []
    own = posterior["b"].score(X, Y["b"], weights) if not missing else scores.outcomes["b"]
    assert scores.outcomes["b"]["rmse"] == own["rmse"]
    y, logs = posterior.log_scores(X, Y, weights)
    assert np.isclose(logs.mean(), scores.log_score)
    assert np.isclose(posterior.log_scores(X | {"w": weights}, Y, "w")[1], logs).all()
    named = fit(X | {"w": weights}, Y, "w", **SHORT)
    assert np.array_equal(named.predict(X).mean, posterior.predict(X).mean)
    longer = fit(X, Y, weights, **(SHORT | {"num_draws": 25}))
    assert posterior.extend(5, progress=False).to_bytes() == longer.to_bytes()
    posterior.save(tmp_path / "fit.model")
    loaded = load(tmp_path / "fit.model")
    assert loaded.extend(5, X, Y, weights, progress=False).to_bytes() == longer.to_bytes()
    if not missing:
        (row,) = (np.flatnonzero(weights < 1)[:1],)
        one = {name: each[row] for name, each in X.items()}
        f = np.array([posterior[name].sample(one).reshape(-1) for name in "ab"]).T
        laws = posterior.covariances.reshape(-1, 2, 2) / weights[row]
        rest = y[row] - f
        logs_of = -0.5 * np.einsum("da,dab,db->d", rest, np.linalg.inv(laws), rest)
        logs_of -= 0.5 * np.linalg.slogdet(2 * np.pi * laws)[1]
        assert np.isclose(logs[row[0]], np.log(np.mean(np.exp(logs_of))))


def test_what_weights_do_not_go_with():
    """Classes beside numbers take no weights, which is said with ways that work."""
    X, Y, weights = made()
    with pytest.raises(SettingsError, match="leave out weights") as raised:
        fit(X, {"a": Y["a"], "b": Y["b"] > 1}, weights, family="auto", **SHORT)
    assert raised.value.field == "weights"


@pytest.mark.slow
def test_settings_are_compared_by_weights():
    """Folds know the weights of their rows; regions, which are of weight 1, aren't judged by them."""
    X, Y, weights = made()
    short = {name: value for name, value in SHORT.items() if name != "progress"}
    told = {"candidates": [{"linear": False}], "folds": 2, **short}
    plain, weighed = tune(X, Y, **told).trials[0], tune(X, Y, weights, **told).trials[0]
    assert weighed.log_score > plain.log_score + 0.3
    assert weighed.coverage is None
