"""Calibrated intervals and sets: coverage of a wrong model, ends, claims, model files, refusals."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import Posterior, SettingsError, fit
from sampler.errors import DataError, PackedError
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.storage.conformal_table import CalibratedLevel, ConformalTable
from sampler.storage.model_header import Header, with_counts

QUICK = {"num_trees": 10, "num_chains": 1, "num_burnin": 100, "num_draws": 30, "thin": 1, "progress": False}


def uneven(rows, seed):
    """Noise that grows with x and is skewed, of which a model of constant noise knows nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 1))
    return X, X[:, 0] + (0.1 + X[:, 0] ** 2) * (rng.exponential(size=rows) - 1)


def classes(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 1))
    return X, np.array(["low", "middle", "high"])[
        np.digitize(X[:, 0] + 0.3 * rng.normal(size=rows), [0.3, 0.7])
    ]


@pytest.fixture(scope="module")
def posterior():
    return fit(*uneven(100, seed=1), **QUICK)


@pytest.mark.parametrize(
    ("rows", "level", "expected"), [(50, 0.9, 46 / 51), (30, 0.5, 16 / 31), (210, 0.8, 169 / 211)]
)
def test_a_wrong_model_covers_what_is_claimed(posterior, rows, level, expected):
    """Over many sets of calibration rows, new outcomes fall inside as often as the ranks say."""
    X, y = uneven(6000, seed=2)
    below = posterior.law.outcome_law(posterior.encode(X), None).below(y)
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(600):
        chosen = rng.permutation(len(y))
        ends = ConformalTable.of("holdout", 30, below[chosen[:rows]], of_classes=False).at(level).ends
        new = below[chosen[rows : rows + 200]]
        inside.append(np.mean((ends[0] <= new) & (new <= ends[1])))
    assert np.mean(inside) == pytest.approx(expected, abs=4 * np.std(inside) / 600**0.5)
    assert np.mean(inside) > level - 0.01


def test_prediction_sets_cover_what_is_claimed():
    """The rank of the own class's probability: 46 of 51, whatever the probabilities are worth."""
    rng = np.random.default_rng(1)
    p = rng.beta(2, 1, size=20_000)
    inside = []
    for _ in range(600):
        chosen = rng.permutation(len(p))
        least = ConformalTable.of("holdout", 30, p[chosen[:50]], of_classes=True).at(0.9).least_probability
        inside.append(np.mean(p[chosen[50:250]] >= least))
    assert np.mean(inside) == pytest.approx(46 / 51, abs=4 * np.std(inside) / 600**0.5)


def test_intervals_are_predictive_quantiles(posterior):
    """At the levels that calibration chose; the mean stays as it is, and the claims are with them."""
    calibrated = posterior.calibrate(*uneven(60, seed=4))
    new, _ = uneven(5, seed=5)
    prediction = calibrated.predict(new, level=[0.5, 0.9], interval="calibrated")
    half, most = calibrated.calibrated_levels([0.5, 0.9])
    expected = posterior.predict(new, level=None, quantiles=list(most.ends))
    np.testing.assert_array_equal(prediction.intervals[1].lower, expected.quantiles[0].values)
    np.testing.assert_array_equal(prediction.intervals[1].upper, expected.quantiles[1].values)
    np.testing.assert_array_equal(prediction.mean, expected.mean)
    assert np.all(prediction.intervals[0].upper <= prediction.intervals[1].upper)
    assert prediction.interval == "calibrated"
    assert prediction.claims == [half, most]
    assert (most.rows, most.at_least) == (60, 0.9)
    assert "60 rows held out from the fit, at least 0.9 fall inside these intervals" in most.text
    assert CalibratedLevel.from_json(most.to_json()) == most
    assert posterior.conformal_table is None


def test_a_model_file_keeps_the_calibration(posterior):
    calibrated = posterior.calibrate(*uneven(60, seed=4))
    again = Posterior.from_bytes(calibrated.to_bytes())
    new, _ = uneven(5, seed=5)
    expected = calibrated.predict(new, interval="calibrated")
    prediction = again.predict(new, interval="calibrated")
    np.testing.assert_array_equal(prediction.lower, expected.lower)
    assert prediction.claims == expected.claims
    header = calibrated.header
    assert Header.from_bytes(header.to_bytes()).to_bytes() == header.to_bytes()
    assert Header.from_bytes(with_counts(header.to_bytes(), num_draws=9, num_chains=1)).calibration is None
    for scores in (header.calibration.scores[::-1], header.calibration.scores + 1):
        damaged = replace(header, calibration=replace(header.calibration, scores=scores))
        with pytest.raises(PackedError, match="not ascending probabilities"):
            Header.from_bytes(damaged.to_bytes())


