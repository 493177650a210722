"""Assessments of a posterior in a notebook equal their definitions."""

import numpy as np
import pytest
from scipy.stats import norm

from sampler import DataError, fit
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.assessment.scoring import pinball_loss
from sampler.posterior.laws.predictive import Predictive
from sampler.posterior.results.comparison import ModelComparison
from sampler.posterior.stop_rules import check_part, check_rules, next_look
from sampler.posterior.verdict import rhat_ess
from tests.support.friedman import friedman
from tests.support.models.random_posteriors import make_posterior

SHORT = {"num_trees": 10, "num_chains": 1, "num_burnin": 100, "num_draws": 60, "thin": 1, "progress": False}


def test_convergence_is_that_of_growing_parts_of_the_draws():
    """R-hat and ESS at a count are those of the first draws up to it; the last count covers all draws."""
    posterior, _, _ = make_posterior(num_draws=(40, 50))
    convergence = posterior.convergence()
    assert (convergence["draws"][-1], convergence["chains"], convergence["f"]["rows"]) == (40, 2, 50)
    f = posterior.law.draws_by_figure(posterior.reference)[evenly_spaced(posterior.reference.num_rows, 50)]
    for i, count in enumerate(convergence["draws"]):
        sigma = np.ascontiguousarray(posterior.sigma[None, :, :count])
        assert convergence["sigma"]["ess_bulk"][i] == rhat_ess.ess_bulk(sigma)[0]
        rhat = rhat_ess.rhat(np.ascontiguousarray(f[:, :, :count]))
        assert convergence["f"]["rhat"][i] == pytest.approx(np.median(rhat), rel=1e-12)
        assert convergence["f"]["rhat_p95"][i] == pytest.approx(np.quantile(rhat, 0.95), rel=1e-12)


def test_a_density_is_that_of_the_draws():
    """A new outcome's density is the mixture of the draws' normals and integrates to one."""
    posterior, X, _ = make_posterior(num_draws=(40, 50))
    row = {name: values[0] for name, values in X.items()}
    density = posterior.density(row)
    f, sigma = posterior.sample(one := {name: [value] for name, value in row.items()}), posterior.sigma
    np.testing.assert_allclose(
        density["outcome"], norm.pdf(density["x"][:, None], f.reshape(-1), sigma.reshape(-1)).mean(axis=1)
    )
    assert np.trapezoid(density["outcome"], density["x"]) == pytest.approx(1, abs=1e-3)
    predicted = posterior.predict(one, 0.9, "predictive")
    assert density["intervals"]["outcome"] == (predicted.lower[0], predicted.upper[0])
    assert density["centre"] == pytest.approx(f.mean())
    with pytest.raises(DataError, match="one row"):
        posterior.density({name: values[:2] for name, values in X.items()})


def test_stop_rules_hold_by_the_posteriors_own_figures():
    """A rule holds up to exactly the posterior's figure; only the given rules are judged."""
    posterior, _, _ = make_posterior(num_draws=(40, 50))
    check = check_rules(posterior, {"min_ess": 1.0, "max_rhat": None})
    assert check.held == {"min_ess": True}
    assert check.satisfied
    ess = check.figures["ess"]
    assert check_rules(posterior, {"min_ess": ess}).satisfied
    assert not check_rules(posterior, {"min_ess": np.nextafter(ess, np.inf)}).satisfied
    assert not check_rules(posterior, {}).satisfied
    assert [next_look(20, 50), next_look(45, 50), next_look(1, 9)] == [30, 50, 2]


