"""scikit-learn estimators: its checks pass, and pipelines and searches accept them."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sampler import SettingsError, fit, holdout_rows
from sampler.sklearn import BARTClassifier, BARTRegressor, BARTSurvival, expected_failed_checks

pytestmark = pytest.mark.usefixtures("all_kernels")

SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 25, "thin": 1}
CHECKED = SHORT | {"num_trees": 10, "num_chains": 1}


@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")
@parametrize_with_checks(
    [BARTRegressor(**CHECKED), BARTClassifier(**CHECKED)], expected_failed_checks=expected_failed_checks
)
def test_estimator_check(estimator, check):
    """scikit-learn's checks pass, except the named ones that precision weights cannot satisfy."""
    check(estimator)


@pytest.fixture(scope="module")
def data():
    """Return a curve and a step with noise of sd 0.2."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(200, 3))
    return X, np.sin(6 * X[:, 0]) + (X[:, 1] > 0.5) + 0.2 * rng.normal(size=200)


def test_the_posterior_is_that_of_fit(data):
    """An estimator has the draws of `sampler.fit` with its seed."""
    X, y = data
    model = BARTRegressor(**SHORT, random_state=5).fit(X, y)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    ours = fit(X, y, seed=seed, progress=False, **SHORT)
    np.testing.assert_array_equal(model.posterior_.sigma, ours.sigma)
    prediction = ours.predict(X, interval="predictive")
    np.testing.assert_array_equal(
        model.predict_interval(X), np.column_stack([prediction.lower, prediction.upper])
    )
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, prediction.mean)
    np.testing.assert_array_equal(sd, ours.predict(X).sd)


def test_searches_and_pipelines_take_it(data):
    """Estimators can be cloned, scored, searched over and put in pipelines."""
    X, y = data
    pipe = make_pipeline(make_column_transformer((StandardScaler(), [0, 1, 2])), BARTRegressor(**SHORT))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.5
    search = GridSearchCV(BARTRegressor(**SHORT, random_state=0), {"num_trees": [5, 20]}, cv=2).fit(X, y)
    assert search.best_params_["num_trees"] in {5, 20}
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_tables_keep_their_categories(make):
    """Tables with text are used directly, with columns matched by name."""
    town = np.tile(["a", "b", "c"], 40)
    y = np.where(town == "b", 1.0, 0.0) + 0.01 * np.arange(120) / 120
    model = BARTRegressor(**SHORT, random_state=0).fit(make({"town": town, "x": np.arange(120.0)}), y)
    assert list(model.feature_names_in_) == ["town", "x"]
    prediction = model.predict(make({"town": ["b", "a"], "x": [3.0, 3.0]}))
    assert prediction[0] > 0.5 > prediction[1]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(make({"city": ["b"], "x": [3.0]}))


def test_columns_and_target_keep_their_names(data):
    """Also in a table of numbers alone, which scikit-learn turns into an array; effects are asked by name."""
    X, y = data
    table = pd.DataFrame(X, columns=["size", "rooms", "age"])
    model = BARTRegressor(**SHORT, random_state=0).fit(table, pd.Series(y, name="price"))
    assert [column.name for column in model.posterior_.schema.columns] == ["size", "rooms", "age"]
    assert model.posterior_.schema.target.name == "price"
    assert model.posterior_.partial_dependence(["rooms"]).features == ["rooms"]
    arrays = BARTRegressor(**SHORT, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(table), arrays.predict(X))
    renamed = table.rename(columns={"age": "price"})  # a feature of that name stays a feature
    model = BARTRegressor(**SHORT, random_state=0).fit(renamed, pd.Series(y, name="price"))
    assert len(model.posterior_.schema.columns) == 3
    assert model.posterior_.schema.target.name == "target"


def test_methods_and_threads_are_parameters(data):
    """Any method with its own defaults; the number of threads doesn't change the draws."""
    X, y = data
    short = SHORT | {"num_trees": None}
    tree = BARTRegressor(method="bcart", **short, random_state=0).fit(X, y)
    assert tree.posterior_.leaf_counts.shape[2] == 1
    labels = np.where(y > np.median(y), "no", "yes")
    classifier = BARTClassifier(method="bcart", **short, random_state=0).fit(X, labels)
    assert classifier.predict_proba(X).shape == (200, 2)
    one = BARTRegressor(n_jobs=1, **SHORT, random_state=0).fit(X, y).predict(X)
    np.testing.assert_array_equal(one, BARTRegressor(n_jobs=-1, **SHORT, random_state=0).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="n_jobs"):
        BARTRegressor(n_jobs=0, **SHORT).fit(X, y)
    with pytest.raises(ValueError, match="num_threads must be"):
        fit(X, y, num_threads=0)


