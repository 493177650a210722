"""Choice of settings by cross-validation: folds, scores, what is chosen, and what is refused."""

import json
from html import escape

import numpy as np
import pytest

from sampler import DataError, SettingsError, fit, tune
from sampler.data.rows import Rows
from sampler.data.scalars import number_to_text
from sampler.data.splits.split_plan import folds_of
from sampler.studies.candidates import candidates
from sampler.studies.fold_scores import FoldScores, score_fold
from sampler.studies.tuning import compare

pytestmark = pytest.mark.usefixtures("all_kernels")

SHORT = {"num_trees": 20, "num_chains": 1, "num_burnin": 100, "num_draws": 40, "thin": 1}


def uneven(rows=240, seed=0):
    """Outcomes that are a line whose noise grows fifteenfold along one of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    return X, 3 * X[:, 1] + (0.1 + 1.4 * X[:, 0] ** 2) * rng.normal(size=rows)


def test_folds_are_a_partition():
    """Every row is in one fold, and sizes differ by at most one."""
    splits = folds_of(103, 5, 7)
    parts = [each.test for each in splits]
    assert all(sorted([*each.train, *each.test]) == list(range(103)) for each in splits)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(103))
    assert sorted(map(len, parts)) == [20, 20, 21, 21, 21]
    assert not np.array_equal(parts[0], folds_of(103, 5, 8)[0].test)


def test_a_fold_is_scored_by_a_fit_to_the_others():
    """Scores equal those of a posterior fitted to the other rows by hand."""
    X, y = uneven(80)
    split = folds_of(80, 4, 0)[1]
    train, fold = split
    figures = score_fold(Rows.read(X, y), split, 3, SHORT)
    posterior = fit(X[train], y[train], seed=3, progress=False, **SHORT)
    scores = posterior.score(X[fold], y[fold], quick=True)
    assert figures.rows == fold.tolist()
    assert np.mean(figures.log_score) == pytest.approx(scores["log_score"], rel=1e-12)
    assert np.sqrt(np.mean(figures.squares)) == pytest.approx(scores["rmse"], rel=1e-12)
    (at90,) = (each for each in scores["coverage"] if each["level"] == 0.9)
    assert np.mean(figures.inside) == at90["coverage"]


def test_noise_by_row_is_chosen_where_it_is():
    """The candidate with the truth wins, the same with one thread; the result is plain data and a table."""
    X, y = uneven()
    reports = []
    tried = [{"noise": "constant"}, {"noise": "forest"}, {"transform": "log"}]
    options = {"candidates": tried, "folds": 3, "seed": 1, **SHORT}
    tuning = tune(X, y, progress=lambda done, total: reports.append((done, total)), **options)
    assert tuning.best == SHORT | {"noise": "forest"}
    assert reports == [(done, 9) for done in range(1, 10)]
    plain, forest, log = tuning.trials
    assert plain.behind > 2 * plain.behind_error > 0
    assert (forest.behind, forest.behind_error) == (0, 0)
    assert "positive outcomes" in log.refused
    card = tuning._repr_html_()
    assert f"<b>{number_to_text(forest.log_score)}</b>" in card
    assert escape(log.refused) in card
    assert 0.8 < forest.coverage <= 1
    assert json.loads(json.dumps(tuning.to_json()))["best"]["noise"] == "forest"
    lines = str(tuning).splitlines()
    assert repr(tuning) == str(tuning)
    assert lines[2].startswith("> noise forest")
    assert "left out" in lines[3]
    again = tune(X, y, num_threads=1, **options)
    assert [trial.log_score for trial in again.trials] == [trial.log_score for trial in tuning.trials]


def test_parsimony_takes_the_simpler_of_equals():
    """Within one standard error the first candidate is chosen, on request; prior entries are merged."""
    better = [0.1, -0.1, 0.4, -0.2]
    scores = [
        [FoldScores([0, 1], values[:2], [], [], 1.0), FoldScores([2, 3], values[2:], [], [], 1.0)]
        for values in ([0.0] * 4, better)
    ]
    tried = [{"prior": {"k": 3.0}}, {}]
    common = {"prior": {"nu": 5.0}}
    assert compare(tried, scores, common=common).best == common
    simple = compare(tried, scores, common=common, parsimony=True)
    assert simple.best == {"prior": {"k": 3.0, "nu": 5.0}}
    assert simple.trials[0].behind == pytest.approx(np.mean(better))
    assert simple.trials[0].behind_error == pytest.approx(np.std(better, ddof=1) / 2)


def test_the_rmse_of_rows_left_out_is_compared_on_request():
    """By score="rmse" the choice, its distances and their errors are those of squared errors by hand."""
    X, y = uneven(90)
    tried = [{"num_trees": 1}, {"num_trees": 20}, {"transform": "log"}]
    options = {"candidates": tried, "folds": 3, "seed": 2} | SHORT
    tuning = tune(X, y, score="rmse", **options)
    squares = np.empty((2, 90))
    for split in folds_of(90, 3, 2):
        for place, each in enumerate(tried[:2]):
            posterior = fit(X[split.train], y[split.train], seed=2, progress=False, **SHORT | each)
            mean = posterior.predict(X[split.test], level=None).mean
            squares[place, split.test] = (mean - y[split.test]) ** 2
    rmse = np.sqrt(squares.mean(axis=1))
    best = int(np.argmin(rmse))
    assert (tuning.chosen, tuning.score) == (best, "rmse")
    apart = (squares - squares[best]).std(axis=1, ddof=1) / np.sqrt(90) / (rmse + rmse[best])
    for place, trial in enumerate(tuning.trials[:2]):
        assert trial.rmse == pytest.approx(rmse[place])
        assert trial.behind == pytest.approx(rmse[place] - rmse[best], abs=1e-12)
        assert trial.behind_error == pytest.approx(apart[place])
    assert tuning.trials[2].refused
    assert "lower RMSE" in tuning._repr_html_()
    by_density = tune(X, y, **options)
    assert [each.log_score for each in by_density.trials] == [each.log_score for each in tuning.trials]


def test_scores_that_differ_choose_differently():
    """A candidate with the smaller errors and the smaller density is chosen by the one score alone."""
    scores = [
        [FoldScores([0, 1, 2], [-1.0, -1.1, -1.2], [4.0, 4.0, 1.0], [], 1.0)],
        [FoldScores([0, 1, 2], [-2.0, -2.0, -2.1], [1.0, 1.0, 1.0], [], 1.0)],
    ]
    assert compare([{}, {"linear": True}], scores).chosen == 0
    by_rmse = compare([{}, {"linear": True}], scores, score="rmse")
    assert by_rmse.chosen == 1
    assert by_rmse.trials[0].behind == pytest.approx(np.sqrt(3) - 1)
    exact = [[FoldScores([0, 1], [1.0, 1.0], [0.0, 0.0], [], 1.0)]]
    assert compare([{}], exact, score="rmse").trials[0].behind == 0


def test_classes_are_tuned_by_their_probabilities():
    """The log score of classes is that of their probabilities; they have no intervals."""
    X, _ = uneven(120)
    labels = np.where(X[:, 0] > 0.5, "yes", "no")
    tuning = tune(X, labels, candidates=[{}, {"prior": {"k": 4.0}}], folds=2, family="probit", **SHORT)
    assert all(-0.7 < trial.log_score < 0 for trial in tuning.trials)
    assert [trial.coverage for trial in tuning.trials] == [None, None]
    asked = SHORT | {"family": "auto", "score": "rmse", "folds": 2, "candidates": [{}]}
    with pytest.raises(SettingsError, match="no squared error"):
        tune(X, labels, progress=lambda *_: pytest.fail("it was fitted first"), **asked)


def test_a_class_that_a_fit_has_not_seen_scores_no_candidate():
    """Rows of a class that the other folds don't have are left out: no figure of theirs tells anything."""
    X, _ = uneven(60)
    split = folds_of(60, 2, 0)[0]
    rated = np.where(X[:, 0] > 0.5, 2, 1)
    rated[split.test[:3]] = 3
    settings = SHORT | {"family": "ordinal"}
    scores = score_fold(Rows.read(X, rated), split, 3, settings)
    assert scores.rows == split.test[3:].tolist()
    assert len(scores.log_score) == len(scores.rows)
    assert min(scores.log_score) > -20