def test_stop_rules_hold_for_the_later_draws_where_they_do_not_for_all():
    """Without burn-in the first draws are of the way there: the others alone may meet a rule, or neither."""
    X, _, y = friedman(80, 1)
    of_chains = {"num_trees": 20, "num_chains": 2, "num_burnin": 0, "num_draws": 90, "thin": 1}
    posterior = fit(X, y, **of_chains, progress=False)
    later = posterior.discard(30)
    of_all, of_later = (check_rules(each, {"min_ess": 1.0}).figures["ess"] for each in (posterior, later))
    assert of_all < of_later
    for least, kept in ((of_all, posterior), (of_later, later), (of_later + 1e-9, posterior)):
        part, check = check_part(posterior, {"min_ess": least})
        assert part.to_bytes() == kept.to_bytes()
        assert (check.draws, check.discarded) == (kept.num_draws, 90 - kept.num_draws)
        assert check == check_rules(kept, {"min_ess": least})
        assert check.satisfied == (least <= of_later)
    assert check_part(posterior, {})[0] is posterior


def test_scores_of_numbers_are_those_of_the_predictive_law():
    """Scores work for any number of rows; `quick` omits two figures; invalid outcomes are named by row."""
    posterior, X, _ = make_posterior(num_draws=(40, 50))
    y = np.random.default_rng(1).normal(10, 1, 80)
    scores = posterior.score(X, y)
    mixture = Predictive(posterior.sample(X), posterior.sample_sigma(X), None)
    assert scores["crps"] == pytest.approx(mixture.crps(y).mean())
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((posterior.predict(X).mean - y) ** 2)))
    predicted = posterior.predict(X, [0.5, 0.9], "predictive")
    for entry, lower, upper in zip(scores["coverage"][::2], predicted.lower, predicted.upper, strict=True):
        assert entry["coverage"] == np.mean((lower <= y) & (y <= upper))
    quick = {name: value for name, value in scores.items() if name not in {"crps", "pinball"}}
    assert posterior.score(X, y, quick=True) == quick
    assert {entry["level"]: entry["rows"] for entry in posterior.calibration(X, y)}[0.99] == 80
    assert posterior.score({name: values[:1] for name, values in X.items()}, y[:1])["rows"] == 1
    with pytest.raises(DataError, match="row 3"):
        posterior.score(X, np.where(np.arange(80) == 2, np.nan, y))
    with pytest.raises(DataError, match="79 rows"):
        posterior.score(X, y[1:])


