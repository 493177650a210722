"""Intervals calibrated by held-out rows: coverage of a wrong model, ends, claims, and what is refused."""

import numpy as np
import pytest

from sampler import SettingsError, fit
from sampler.posterior.assessment.conformal import CalibratedIntervals
from sampler.posterior.assessment.predictive import Predictive

pytestmark = pytest.mark.usefixtures("all_kernels")

QUICK = {"num_trees": 10, "num_chains": 1, "num_burnin": 100, "num_draws": 30, "thin": 1, "progress": False}


def uneven(rows, seed):
    """Noise that grows with x and is skewed, of which a model of constant noise knows nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 1))
    return X, X[:, 0] + (0.1 + X[:, 0] ** 2) * (rng.exponential(size=rows) - 1)


@pytest.fixture(scope="module")
def posterior():
    return fit(*uneven(100, seed=1), **QUICK)


@pytest.mark.parametrize(
    ("rows", "level", "expected"), [(50, 0.9, 46 / 51), (30, 0.5, 16 / 31), (210, 0.8, 169 / 211)]
)
def test_a_wrong_model_covers_what_is_claimed(posterior, rows, level, expected):
    """Over many sets of calibration rows, new outcomes fall inside as often as the ranks say."""
    X, y = uneven(6000, seed=2)
    below = Predictive.of(posterior, posterior.encode(X), None).below(y)
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(600):
        chosen = rng.permutation(len(y))
        ends = CalibratedIntervals(posterior, below[chosen[:rows]]).quantiles(level)
        new = below[chosen[rows : rows + 200]]
        inside.append(np.mean((ends[0] <= new) & (new <= ends[1])))
    assert np.mean(inside) == pytest.approx(expected, abs=4 * np.std(inside) / 600**0.5)
    assert np.mean(inside) > level - 0.01


def test_intervals_are_predictive_quantiles(posterior):
    """At the levels that calibration chose; the mean stays as it is."""
    calibrated = posterior.calibrate(*uneven(60, seed=4))
    new, _ = uneven(5, seed=5)
    said = calibrated.predict(new, level=[0.5, 0.9])
    low, high = calibrated.quantiles(0.9)
    expected = posterior.predict(new, level=None, quantiles=[low, high])
    np.testing.assert_array_equal(said.intervals[1].lower, expected.quantiles[0].values)
    np.testing.assert_array_equal(said.intervals[1].upper, expected.quantiles[1].values)
    np.testing.assert_array_equal(said.mean, expected.mean)
    assert np.all(said.intervals[0].upper <= said.intervals[1].upper)
    claim = calibrated.claim(0.9)
    assert (claim.rows, claim.at_least) == (60, 0.9)
    assert "60 calibration rows, at least 0.9" in claim.text


def test_ends_are_infinite_where_no_finite_one_can_be_claimed(posterior):
    """Outcomes far beyond the predictive distribution, more of them than the level leaves out."""
    X, y = uneven(40, seed=6)
    y[:20] += 1e6
    said = posterior.calibrate(X, y).predict(X[:3], level=0.9)
    assert np.all(np.isinf(said.upper))
    assert np.all(np.isinf(said.lower))


def test_levels_need_rows_enough(posterior):
    """A level of 99% takes 99 rows; classes have no intervals."""
    calibrated = posterior.calibrate(*uneven(60, seed=4))
    with pytest.raises(SettingsError, match="at least 99 calibration rows") as refused:
        calibrated.predict(uneven(2, seed=1)[0], level=0.99)
    assert refused.value.field == "level"
    X, y = uneven(60, seed=1)
    classes = fit(X, y > 0.5, family="probit", **QUICK)
    with pytest.raises(SettingsError, match="classes have no predictive intervals"):
        classes.calibrate(X, y > 0.5)
