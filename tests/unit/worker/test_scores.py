"""Scores on held-out rows."""

import numpy as np
import pytest
from scipy.stats import binomtest

from sampler import DataError, fit, prepare
from sampler.data.rows import Rows
from sampler.posterior.assessment import baseline
from sampler.posterior.assessment.baseline import linear_predictions
from sampler.posterior.assessment.scoring import binomial_interval, coverage
from worker.fits.scoring import importance_of, look_at, score


@pytest.mark.parametrize(("inside", "rows"), [(0, 7), (7, 7), (85, 99), (1, 2)])
def test_a_coverage_carries_its_own_binomial_interval(inside, rows):
    """A measured coverage has the exact binomial interval, also at 0 and 1."""
    share = coverage(0.9, inside, rows)

    exact = binomtest(inside, rows).proportion_ci(0.95, method="exact")
    assert (exact.low, exact.high) == pytest.approx((share["lower"], share["upper"]))
    assert share["lower"] <= share["coverage"] <= share["upper"]


@pytest.mark.parametrize("rows", [1, 60, 1_000_000])
def test_a_binomial_interval_is_right_to_the_last_digits(rows):
    """The interval equals its closed form for none, one and all."""
    none, one, all_ = (binomial_interval(count, rows) for count in (0, 1, rows))

    assert none[0] == 0
    assert none[1] == pytest.approx(-np.expm1(np.log(0.025) / rows), rel=1e-13)
    assert one[0] == pytest.approx(-np.expm1(np.log(0.975) / rows), rel=1e-13)
    assert all_[0] == pytest.approx(np.exp(np.log(0.025) / rows), rel=1e-13)
    assert all_[1] == 1


def test_a_class_that_training_rows_lack_was_given_no_probability():
    """A class absent from training has probability zero: its rows count as wrong; other columns stay."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 1, 60), [0.1, 0.5, 0.9, 0.5]])
    y = [*("acd"[int(3 * value)] for value in x[:60]), "a", "b", "d", "c"]
    posterior = fit(
        {"x": x[:60]}, y[:60], method="bcart", family="categorical", num_chains=2, num_draws=50, thin=10,
        num_burnin=500, progress=False,
    )  # fmt: skip

    def rows(part):
        return Rows.read({"x": x[part]}, y[part])

    training, held_out = rows(slice(60)), rows(slice(60, None))
    p = posterior.predict({"x": x[60:]}).mean

    scores = score(posterior, training, held_out, None, lambda: None)
    with pytest.raises(
        DataError, match="column 'y', row 2: 'b' is no class of the model, which has 'a', 'c', 'd'"
    ):
        posterior.score({"x": x[60:]}, y[60:])
    assert scores["accuracy"] == 0.75
    own = [p[0, 0], 1e-12, p[2, 2], p[3, 1]]
    assert scores["log_loss"] == pytest.approx(-np.log(own).mean())
    truth = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]])
    assert scores["brier"] == pytest.approx(np.sum((np.c_[p, np.zeros(4)] - truth) ** 2) / 4)

    view = look_at(posterior, held_out, np.arange(60, 64), lambda: None)
    assert view["classes"] == ["a", "c", "d", "b"]
    assert view["rows"]["actual"] == [0, 3, 2, 1]
    assert view["rows"]["mean"] == [p[0, 0], 0, p[2, 2], p[3, 1]]
    assert view["rows"]["predicted"] == [0, 1, 2, 1]
    assert sum(entry["observed"] * entry["rows"] for entry in view["calibration"]) == 3


SMALL = {"num_chains": 2, "num_draws": 50, "progress": False}


@pytest.mark.parametrize(
    ("settings", "weight"),
    [
        ({"num_trees": 20, "num_burnin": 100}, 100.0),
        ({"num_trees": 20, "num_burnin": 100}, 0.01),
        pytest.param({"method": "smc", "num_draws": 200}, 100.0, marks=pytest.mark.slow),
    ],
)
def test_held_out_outcomes_are_judged_by_their_own_weights(settings, weight):
    """Coverage, calibration and intervals of a held-out outcome use its own row's weight."""
    rng = np.random.default_rng(1)
    w = weight * rng.choice([0.25, 1.0, 4.0], 600)
    x = rng.uniform(size=600)
    y = 3 * x + 5 * rng.normal(size=600) / np.sqrt(w)
    posterior = fit({"x": x[:300]}, y[:300], w[:300], **SMALL | settings)
    training, held_out = (
        Rows.read({"x": x[part]}, y[part], {"weights": w[part]}) for part in (slice(300), slice(300, None))
    )
    f, sigma = posterior.sample(held_out.table), posterior.sample_sigma(held_out.table)
    share = np.ones(f.shape[:2]) if posterior.weights is None else posterior.weights
    drawn = rng.choice(share.size, 4000, p=(share / share.sum()).ravel())
    noise = (sigma / np.sqrt(w[300:])).reshape(share.size, -1)[drawn]
    outcomes = f.reshape(share.size, -1)[drawn] + noise * rng.normal(size=noise.shape)
    low, high = np.quantile(outcomes, [0.05, 0.95], axis=0)

    shares = {
        each["level"]: each["coverage"]
        for each in score(posterior, training, held_out, None, list)["coverage"]
    }
    assert shares[0.9] == pytest.approx(np.mean((low <= y[300:]) & (y[300:] <= high)), abs=0.02)
    assert all(abs(share - level) < 0.12 for level, share in shares.items())

    view = look_at(posterior, held_out, np.arange(300, 600), list)
    assert {each["level"]: each["observed"] for each in view["calibration"]}[0.9] == shares[0.9]
    own_scores = posterior.score({"x": x[300:]}, y[300:], w[300:])
    stored = score(posterior, training, held_out, None, list)
    assert {name: own_scores[name] for name in ("rows", "rmse", "log_score", "coverage")} == {
        name: stored[name] for name in ("rows", "rmse", "log_score", "coverage")
    }
    assert posterior.calibration({"x": x[300:]}, y[300:], w[300:]) == view["calibration"]
    own_rank = posterior.importance({"x": x[300:]}, y[300:], w[300:], loss="log_loss").to_json()
    assert {ranked["loss"]: ranked for ranked in importance_of(posterior, held_out, None, list)}[
        "log_loss"
    ] == own_rank
    np.testing.assert_allclose((view["rows"]["lower"] - low) / (high - low), 0, atol=0.1)
    np.testing.assert_allclose((view["rows"]["upper"] - high) / (high - low), 0, atol=0.1)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_line_of_a_large_table_is_that_of_a_small_one(weighted, monkeypatch):
    """Least squares by blocks of rows predict the same, also with missing values and dependent columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 500))
    X = {"a": x[0], "b": 1e6 + x[1], "twice": 2 * x[0], "gap": np.where(rng.random(500) < 0.2, np.nan, x[2])}
    X |= {"town": rng.choice(["a", "b", "c"], 500).tolist()}
    y = 100 + x.sum(axis=0) + rng.normal(size=500)
    weights = rng.uniform(0.5, 2, 500) if weighted else None
    schema = prepare(X, y, family="gaussian", method="bart", seed=1).schema
    new = {name: values[:100] for name, values in X.items()}
    whole = linear_predictions(schema, X, y, weights, new)
    monkeypatch.setattr(baseline, "MOST_CELLS", 0)
    monkeypatch.setattr(baseline, "BLOCK_CELLS", 700)
    assert linear_predictions(schema, X, y, weights, new) == pytest.approx(whole, abs=1e-6)
