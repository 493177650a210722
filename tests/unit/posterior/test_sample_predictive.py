"""Draws of new outcomes have the predictive distribution, under every family, noise and transform."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from sampler import SettingsError
from sampler.data.transform import Transform
from sampler.posterior.laws.count_law import CountLaw
from sampler.posterior.laws.predictive import Predictive
from sampler.posterior.weighting.student_noise import Student
from tests.support import answer_digests, fit_digests

COPIES = 150  # rows alike, each with its own outcomes


def rows_alike(outcome: str) -> dict:
    """Repeat three rows; of groups one is known, and each copy of the others is of another new group."""
    X = fit_digests.data(outcome)[0]
    rows = {name: values[:3] * COPIES for name, values in X.items()}
    if "site" in rows:
        rows["site"] = [site if k % 3 else 100 + k for k, site in enumerate(rows["site"])]
    return rows


def distance_from_uniform(p: np.ndarray, share: np.ndarray) -> float:
    """Compute Kolmogorov's distance of probabilities [draw, copy] from uniform ones, weighted by draw."""
    order = np.argsort(p, axis=None)
    steps = np.cumsum(np.repeat(share / p.shape[1], p.shape[1])[order])
    return float(np.max(np.abs(steps - np.sort(p, axis=None))))


@pytest.mark.parametrize("case", answer_digests.CASES)
def test_draws_have_the_predictive_distribution(case):
    """Probabilities of values below the draws are uniform, or classes as frequent as predicted."""
    outcome, weighted, _ = fit_digests.CASES[case]
    posterior, rows = fit_digests.fitted(case), rows_alike(outcome)
    weights = np.tile([0.5, 1.0, 4.0], COPIES) if weighted else None
    drawn = posterior.sample_predictive(rows, weights, seed=3)
    assert drawn.shape == (posterior.num_chains, posterior.num_draws, 3 * COPIES)
    flat = drawn.reshape(-1, 3 * COPIES)
    share = posterior.law.weights.shares(posterior.num_draws)
    if posterior.classes is not None:
        p = posterior.predict(rows, level=None).mean[:3].reshape(3, -1)
        p = p if len(posterior.classes) > 2 else np.hstack([1 - p, p])
        seen = np.array([share @ (flat == k) for k in range(len(posterior.classes))])
        np.testing.assert_allclose(seen.T.reshape(COPIES, 3, -1).mean(axis=0), p, atol=0.04)
        return
    law = posterior.law.outcome_law(posterior.encode(rows), weights)
    rng = np.random.default_rng(0)
    below = np.array([law.below(y, rng.uniform(size=len(y))) for y in flat])
    for row in range(3):
        assert distance_from_uniform(below[:, row::3], share) < 0.06


def test_draws_are_reproducible():
    """Equal seeds give equal draws, others give others; fewer draws are those of the first of each chain."""
    posterior = fit_digests.fitted("bart")
    X = fit_digests.data("number")[0]
    drawn = posterior.sample_predictive(X, seed=1)
    np.testing.assert_array_equal(posterior.sample_predictive(X, seed=1), drawn)
    assert np.all(posterior.sample_predictive(X, seed=2) != drawn)
    few = posterior.sample_predictive(X, num_draws=2)
    assert few.shape == (posterior.num_chains, 2, fit_digests.ROWS)
    apart = few - posterior.sample(X, 2)
    assert np.abs(apart / posterior.sigma[:, :2, None]).max() < 6


@pytest.mark.parametrize("case", ["groups", "group-slopes"])
def test_rows_of_a_new_group_share_its_effects(case):
    """Outcomes of one new group go together; rows without a group don't."""
    posterior = fit_digests.fitted(case)
    count = 400  # pairs of rows, each pair of a group of its own
    rows = {name: [values[0]] * 2 * count for name, values in fit_digests.data("grouped")[0].items()}

    def covariance(sites):
        drawn = posterior.sample_predictive(rows | {"site": sites}, seed=4)
        left = (drawn - drawn.mean(axis=2, keepdims=True)).reshape(-1, count, 2)
        return np.mean(left[:, :, 0] * left[:, :, 1])

    new, known = (
        np.mean(posterior.sample_learnt(rows | {"site": [site] * 2 * count})[1] ** 2) for site in ("new", 0)
    )
    assert covariance([f"new {k // 2}" for k in range(2 * count)]) == pytest.approx(new - known, rel=0.3)
    for apart in ([f"new {k}" for k in range(2 * count)], [None] * 2 * count):
        assert abs(covariance(apart)) < 0.3 * (new - known)


def test_exposure_scales_counts():
    """Rows of a hundred times the exposure have a hundred times as large counts."""
    posterior = fit_digests.fitted("counts")
    coded = posterior.encode(fit_digests.data("count")[0])
    few, many = (
        posterior.sample_predictive(replace(coded, by_role={"exposure": np.full(fit_digests.ROWS, each)}))
        for each in (1.0, 100.0)
    )
    assert many.mean() / few.mean() == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("transform", [Transform("log"), Transform("yeo-johnson", 1.0, 2.0, 0.3)])
def test_transformed_outcomes_with_heavy_tails(transform):
    """Noise by draw and row, tails by draw, and a transform: the law's own probabilities are uniform."""
    rng = np.random.default_rng(2)
    f, sigma = rng.normal(size=(2, 5, 1)), rng.uniform(0.2, 1.0, size=(2, 5, 1))
    degrees = rng.choice([3.0, 5.0, 30.0], size=(2, 5, 1))
    of_copies = [np.repeat(each, 300, axis=2) for each in (f, sigma)]
    law = Predictive(*of_copies, None, Student(degrees), transform)
    drawn = law.sample(rng)
    below = [law.below(y) for y in drawn]
    assert kstest(np.reshape(below, -1), "uniform").pvalue > 1e-4


def test_counts_of_any_size_are_drawn():
    """Means from near 0 to beyond what 64 bits hold give finite whole counts of about that size."""
    mean = np.array([[1e-300], [1.0], [1e6], [1e17], [1e25]])
    for dispersion in (None, np.full(1, 1e9)):
        counts = CountLaw(mean, dispersion, None).sample(np.random.default_rng(0))
        assert np.all(counts == np.rint(counts))
        np.testing.assert_allclose(counts[0, 2:], mean[2:, 0], rtol=0.01)


def test_weights_of_counts_are_refused():
    """Weights are refused where the family has none, with the field."""
    posterior = fit_digests.fitted("counts")
    with pytest.raises(SettingsError, match="counts take no weights") as refused:
        posterior.sample_predictive(fit_digests.data("count")[0], [1.0] * fit_digests.ROWS)
    assert refused.value.field == "weights"