def test_noise_line_and_transform_are_parameters(data):
    """They reach the fit, whose draws are the same; a classifier refuses them by name."""
    X, y = data
    settings = {"noise": "forest", "linear": True}
    power = "yeo-johnson"
    model = BARTRegressor(**SHORT, **settings, outcome_transform=power, random_state=5).fit(X, y)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    ours = fit(X, y, seed=seed, progress=False, transform=power, **SHORT, **settings)
    np.testing.assert_array_equal(model.predict(X), ours.predict(X).mean)
    with pytest.raises(SettingsError) as refused:
        BARTClassifier(**SHORT, noise="forest").fit(X, y > 0)
    assert refused.value.field == "noise"


@pytest.mark.parametrize("calibrate", ["holdout", "folds"])
def test_intervals_are_calibrated(data, calibrate):
    """The ends are those of `fit` with the same settings; wrong levels and ways are refused by name."""
    X, y = data
    model = BARTRegressor(**SHORT, calibrate=calibrate, random_state=5).fit(X, y)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    ours = fit(X, y, seed=seed, progress=False, calibrate=calibrate, **SHORT)
    ours = ours.predict(X, interval="calibrated")
    ends = model.predict_interval(X, interval="calibrated")
    np.testing.assert_array_equal(ends, np.column_stack([ours.lower, ours.upper]))
    assert np.any(ends != model.predict_interval(X))  # predictive by default, as everywhere
    with pytest.raises(SettingsError, match="takes at least 999"):
        model.predict_interval(X, level=0.999, interval="calibrated")
    with pytest.raises(SettingsError, match="calibrat"):
        BARTRegressor(**SHORT, calibrate="fold").fit(X, y)
    with pytest.raises(SettingsError, match="fit it with calibrate"):
        BARTRegressor(**SHORT).fit(X, y).predict_interval(X, interval="calibrated")


def test_classes_have_prediction_sets(data):
    """Sets are in the order of `classes_` and have the own class of nine rows in ten; one may be held out."""
    X, y = data
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))]
    model = BARTClassifier(**SHORT, calibrate="holdout", holdout=0.5, random_state=0).fit(X, labels)
    sets, likeliest = model.predict_set(X), model.predict_proba(X).argmax(axis=1)
    assert sets.dtype == bool
    assert sets[np.arange(200), likeliest].all()
    own = np.searchsorted(model.classes_, labels)
    assert sets[np.arange(200), own].mean() > 0.85
    two = BARTClassifier(**SHORT, calibrate="folds", random_state=0).fit(X, labels == "low")
    assert two.predict_set(X).shape == (200, 2)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    rare = np.where(np.arange(200) == holdout_rows(200, 0.5, seed)[0], "alone", labels)
    model = BARTClassifier(**SHORT, calibrate="holdout", holdout=0.5, random_state=0).fit(X, rare)
    assert list(model.classes_) == ["alone", "high", "low", "middle"]
    assert np.all(model.predict_proba(X)[:, 0] == 0)
    assert not model.predict_set(X)[:, 0].any()
    assert model.score(X, rare) > 0.6


def test_rows_of_weight_zero_are_left_out(data):
    """Rows of weight zero have no effect."""
    X, y = data
    weights = np.r_[np.ones(150), np.zeros(50)]
    some = BARTRegressor(**SHORT, random_state=0).fit(X, y, sample_weight=weights).predict(X)
    none = (
        BARTRegressor(**SHORT, random_state=0).fit(X[:150], y[:150], sample_weight=weights[:150]).predict(X)
    )
    np.testing.assert_array_equal(some, none)


def test_classes_keep_their_labels(data):
    """Probabilities are in the order of `classes_`; the likelier class is predicted, with its interval."""
    X, y = data
    labels = np.where(y > np.median(y), "no", "yes")  # the second class in sorted order is the lower half
    model = BARTClassifier(**SHORT, random_state=0).fit(X, labels)
    assert list(model.classes_) == ["no", "yes"]
    probability = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), np.where(probability[:, 1] > 0.5, "yes", "no"))
    assert model.score(X, labels) > 0.8
    low, high = model.predict_interval(X).T
    assert np.all((low <= probability[:, 1]) & (probability[:, 1] <= high))


@pytest.mark.parametrize(
    ("labels", "method"),
    [
        (("N", "Y"), "bart"),
        (("yes", "no"), "bcart"),
        ((True, False), "bart"),
        ((10, 9, 100), "bart"),
        (("10", "9", "100"), "bart"),
        ((2.0, 1.0), "bart"),
    ],
)
def test_the_posterior_has_the_labels_of_the_classes(data, labels, method):
    """Its classes are the labels, so that scores by it are those by the estimator, whatever their order."""
    X, y = data
    own = np.array(labels)[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3][: len(labels) - 1]))]
    short = SHORT if method == "bart" else SHORT | {"num_trees": None, "num_burnin": 500}
    model = BARTClassifier(**short, method=method, random_state=0).fit(X, own)
    assert model.score(X, own) > 0.6
    assert model.posterior_.score(X, own)["accuracy"] == pytest.approx(model.score(X, own))
    p = model.predict_proba(X)[np.arange(len(own)), np.searchsorted(model.classes_, own)]
    assert model.posterior_.score(X, own)["log_loss"] == pytest.approx(-np.log(p).mean())
    assert set(model.posterior_.classes) == {
        str(each).lower() if isinstance(each, bool) else f"{each:g}" if isinstance(each, float) else str(each)
        for each in labels
    }


