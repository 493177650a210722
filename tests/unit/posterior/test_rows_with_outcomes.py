"""Rows with known outcomes, and rows to average over: their roles, and their labels in answers."""

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, fit, load
from tests.support.models.random_posteriors import make_posterior

RNG = np.random.default_rng(2)
N = 120
TABLE = pd.DataFrame({"a": RNG.uniform(size=N), "b": RNG.uniform(size=N), "days": RNG.uniform(1, 20, N)})
COUNTS = RNG.poisson(TABLE["days"] * np.exp(np.sin(6 * TABLE["a"])))
SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}


@pytest.fixture(scope="module")
def counted(all_kernels):
    """Fit counts with exposures."""
    return fit(TABLE, COUNTS, exposure=TABLE["days"], family="poisson", **SHORT)


@pytest.fixture(scope="module")
def weighted(all_kernels):
    """Fit numbers with weights."""
    return fit(TABLE[["a", "b"]], TABLE["days"], RNG.uniform(0.5, 2, N), **SHORT)


@pytest.mark.parametrize(
    "answer",
    [
        lambda p, X: p.score(X, COUNTS),
        lambda p, X: p.importance(X, COUNTS),
        lambda p, X: p.calibrate(X, COUNTS),
        lambda p, X: p.calibration(X, COUNTS),
        lambda p, X: p.partial_dependence("a", X),
        lambda p, X: p.accumulated_effects("a", X),
        lambda p, X: p.contrast(X, {"a": 1}, {"a": 0}),
        lambda p, X: p.interactions(["a", "b"], X),
    ],
)
def test_rows_need_the_exposures_of_the_model(counted, answer):
    """Without them an answer would be of an exposure of 1; the column is named, a prediction says so."""
    with pytest.raises(DataError, match="column 'days': the model was fitted with exposures"):
        answer(counted, TABLE[["a", "b"]])
    answer(counted, TABLE)
    assert "exposure of 1" in counted.predict(TABLE[["a", "b"]]).warnings[0]


def test_a_partial_dependence_is_of_the_exposures_of_its_rows(counted):
    """Ten times the exposures are ten times the counts; the reference rows have the exposures of theirs."""
    few = TABLE[:30]
    once, tenfold = (
        counted.partial_dependence("a", rows, grid={"a": [0.2, 0.8]}).mean
        for rows in (few, few.assign(days=10 * few["days"]))
    )
    np.testing.assert_allclose(tenfold, 10 * once)
    given, default = (counted.partial_dependence("a", rows).mean for rows in (TABLE, None))
    np.testing.assert_array_equal(given, default)


@pytest.mark.parametrize("method", ["score", "importance", "calibrate", "calibration"])
def test_rows_with_outcomes_need_weights_and_the_same_labels(weighted, method):
    """A model with weights is judged by those of the rows; pandas labels have to agree."""
    X, y, w = TABLE[["a", "b"]], TABLE["days"], pd.Series(np.ones(N))
    with pytest.raises(DataError, match="the model was fitted with weights: these rows need theirs too"):
        getattr(weighted, method)(X, y)
    getattr(weighted, method)(X, y, w)
    for mixed in ({"y": y[::-1], "weights": w}, {"y": y, "weights": w.sample(frac=1, random_state=0)}):
        with pytest.raises(DataError, match="different row labels"):
            getattr(weighted, method)(X, **mixed)
    getattr(weighted, method)(X, y[::-1].to_numpy(), w)


def test_chains_continue_by_the_rows_of_the_fit_alone(weighted, counted, tmp_path):
    """The rows of `extend` have labels, weights and exposures as those of `fit`."""
    X, y = TABLE[["a", "b"]], TABLE["days"]
    weighted.save(tmp_path / "weighted")
    counted.save(tmp_path / "counted")
    with pytest.raises(DataError, match="different row labels"):
        load(tmp_path / "weighted").extend(5, X, y[::-1], np.ones(N), progress=False)
    with pytest.raises(DataError, match="the model was fitted with weights"):
        load(tmp_path / "weighted").extend(5, X, y, progress=False)
    with pytest.raises(DataError, match="'days': the model was fitted with exposures"):
        load(tmp_path / "counted").extend(5, X, COUNTS, progress=False)
    assert load(tmp_path / "counted").extend(5, TABLE, COUNTS, progress=False).num_draws == 25


def test_data_frames_keep_the_rows_labels():
    """Predictions, contrasts and SHAP values of a pandas table have its index."""
    posterior, X, _ = make_posterior(num_draws=(8, 8))
    frame = pd.DataFrame(X).set_index(pd.Index([f"row {i % 70}" for i in range(len(X["x1"]))]))
    for answer in (
        posterior.predict(frame),
        posterior.predict(frame, level=None),
        posterior.contrast(frame, {"x1": 1}, {"x1": 0}),
        posterior.shap(frame),
    ):
        assert answer.to_pandas().index.equals(frame.index)
    part = frame.iloc[5:8]
    assert posterior.predict(part).to_pandas()["mean"]["row 6"] == posterior.predict(part).mean[1]
    assert posterior.predict(X).to_pandas().index.equals(pd.RangeIndex(len(frame)))
