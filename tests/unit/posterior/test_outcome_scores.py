"""Scores of outcomes row by row: numbers, counts, classes, censored times, calibrated or not."""

import numpy as np
import pytest

from sampler import fit
from sampler.data.rows import Rows
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.outcome_scores import score_outcomes
from sampler.posterior.assessment.scoring import score

QUICK = {"num_trees": 10, "num_chains": 1, "num_burnin": 50, "num_draws": 30, "thin": 1, "progress": False}


def table(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 1))
    return X, rng


def numbers(rows, seed):
    X, rng = table(rows, seed)
    return X, 3 * X[:, 0] + rng.normal(size=rows)


def uniform_share(values):
    """Largest distance of the distribution function of values from the uniform one."""
    return float(np.max(np.abs(np.sort(values) - (np.arange(len(values)) + 0.5) / len(values))))


def shares(rows):
    return np.random.default_rng(11).uniform(size=rows)


def test_scores_of_numbers_are_those_of_the_held_out_rows():
    """Means and counts over rows equal what `score` reports."""
    posterior = fit(*numbers(150, 1), **QUICK)
    rows = LabelledRows.read(posterior.law, *numbers(1200, 2))
    scores, expected = (
        score_outcomes(posterior.law, rows, shares(1200)),
        score(posterior.law, rows, quick=True),
    )
    assert np.mean(scores.log_score) == pytest.approx(expected["log_score"])
    assert np.sqrt(np.mean(scores.error)) == pytest.approx(expected["rmse"])
    coverage = {each["level"]: each["coverage"] for each in expected["coverage"]}
    assert [scores.inside_50.mean(), scores.inside_90.mean()] == [coverage[0.5], coverage[0.9]]
    np.testing.assert_array_equal(scores.above, scores.pit > 0.5)
    np.testing.assert_array_equal(scores.score, conformity(posterior.law, rows))


def test_calibrated_intervals_are_those_judged():
    """For a calibrated model, an outcome is inside where the calibrated interval has it."""
    X, y = numbers(150, 1)
    posterior = fit(X, y, **QUICK).calibrate(*numbers(60, 5))
    rows = LabelledRows.read(posterior.law, *numbers(300, 2))
    scores = score_outcomes(posterior.law, rows, shares(300))
    for level, marks in ((0.5, scores.inside_50), (0.9, scores.inside_90)):
        answer = posterior.predict(rows.coded, level, "calibrated")
        np.testing.assert_array_equal(marks, (answer.lower <= rows.y) & (rows.y <= answer.upper))


def test_counts_are_randomised_by_the_shares_given():
    """PITs of counts, each alone in its report, are uniform: not by the same share each."""
    X, rng = table(400, 3)
    y = rng.poisson(1 + X[:, 0])
    posterior = fit(X, y, family="poisson", **QUICK)
    X_new, rng = table(1500, 4)
    rows = LabelledRows.read(posterior.law, X_new, rng.poisson(1 + X_new[:, 0]))
    assert uniform_share(score_outcomes(posterior.law, rows, shares(1500)).pit) < 0.06
    equal = score_outcomes(posterior.law, rows, np.zeros(1500)).pit
    assert uniform_share(equal) > 0.15


def test_classes_have_uniform_ranks_and_sets():
    """PIT values of three classes are uniform and 90% sets hold; an unknown class is outside, with PIT 1."""
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(2400, 1))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * rng.normal(size=2400), [0.3, 0.7])]
    posterior = fit(X[:1400], y[:1400], family="categorical", **QUICK)
    rows = LabelledRows.read(posterior.law, X[1400:], y[1400:])
    scores = score_outcomes(posterior.law, rows, shares(1000))
    assert uniform_share(scores.pit) < 0.06
    assert 0.86 < scores.inside_90.mean() < 0.94
    expected = score(posterior.law, rows)
    assert -scores.log_score.mean() == pytest.approx(expected["log_loss"])
    assert scores.error.mean() == pytest.approx(expected["brier"])
    assert not scores.above.any()
    strange = LabelledRows.of(posterior.law, Rows.read(X[:2], ["new", "a"]))
    odd = score_outcomes(posterior.law, strange, shares(2))
    assert (odd.pit[0], odd.inside_90[0], odd.score[0]) == (1.0, False, 0.0)
    calibrated = posterior.calibrate(X[1400:1900], y[1400:1900])
    rest = LabelledRows.read(calibrated.law, X[1900:], y[1900:])
    marks = score_outcomes(calibrated.law, rest, shares(500)).inside_90
    sets = calibrated.predict(rest.coded, 0.9, "calibrated").sets[0].members
    np.testing.assert_array_equal(marks, sets[np.arange(500), rest.y.astype(int)])


def test_two_classes_have_brier_scores_of_the_second():
    """Figures of two classes are those of `score`."""
    rng = np.random.default_rng(8)
    X = rng.uniform(size=(500, 1))
    y = rng.uniform(size=500) < X[:, 0]
    posterior = fit(X[:300], y[:300], family="probit", **QUICK)
    rows = LabelledRows.read(posterior.law, X[300:], y[300:])
    scores, expected = score_outcomes(posterior.law, rows, shares(200)), score(posterior.law, rows)
    assert scores.error.mean() == pytest.approx(expected["brier"])
    assert -scores.log_score.mean() == pytest.approx(expected["log_loss"])


def test_censored_times_are_uniform_between_their_limits():
    """PITs of times of which a third are censored are uniform; their errors are unknown."""
    rng = np.random.default_rng(9)
    X = rng.uniform(size=(1600, 1))
    times, ends = np.exp(X[:, 0] + 0.5 * rng.normal(size=1600)), np.exp(0.8 + rng.normal(size=1600))
    y, event = np.minimum(times, ends), times <= ends
    posterior = fit({"x": X[:800, 0]}, y[:800], event=event[:800], **QUICK)
    new = {"x": X[800:, 0], "event": event[800:]}
    scores = score_outcomes(posterior.law, LabelledRows.read(posterior.law, new, y[800:]), shares(800))
    assert uniform_share(scores.pit) < 0.07
    np.testing.assert_array_equal(np.isnan(scores.error), ~event[800:])