def test_grids():
    """Candidates of the grids are settings that fits take; simpler ones come first."""
    assert candidates()[0] == {"noise": "constant", "transform": "none", "linear": False}
    assert len(candidates("prior")) == 26
    assert len(candidates("prior", "probit")) == 22  # k .25 .5 1 2 3, m 100 200 400 800 (CGM10, section 5.3)
    assert all({"prior": {"sparse": True}} in candidates(grid) for grid in ("model", "prior"))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"candidates": "all"}, "candidates"),
        ({"score": "mae"}, "score"),
        ({"score": "rmse", "family": "probit"}, "score"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [3]}, "candidates"),
        ({"candidates": "model", "family": "probit"}, "candidates"),
        ({"candidates": [{"transform": "log"}]}, "candidates"),
        ({"folds": 1}, "folds"),
        ({"folds": 15}, "folds"),
    ],
)
def test_what_is_refused(settings, field):
    """Unknown grids, no candidates, more folds than rows allow, candidates of which none can be fitted."""
    X, y = uneven(20)
    with pytest.raises(SettingsError) as refused:
        tune(X, y - 5, **SHORT | settings)
    assert refused.value.field == field


def test_unusable_rows_are_refused():
    """Errors of the data are errors of the call."""
    with pytest.raises(DataError):
        tune({"x": [1.0] * 20}, [float("nan")] * 20, candidates=[{}], **SHORT)
