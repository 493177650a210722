"""Scores of classes: ranking, confusion and the rate of the most frequent class."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import confusion_matrix, roc_auc_score

from sampler import SettingsError
from sampler.posterior.assessment.class_scores import area_under_roc, class_scores
from tests.support import fit_digests


def marks(own: np.ndarray, classes: int) -> np.ndarray:
    return own[:, None] == np.arange(classes)


def test_scores_of_two_classes_are_scikit_learns():
    """Area, confusion and shares equal scikit-learn's, with ties and at every threshold."""
    rng = np.random.default_rng(1)
    own = (rng.uniform(size=300) < 0.2).astype(int)
    p = np.clip(np.round(0.3 * own + rng.uniform(0, 0.7, 300), 2), 0, 1)  # many ties
    scores = class_scores(marks(own, 2), np.stack([1 - p, p], axis=1))
    assert scores["auc"]["value"] == pytest.approx(roc_auc_score(own, p), abs=1e-12)
    assert scores["majority_rate"] == pytest.approx(np.mean(own == 0))
    assert {k / 10 for k in range(1, 10)} < {each["threshold"] for each in scores["confusion_by_threshold"]}
    for each in scores["confusion_by_threshold"]:
        expected = confusion_matrix(own, p >= each["threshold"]).ravel().tolist()
        names = ("true_negatives", "false_positives", "false_negatives", "true_positives")
        assert [each[name] for name in names] == expected
    assert scores["confusion"] == confusion_matrix(own, p > 0.5).tolist()
    assert scores["accuracy"] == pytest.approx(np.trace(scores["confusion"]) / 300)


def test_more_classes_have_a_matrix_and_no_area():
    """Rows of the matrix are classes, its columns the most probable ones; too many classes have none."""
    rng = np.random.default_rng(2)
    own, p = rng.integers(0, 4, 200), rng.dirichlet([1] * 4, 200)
    scores = class_scores(marks(own, 4), p)
    assert scores["confusion"] == confusion_matrix(own, p.argmax(axis=1)).tolist()
    assert "auc" not in scores
    assert scores["majority_rate"] == np.bincount(own).max() / 200
    assert class_scores(marks(own, 31), np.pad(p, ((0, 0), (0, 27))))["confusion"] is None


def test_the_interval_of_the_area_holds_it():
    """95% intervals hold the true area in about 95 of 100 samples, of few rows and of areas near 1 too."""
    rng = np.random.default_rng(3)
    for n, m, true in ((10, 40, 0.8), (30, 30, 0.97)):
        positive, held = np.arange(n + m) < n, 0
        for _ in range(200):
            area = area_under_roc(positive, rng.normal(size=n + m) + np.sqrt(2) * norm.ppf(true) * positive)
            held += area["lower"] <= true <= area["upper"]
        assert 0.91 < held / 200 < 0.995


def test_areas_at_the_ends():
    """Perfect order leaves an interval of some width; without one of the classes there is no area."""
    positive = np.arange(20) < 8
    best, worst = (area_under_roc(positive, sign * positive.astype(float)) for sign in (1, -1))
    assert best["value"] == best["upper"] == 1
    assert 0.7 < best["lower"] < 0.95
    assert worst["upper"] == pytest.approx(1 - best["lower"])
    assert area_under_roc(np.ones(5, bool), np.arange(5.0)) is None


def test_a_posterior_scores_and_draws_its_ranking():
    """The score has the area of the posterior's probabilities, as a table too; the chart says it."""
    posterior = fit_digests.fitted("probit")
    X, y, _ = fit_digests.data("two")
    scores = posterior.score(X, y)
    assert scores["auc"]["value"] == pytest.approx(
        roc_auc_score(np.array(y) == "yes", posterior.predict(X).mean)
    )
    table = scores.to_pandas().set_index("score")
    assert table.loc["auc", ["lower", "upper"]].tolist() == [scores["auc"]["lower"], scores["auc"]["upper"]]
    axes = posterior.plot.roc(X, y)
    curve = axes.lines[-1].get_xydata()
    assert np.trapezoid(curve[::-1, 1], curve[::-1, 0]) == pytest.approx(scores["auc"]["value"], abs=0.02)
    (_, _, held_out, *_) = posterior.model_card(X, y).sections
    assert any(row[0] == "50%" for row in held_out.tables[-1].rows)
    assert any(row[0] == "Area under the ROC curve" and " to " in row[2] for row in held_out.tables[0].rows)
    three = fit_digests.fitted("classes")
    table = three.model_card(*fit_digests.data("three")[:2]).sections[2].tables[-1]
    assert [row[0] for row in table.rows] == list(three.classes)
    with pytest.raises(SettingsError, match="two classes"):
        three.plot.roc(*fit_digests.data("three")[:2])
