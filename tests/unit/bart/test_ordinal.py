"""Ordered classes: their order, probabilities, files, extension, scores and sets, and refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from sampler import DataError, DataWarning, SettingsError, fit, load
from sampler.bart.chain import Chain
from sampler.bart.kernels.row_latents.latent_outcomes import draw_latent_outcomes
from sampler.data.rows import Rows
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.scoring import score
from sampler.preparation import prepare
from tests.reference.ordered import rps
from tests.support.chain_driver import check_resuming, draws_of, training

FAST = {"num_trees": 10, "num_chains": 2, "num_burnin": 60, "num_draws": 40, "thin": 1, "progress": False}
GRADES = ("poor", "fair", "good", "top")
SHORT = FAST | {"family": "ordinal", "num_burnin": 10, "num_draws": 10}


def grades(rows, seed=0):
    """Four ordered classes that follow two columns: rows, numbers of the classes, probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 3))
    f = 3 * X[:, 0] - np.sin(3 * X[:, 1])
    edges = ndtr(np.array([-np.inf, 0, 0.8, 1.9, np.inf]) - f[:, None])
    y = np.searchsorted([0, 0.8, 1.9], f + rng.normal(size=rows))
    return X, y, np.diff(edges, axis=1)


def test_a_chain_resumes_bit_for_bit():
    """From a checkpoint after any iteration, thresholds too."""
    X, y, _ = grades(80)
    settings = {"num_trees": 7, "num_chains": 1, "num_burnin": 12, "num_draws": 8, "thin": 1}
    check_resuming(prepare(X, y, family="ordinal", **settings).training)


def test_two_classes_are_those_of_probit():
    """One latent draw of two ordered classes is that of probit with the threshold's offset."""
    X, y, _ = grades(70)
    y = (y > 1).astype(float)
    one = {"num_trees": 3, "num_chains": 1, "num_burnin": 0, "num_draws": 1, "thin": 10, "seed": 3}
    ordered = Chain.start(prepare(X, y, family="ordinal", **one).training, 0)
    (threshold,) = ordered.training.constants.thresholds
    probit = prepare(X, y, family="probit", prior={"offset": -threshold}, **one).training
    assert ordered.training.constants.step == probit.constants.step
    rng = np.random.default_rng(1)
    f = 0.01 * rng.integers(-80, 80, 70)
    many = {}
    for chain in (ordered, Chain.start(probit, 0)):
        likelihood = chain._likelihood
        outcome, residual = likelihood.outcome, likelihood.models[0].residual
        outcome.limits[:] = 0
        if len(outcome.censored):
            edge = threshold / outcome.step
            outcome.limits[:] = np.where(y, edge, -np.inf), np.where(y, np.inf, edge)
        residual[:70] = outcome.latent[:70] - np.rint(f / outcome.step).astype(int)
        draw_latent_outcomes(outcome, likelihood.models[0], chain._work.random)
        many[chain.training.settings.family] = residual[:70].copy()
    assert np.abs(many["ordinal"] - many["probit"]).max() <= 1


def test_without_data_thresholds_have_their_prior():
    """They are ordered standard normals: class probabilities at f = 0 are uniform."""
    settings = {"num_trees": 2, "num_burnin": 0, "num_draws": 2000, "thin": 1, "prior_only": True}
    draws = draws_of(training([[0, 1, 2, 3]], (0, 1, 2, 3), family="ordinal", **settings))
    low, middle = draws.scalars["threshold 1"], draws.scalars["threshold 2"]
    assert ndtr(low).mean() == pytest.approx(1 / 4, abs=0.03)
    assert ndtr(middle).mean() == pytest.approx(1 / 2, abs=0.03)