def law(weighted, spread, seed=0):
    """Return a law of four rows, 2 chains of 40 draws, whose means are this many sds apart."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(size=(2, 40))
    shares = share / share.sum() if weighted else None
    return Predictive(spread * rng.normal(size=(2, 40, 4)), rng.uniform(0.8, 1.2, (2, 40, 4)), shares)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spread", [0.5, 30.0])  # the integral, and the sum over pairs of draws
def test_crps_is_the_integral_of_the_squared_distance_of_distributions(weighted, spread):
    """CRPS of a mixture of normals equals its definition, integrated finely."""
    mixture = law(weighted, spread)
    y = np.array([-2.0, 0.0, 1.0, 5.0]) * spread
    low, high = -10 * spread - 10, 10 * spread + 10
    for row in range(4):
        left, right = np.linspace(low, y[row], 1001), np.linspace(y[row], high, 1001)
        one = Predictive(mixture.f[:, :, [row]], mixture.sigma[:, :, [row]], mixture.share)
        below = [np.array([one.below(np.array([at]))[0] for at in part]) for part in (left, right)]
        expected = np.trapezoid(below[0] ** 2, left) + np.trapezoid((1 - below[1]) ** 2, right)
        assert mixture.crps(y)[row] == pytest.approx(expected, rel=1e-4)
    both = law(weighted, 0.5)
    fine = np.where(np.arange(4) < 3, both.sigma, 1e-3)  # one row's law makes all rows use pairs
    pairs = Predictive(both.f, fine, both.share)
    assert pairs.crps(y)[:3] == pytest.approx(both.crps(y)[:3], rel=1e-12)


def test_quantiles_and_their_losses():
    """Quantiles have their probability below them, and the true quantile minimises the mean loss."""
    mixture = law(weighted=True, spread=1.0)
    for q in (0.05, 0.5, 0.95):
        assert mixture.below(mixture.quantile(q)) == pytest.approx(q, abs=1e-12)
    y = np.random.default_rng(0).normal(size=100_000)
    at, *others = (pinball_loss(y, np.full(len(y), norm.ppf(0.9) + d), 0.9).mean() for d in (0, -0.2, 0.2))
    assert at < min(others)
    assert at == pytest.approx(norm.pdf(norm.ppf(0.9)), rel=0.02)


def test_two_models_are_compared_row_by_row():
    """The better model is told with the error of the difference; a copy of a model is no better."""
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(400, 2))
    y = 3 * X[:, 0] + 2 * X[:, 1] + 0.3 * rng.standard_normal(400)
    short = {
        "num_trees": 20,
        "num_chains": 2,
        "num_burnin": 100,
        "num_draws": 60,
        "thin": 1,
        "progress": False,
    }
    full, part = (
        fit({"a": X[:200, 0], "b": X[:200, 1]}, y[:200], features=f, seed=1, **short) for f in (None, ["a"])
    )
    held = {"a": X[200:, 0], "b": X[200:, 1]}
    found = full.compare(part, held, y[200:])
    log_score, rmse = found.differences
    assert (found.rows, log_score.score, rmse.score) == (200, "log_score", "rmse")
    assert (log_score.better, rmse.better) == ("first", "first")
    first, second = (each.score(held, y[200:], quick=True) for each in (full, part))
    assert log_score.difference == pytest.approx(first["log_score"] - second["log_score"], abs=1e-9)
    assert rmse.difference == pytest.approx(first["rmse"] - second["rmse"], abs=1e-9)
    squares = [(each.predict(held, level=None).mean - y[200:]) ** 2 for each in (full, part)]
    picks = rng.integers(0, 200, (2000, 200))
    resampled = np.sqrt(squares[0][picks].mean(axis=1)) - np.sqrt(squares[1][picks].mean(axis=1))
    assert rmse.error == pytest.approx(resampled.std(), rel=0.1)
    assert [each.better for each in full.compare(full, held, y[200:]).differences] == ["", ""]
    assert "the first is better" in str(found)
    assert found.to_pandas()["better"].tolist() == ["first", "first"]


def test_rows_that_go_together_count_once():
    """The error of a difference is that of sums by group, as large as differences of 60 means have it."""
    rng = np.random.default_rng(7)
    unit = np.repeat(np.arange(60), 10)
    scores = {"log_score": rng.standard_normal(60)[unit] + 0.1 * rng.standard_normal(600)}
    nothing = {"log_score": np.zeros(600)}
    by_row, by_unit = (ModelComparison.of(scores, nothing, of).differences[0] for of in (None, unit))
    means = scores["log_score"].reshape(60, 10).mean(axis=1)
    assert by_unit.difference == by_row.difference
    assert by_unit.error == pytest.approx(means.std(ddof=1) / np.sqrt(60), rel=1e-12)
    assert by_unit.error > 2.5 * by_row.error
    assert ModelComparison.of(scores, nothing, np.zeros(600, np.int64)).differences[0].error == np.inf


def test_classes_are_compared_by_their_probabilities():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(300, 2))
    y = np.where(X[:, 0] + 0.2 * rng.standard_normal(300) > 0.5, "yes", "no")
    right, wrong = (
        fit(X[:150], y[:150], family="probit", features=[name], seed=1, **SHORT) for name in ("x1", "x2")
    )
    found = right.compare(wrong, X[150:], y[150:])
    assert [each.score for each in found.differences] == ["log_score", "brier"]
    assert [each.better for each in found.differences] == ["first", "first"]
    p = right.predict(X[150:], level=None).mean
    assert found.differences[1].first == pytest.approx(np.mean((p - (y[150:] == "yes")) ** 2), rel=1e-9)
