"""Text of many levels as means of the outcome: no row sees its own outcome, on every face of the model."""

import dataclasses
from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
import pytest

from sampler import fit, load
from sampler.data.level_means import LevelOutcomes, cross_fitted, level_means
from sampler.errors import DataWarning, SettingsError
from sampler.posterior.assessment import baseline
from sampler.posterior.assessment.drift import training_parts
from sampler.posterior.explanations.contrasts import QUARTERS
from sampler.preparation import prepare, prepare_again
from sampler.storage.model_header import Header

SHORT = {"num_trees": 10, "num_chains": 1, "num_burnin": 20, "num_draws": 10, "thin": 1, "progress": False}
PREPARED = {name: value for name, value in SHORT.items() if name != "progress"}
CHOSEN = {"noise": "constant", "transform": "none", "linear": False}  # which takes longer than a short fit
FAMILIES = ("gaussian", "probit", "negative-binomial", "hurdle")
pytestmark = pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")


def rows(family="gaussian", n=600, levels=60, seed=1):
    """Return features with text of many levels, whose means differ, and outcomes of a family."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, levels, n)
    X = pd.DataFrame({"x": rng.normal(size=n).round(3), "place": [f"p{each}" for each in level]})
    f = 0.3 * X.x + rng.normal(size=levels)[level]
    draw = {
        "gaussian": lambda: f + rng.normal(size=n),
        "probit": lambda: (f + rng.normal(size=n) > 0) * 1.0,
        "negative-binomial": lambda: rng.poisson(np.exp(f)) * 1.0,
        "hurdle": lambda: np.where(rng.random(n) < 0.4, 0.0, np.exp(f + 0.3 * rng.normal(size=n))),
    }
    return X, pd.Series(np.asarray(draw[family]()), name="y")


def texts(value):
    """Collect all texts of an answer."""
    if isinstance(value, str):
        return {value}
    if dataclasses.is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    several = isinstance(value, list | tuple) or str(getattr(value, "dtype", "")) == "object"
    return set().union(*map(texts, value)) if several else set()


def test_no_value_depends_on_the_outcomes_of_its_fold():
    rng = np.random.default_rng(0)
    level, y = rng.integers(0, 50, 400), rng.normal(size=400)
    outcomes = LevelOutcomes.of(y, {"weights": rng.uniform(0.5, 2, 400)})
    before = cross_fitted(level, 50, outcomes)
    for row in range(0, 400, 37):
        changed = y.copy()
        changed[row] += 100
        assert cross_fitted(level, 50, outcomes._replace(y=changed))[row] == before[row]
    assert np.isnan(cross_fitted(np.full(9, -1), 50, LevelOutcomes.of(y[:9], {}))).all()


@pytest.mark.parametrize("rows_each", [2, 5, 40])
def test_levels_that_tell_nothing_get_nothing_and_others_their_mean(rows_each):
    rng = np.random.default_rng(2)
    level = np.repeat(np.arange(80), rows_each)
    noise, own = rng.normal(size=len(level)), rng.normal(size=80)
    assert np.abs(level_means(level, 80, LevelOutcomes.of(noise, {}))).mean() < 0.2
    assert (
        abs(
            np.corrcoef(cross_fitted(level, 80, LevelOutcomes.of(noise, {})) + 1e-9 * own[level], noise)[0, 1]
        )
        < 0.3
    )
    found = level_means(level, 80, LevelOutcomes.of(own[level] + noise, {}))
    assert np.mean((found - own) ** 2) < 1.5 * (1 / rows_each) / (1 + 1 / rows_each)  # of the best shrinkage


def test_counts_have_means_by_exposure():
    exposure = np.tile([1.0, 9.0], 100)
    level = np.repeat(np.arange(4), 50)
    rate = np.array([1.0, 2.0, 3.0, 4.0])
    means = level_means(level, 4, LevelOutcomes.of(rate[level] * exposure, {"exposure": exposure}))
    assert np.allclose(np.diff(means), 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_wide_text_is_encoded_in_every_family_and_prepared_again_as_it_was(family):
    X, y = rows(family)
    prepared = prepare(X, y, family=family, seed=0, **PREPARED)
    column = prepared.schema.columns[1]
    assert column.kind == "encoded"
    assert set(column.levels) == set(X.place)
    assert any(each.startswith("place is text with 60 levels: each counts") for each in prepared.warnings)
    again = prepare_again(Header.from_bytes(prepared.header()), X, y)
    assert np.array_equal(again.training.codes, prepared.training.codes)
    assert again.header() == prepared.header()


def test_choices_by_rows_left_out_see_no_means():
    """The transform and the noise are those without the text, whatever its means are."""
    X, y = rows(n=900)
    skewed = np.exp(0.5 * y)
    for each in (y, skewed):
        own, without = (prepare(table, each, seed=0, **PREPARED) for table in (X, X[["x"]]))
        assert own.training.settings.noise == without.training.settings.noise
        assert own.transform == without.transform
        if own.noise_choice is not None:
            assert own.noise_choice.gain == pytest.approx(without.noise_choice.gain, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES[:2])
def test_a_model_answers_by_levels_on_every_face(family, tmp_path):
    X, y = rows(family)
    posterior = fit(X, y, family=family, seed=0, **SHORT)
    column = posterior.schema.columns[1]
    best, worst = (column.levels[int(k)] for k in (np.argmax(column.means), np.argmin(column.means)))
    new = {"x": [0.0] * 4, "place": [best, worst, "nowhere", None]}
    answer = posterior.predict(new)
    means = answer.mean  # of two classes the probability of the second
    assert means[1] < means[2] < means[0]
    assert any("never seen in training: 'nowhere'" in each for each in answer.warnings)
    posterior.save(tmp_path / "model.bart")
    assert np.array_equal(load(tmp_path / "model.bart").schema.columns[1].means, column.means)
    assert posterior.partial_dependence("place").grid[0][:1] == [column.levels[0]]


EXPLANATIONS = {
    "shap": lambda p, X, _: p.shap(X[:40], X[:40]),
    "shap by paths": lambda p, X, _: p.shap(X[:40], game="path-dependent"),
    "interactions": lambda p, X, _: p.interactions(None, X[:40]),
    "importance": lambda p, X, y: p.importance(X, y, permutations=2),
    "inclusion": lambda p, *_: p.inclusion(),
    "partial dependence": lambda p, X, _: p.partial_dependence(["place", "x"], X[:40]),
    "contrast": lambda p, X, _: p.contrast(X[:40], {"place": "p1"}, {"place": "p2"}, by="x"),
    "total": lambda p, X, _: p.aggregate(X[:40], by="place"),
}


@cache
def as_kind(kind):
    X, y = rows(levels=12)
    return fit(X, y, columns={"place": kind}, seed=0, noise="constant", **SHORT)


@pytest.mark.parametrize("explanation", EXPLANATIONS)
def test_explanations_speak_of_the_column_and_its_levels(explanation):
    """Never of the numbers that stand for levels: their words are those about a category."""
    X, y = rows(levels=12)
    encoded, category = (
        texts(EXPLANATIONS[explanation](as_kind(kind), X, y)) for kind in ("encoded", "category")
    )
    assert not any("rows are near this setting" in each for each in encoded)  # 50 are
    assert {each for each in encoded if "unlike every" not in each} == category
    assert {"place"} <= encoded or explanation == "contrast"


def test_groups_and_drift_say_that_they_are_of_means():
    """Rows are divided by the means of levels, which are too many to be named each, and in words."""
    X = rows(levels=12)[0]
    posterior = as_kind("encoded")
    groups = posterior.contrast(X, {"x": 0}, {"x": 1}, by="place").groups
    assert [*groups] == [f"{name} of its means" for name in QUARTERS]
    coded, mean = posterior.encode(X), posterior.predict(X, level=None).mean
    parts = training_parts(
        posterior.schema, posterior.header.grid.cuts, coded, {"y": (mean, None)}, np.arange(600)
    )
    (cells,) = (part.cells for part in parts if part.name == "place")
    assert cells[1].startswith("at most -")
    assert cells[1].endswith(" from the mean")


def test_what_has_no_mean_is_left_out_as_before_and_a_kind_may_be_given():
    X, y = rows()
    ordered = pd.cut(y, 3, labels=["low", "mid", "high"])
    assert [
        each.name for each in prepare(X, ordered, seed=0, family="ordinal", **PREPARED).schema.left_out
    ] == ["place"]
    rare = X.assign(place=[f"p{k // 2}" for k in range(len(X))])
    assert [each.name for each in prepare(rare, y, seed=0, **PREPARED, **CHOSEN).schema.left_out] == ["place"]
    for kind in ("category", "encoded"):
        own = prepare(X, y, columns={"place": kind}, seed=0, **PREPARED, **CHOSEN)
        assert own.schema.columns[1].kind == kind
    with pytest.raises(SettingsError, match="make it a category"):
        prepare(X, ordered, family="ordinal", columns={"place": "encoded"}, seed=0, **PREPARED)


@pytest.mark.parametrize("most_cells", [1 << 22, 0])
def test_the_baseline_of_scores_learns_from_no_outcome_of_its_own(most_cells, monkeypatch):
    """Least squares have the means of the other folds in training rows, in one piece or by blocks."""
    monkeypatch.setattr(baseline, "MOST_CELLS", most_cells)
    X, y = rows()
    column = (schema := prepare(X, y, seed=0, **PREPARED, **CHOSEN).schema).columns[1]
    level = np.array([column.levels.index(each) for each in X["place"]])
    own = cross_fitted(level, len(column.levels), LevelOutcomes.of(y.to_numpy(), {}))
    design = np.column_stack([np.ones(len(y)), X["x"], own])
    slopes = np.linalg.lstsq(design, y.to_numpy())[0]
    found = baseline.linear_predictions(schema, X, y.to_numpy(), None, X)
    assert np.allclose(found, slopes[0] + slopes[1] * X["x"] + slopes[2] * np.array(column.means)[level])


def test_a_fit_says_so():
    X, y = rows()
    with pytest.warns(DataWarning, match="place is text with 60 levels: each counts as the mean outcome"):
        fit(X, y, seed=0, **SHORT, **CHOSEN)