def test_ends_are_infinite_where_no_finite_one_can_be_claimed(posterior):
    """Outcomes far beyond the predictive distribution, more of them than the level leaves out."""
    X, y = uneven(40, seed=6)
    y[:20] += 1e6
    prediction = posterior.calibrate(X, y).predict(X[:3], level=0.9, interval="calibrated")
    assert np.all(np.isinf(prediction.upper))
    assert np.all(np.isinf(prediction.lower))


def test_what_is_refused(posterior):
    """A level of 99% takes 99 rows; models that are not calibrated, quantiles, and some of the draws."""
    calibrated, (new, _) = posterior.calibrate(*uneven(60, seed=4)), uneven(2, seed=1)
    for model, more, message, field in (
        (calibrated, {"level": 0.99}, "at least 99 calibration rows, and there are 60", "level"),
        (calibrated, {"quantiles": [0.1]}, "quantiles are not calibrated", "quantiles"),
        (calibrated, {"num_draws": 10}, "calibrated for all 30 draws per chain, not for 10", "num_draws"),
        (posterior, {}, "no calibrated intervals: fit it with calibrate", "interval"),
    ):
        with pytest.raises(SettingsError, match=message) as refused:
            model.predict(new, interval="calibrated", **more)
        assert refused.value.field == field
    X, y = uneven(60, seed=1)
    with pytest.raises(SettingsError, match="at least 9 held-out rows for 90% intervals, and 6 are") as short:
        fit(X, y, calibrate="holdout", holdout=0.1, **QUICK)
    assert short.value.field == "calibrate"
    with pytest.raises(SettingsError, match="one of none, holdout, folds, not 'fold'"):
        fit(X, y, calibrate="fold", **QUICK)
    y[17] = np.nan
    with pytest.raises(DataError, match="row 18"):
        fit(X, y, calibrate="holdout", holdout=0.5, **QUICK)


def test_sets_of_classes():
    """Sets of three classes by held-out rows have the probable classes, and never none."""
    X, y = classes(150, seed=1)
    posterior = fit(X, y, family="categorical", calibrate="holdout", **QUICK | {"num_trees": 5})
    assert (posterior.conformal_table.kind, posterior.conformal_table.rows) == ("holdout", 30)
    new, own = classes(300, seed=2)
    prediction = posterior.predict(new, level=[0.5, 0.9], interval="calibrated")
    small, large = (each.members for each in prediction.sets)
    assert np.all(small <= large)
    assert np.all(small.any(axis=1))
    least = prediction.claims[1].least_probability
    np.testing.assert_array_equal(large | (prediction.mean == prediction.mean.max(1, keepdims=True)), large)
    assert np.all(prediction.mean[~large] < least)
    inside = large[np.arange(300), [posterior.classes.index(each) for each in own]]
    assert inside.mean() > 0.8
    table = prediction.to_pandas()
    assert {"mean_low", "set_50_low", "set_90_middle", "interval"} <= {*table}
    assert table["set_90_middle"].dtype == bool
    assert "at least 0.9" in prediction._repr_html_()


def test_folds_score_rows_by_fits_that_have_not_seen_them():
    """The model has all training rows, the claim is an estimate, and two classes have sets."""
    X, y = uneven(60, seed=1)
    posterior = fit(X, y, calibrate="folds", **QUICK)
    assert (posterior.conformal_table.kind, posterior.conformal_table.rows) == ("folds", 60)
    assert posterior.header.num_rows == 60
    np.testing.assert_array_equal(posterior.predict(X[:3]).mean, fit(X, y, **QUICK).predict(X[:3]).mean)
    own = np.sort(conformity(posterior.law, LabelledRows.read(posterior.law, X, y)))
    assert np.abs(own - posterior.conformal_table.scores).max() > 0.005  # those of a fit that saw the rows
    (claim,) = posterior.predict(X, interval="calibrated").claims
    assert claim.at_least is None
    assert "Estimated: about 0.9 of new rows like the 60 training rows" in claim.text
    two = fit(X, y > 0.5, family="auto", calibrate="folds", **QUICK | {"num_burnin": 20, "num_draws": 10})
    (sets,) = two.predict(X[:4], interval="calibrated").sets
    assert sets.members.shape == (4, 2)