def test_row_labels_that_differ_are_refused(data):
    """scikit-learn's checks drop labels of pandas objects, so they are compared before."""
    X, y = pd.DataFrame(data[0], columns=list("abc")), pd.Series(data[1])
    for wrong in ({"y": y[::-1]}, {"y": y, "sample_weight": pd.Series(np.ones(200))[::-1]}):
        with pytest.raises(ValueError, match="different row labels"):
            BARTRegressor(**SHORT).fit(X, **wrong)
    with pytest.raises(ValueError, match="different row labels"):
        BARTClassifier(**SHORT).fit(X, y[::-1] > 0)


def test_three_classes_have_a_probability_each(data):
    """More classes than two: probabilities by class, in the order of `classes_`, with intervals."""
    X, y = data
    labels = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))]
    model = BARTClassifier(**SHORT, random_state=0).fit(X, labels)
    assert list(model.classes_) == ["high", "low", "middle"]
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert model.score(X, labels) > 0.6
    assert model.predict_interval(X).shape == (200, 3, 2)
    with pytest.raises(ValueError, match="Unknown label type"):
        BARTClassifier(**SHORT).fit(X, y)


def test_copies_predict_the_same(data):
    """An estimator pickled, as joblib does, predicts the same."""
    X, y = data
    model = BARTRegressor(**SHORT, random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))  # written by us
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_counts_have_their_exposure_in_a_column():
    """Rates are in proportion to the exposures of new rows, in a frame and after a clone."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.uniform(size=300), "days": rng.choice([1.0, 10.0], 300)})
    y = rng.poisson(X["days"] * np.exp(X["x"]))
    model = clone(BARTRegressor(family="poisson", exposure="days", random_state=0, **SHORT)).fit(X, y)
    assert "days" not in [column.name for column in model.posterior_.schema.columns]
    new = pd.DataFrame({"x": [0.5, 0.5], "days": [1.0, 10.0]})
    once, tenfold = model.predict(new)
    assert tenfold == pytest.approx(10 * once)
    assert once == pytest.approx(np.exp(0.5), rel=0.3)


def test_groups_are_named_in_the_estimator():
    rng = np.random.default_rng(2)
    group = rng.integers(0, 12, 300)
    X = pd.DataFrame({"x": rng.uniform(size=300), "site": [f"s{each}" for each in group]})
    y = X["x"] + 2 * rng.standard_normal(12)[group] + 0.2 * rng.standard_normal(300)
    model = BARTRegressor(groups="site", random_state=0, **SHORT).fit(X, y)
    assert [each.name for each in model.posterior_.schema.groups] == ["site"]
    assert model.score(X, y) > 0.8


def test_times_until_events_come_as_in_scikit_survival():
    """Risks rank times, curves fall from 1, and censored rows count as such."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(300, 2))
    time = np.exp(2 - 3 * X[:, 0] + 0.4 * rng.standard_normal(300))
    end = rng.uniform(0.5, 15, 300)
    y = np.array([*zip(time <= end, np.minimum(time, end), strict=True)], [("event", bool), ("time", float)])
    model = BARTSurvival(random_state=0, **SHORT).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.75
    risk = model.predict(np.array([[0.1, 0.5], [0.9, 0.5]]))
    assert risk[1] > risk[0]
    curves = model.predict_survival_function(X[200:210])
    assert curves.shape == (10, len(model.unique_times_))
    assert np.all(np.diff(curves, axis=1) <= 1e-12)
    with pytest.raises(ValueError, match="structured array"):
        model.fit(X, time)


def test_a_classifier_of_ordered_classes():
    """Numbers and an ordered Categorical have their order; columns stand at the places of `classes_`."""
    X = np.random.default_rng(5).uniform(size=(90, 2))
    grade = np.digitize(X[:, 0], [0.3, 0.7])
    brief = {"num_trees": 10, "num_chains": 1, "num_burnin": 40, "num_draws": 20, "thin": 1}
    numbers = BARTClassifier(family="ordinal", random_state=0, **brief).fit(X, grade)
    names = pd.Categorical.from_codes(grade, ["poor", "fair", "fine"], ordered=True)
    named = BARTClassifier(family="ordinal", random_state=0, **brief).fit(X, pd.Series(names))
    assert named.posterior_.classes == ("poor", "fair", "fine")
    assert named.classes_.tolist() == ["fair", "fine", "poor"]
    np.testing.assert_array_equal(named.predict_proba(X)[:, [2, 0, 1]], numbers.predict_proba(X))
    assert np.mean(named.predict(X) == np.asarray(names)) > 0.8
    assert numbers.posterior_.family == "ordinal"