def test_probabilities_of_grades(tmp_path):
    """Close to the truth, in order and intervals, the same from a file."""
    X, y, p = grades(600)
    text = np.array(GRADES)[y]
    settings = FAST | {"num_burnin": 150, "family": "ordinal", "levels": GRADES}
    posterior = fit(X, text, **settings)
    assert posterior.classes == GRADES
    assert posterior.sigma is None
    prediction = posterior.predict(X[:200])
    assert prediction.mean.shape == prediction.lower.shape == (200, 4)
    np.testing.assert_allclose(prediction.mean.sum(axis=1), 1)
    assert np.all((prediction.lower <= prediction.mean) & (prediction.mean <= prediction.upper))
    assert np.abs(prediction.mean - p[:200]).mean() < 0.06
    posterior.save(tmp_path / "model.bart")
    again = load(tmp_path / "model.bart")
    np.testing.assert_array_equal(again.predict(X[[5]]).lower, prediction.lower[[5]])
    scores = posterior.score(X[:200], text[:200])
    assert scores["rps"] == pytest.approx(rps(prediction.mean, y[:200]).mean(), abs=1e-12)
    assert scores["rps"] < rps(p[:200], y[:200]).mean() + 0.01
    assert posterior.calibration(X, text)
    effect = posterior.partial_dependence(["x1"], X[:20])
    assert effect.mean.shape == (19, 4)
    assert effect.mean[-1, 3] > effect.mean[0, 3] + 0.2
    values = posterior.shap(X[:3], X[:50])
    assert "latent" in values.scale


def test_the_order_is_that_of_the_data_unless_given():
    """Numbers have theirs, a Categorical its categories', and levels say it of any others."""
    X, y, _ = grades(60)
    assert fit(X, 10 - y, **SHORT).classes == ("7", "8", "9", "10")
    column = pd.Series(pd.Categorical(np.array(GRADES)[y], [*GRADES, "never"], ordered=True))
    with pytest.warns(
        DataWarning, match=r"no row has 'never'.* its classes are 'poor', 'fair', 'good', 'top'"
    ):
        categorical = fit(X, column, **SHORT)  # a class without rows moves the places of others
    assert categorical.classes == GRADES
    given = fit(X, np.array(GRADES)[y], levels=[*GRADES], **SHORT)
    np.testing.assert_array_equal(given.predict(X).mean, categorical.predict(X).mean)
    turned = fit(X, y, levels=[3, 2, 1, 0], **SHORT)
    assert turned.classes == ("3", "2", "1", "0")


def test_an_unknown_number_is_scored_in_its_place():
    """A rating that only scored rows have counts as far as it is."""
    X, y, _ = grades(120)
    known = y != 1
    posterior = fit(X[known], y[known], **SHORT)
    p = posterior.predict(X).mean
    filled = np.insert(p, 1, 0.0, axis=1)
    rows = LabelledRows.of(posterior.law, Rows.read(X, y))
    assert score(posterior.law, rows)["rps"] == pytest.approx(rps(filled, y).mean(), abs=1e-12)


def test_sets_are_runs_of_neighbours():
    """Calibrated sets have no gap, and hold the classes of the rows they are calibrated by."""
    X, y, _ = grades(300, seed=4)
    posterior = fit(X, y, calibrate="holdout", holdout=0.4, **SHORT)
    members = posterior.predict(X, level=0.8, interval="calibrated").sets[0].members
    first, last = members.argmax(axis=1), 3 - members[:, ::-1].argmax(axis=1)
    np.testing.assert_array_equal(members.sum(axis=1), last - first + 1)
    assert members[np.arange(300), y].mean() > 0.7


def test_groups_stand_beside_the_trees():
    """Groups' intercepts move all thresholds alike, and new groups widen the latent outcome."""
    X, y, _ = grades(150)
    table = {"a": X[:, 0], "b": X[:, 1], "site": np.arange(150) % 5}
    posterior = fit(table, y, groups="site", **SHORT)
    assert posterior.predict(table).mean.shape == (150, 4)
    new = {"a": X[:2, 0], "b": X[:2, 1], "site": [17, 18]}
    np.testing.assert_allclose(posterior.predict(new).mean.sum(axis=1), 1)


def test_refusals_say_what_to_do():
    """Text without an order, classes that levels lack, levels of others, weights."""
    X, y, _ = grades(40)
    text = np.array(GRADES)[y]
    row = int(np.flatnonzero(text == "top")[0]) + 1
    with pytest.raises(DataError, match=r"no order of their own: give levels"):
        fit(X, text, **SHORT)
    with pytest.raises(DataError, match=f"row {row}.*'top' is not among levels|row {row}.*top"):
        fit(X, text, levels=GRADES[:3], **SHORT)
    with pytest.raises(SettingsError, match="family=ordinal"):
        fit(X, text, levels=GRADES, **SHORT | {"family": "categorical"})
    with pytest.raises(SettingsError, match="two different classes"):
        fit(X, text, levels=["top", "top"], **SHORT)
    with pytest.raises(SettingsError, match="weights"):
        fit(X, y, weights=np.ones(40), **SHORT)
