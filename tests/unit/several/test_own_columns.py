"""Seemingly unrelated regressions: several outcomes that have columns of their own."""

import numpy as np
import pytest

from sampler import fit, prepare, select_features, tune
from sampler.errors import DataError, SettingsError
from sampler.posterior.assessment.drift import DriftRows, count_rows, training_parts

SHORT = {"num_trees": 5, "num_chains": 2, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}
ROWS = 60
OWN = {"a": ["u", "kind"], "b": ["v"]}


def made(missing=False):
    """Return columns and two outcomes, each of some of them, whose errors have correlation .9."""
    rng = np.random.default_rng(4)
    X = {"u": rng.uniform(size=ROWS), "v": rng.uniform(size=ROWS), "kind": rng.choice(["x", "y", "z"], ROWS)}
    errors = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], ROWS)
    Y = {"a": 3 * X["u"] + errors[:, 0], "b": 100 * (X["v"] > 0.5) + 50 * errors[:, 1]}
    if missing:
        Y["a"][:10], Y["b"][10:25] = np.nan, np.nan
    return X, Y


@pytest.fixture(scope="module")
def posterior():
    """Return a short fit of outcomes with columns of their own."""
    return fit(*made(), features=OWN, **SHORT)


def test_trees_split_on_own_columns(posterior):
    """Usage, SHAP values and effects of an outcome have its own columns alone, and no other moves its f."""
    X, _ = made()
    for name, own in OWN.items():
        assert list(posterior[name].inclusion().names) == own
        assert list(posterior[name].shap({key: values[:2] for key, values in X.items()}).names) == own
        assert [column.name for column in posterior[name].schema.columns] == own
        others = {key: values[::-1] if key not in own else values for key, values in X.items()}
        assert np.array_equal(posterior[name].sample(X), posterior[name].sample(others))
        alone = {key: X[key] for key in own}
        assert np.array_equal(posterior[name].sample(X), posterior[name].sample(alone))
    assert 0.6 < posterior.correlations[:, :, 0, 1].mean() < 0.99
    assert "given u, kind, v" in repr(posterior)
    assert [column.name for column in posterior["b"].inputs] == ["u", "kind", "v"]


def test_equal_columns_are_those_of_all():
    """Columns that are the same by outcome are those of all, bit for bit; an outcome without any has all."""
    X, Y = made()
    lengths = SHORT | {"num_draws": 3}
    both = fit(X, Y, features=["u", "v"], **lengths).to_bytes()
    assert fit(X, Y, features={"a": ["u", "v"], "b": ["u", "v"]}, **lengths).to_bytes() == both
    left_open = fit(X, Y, features={"b": ["v"]}, **lengths)
    assert [column.name for column in left_open["a"].schema.columns] == ["u", "v", "kind"]


def test_rows_need_the_columns_of_every_outcome(posterior):
    """Joint answers read the columns of all outcomes, name those that lack, and warn of no known one."""
    X, Y = made()
    assert posterior["b"].predict(X).warnings == []
    assert not any("not used" in text for text in posterior.predict(X).warnings)
    given = posterior.predict(X | {"b": Y["b"]}, given=["b"])
    assert not any("not used" in text for text in given.warnings)
    assert np.array_equal(given.mean, posterior.predict(X, given={"b": Y["b"]}).mean)
    assert "not used by the model: b" in posterior.predict(X | {"b": Y["b"]}).warnings
    with pytest.raises(DataError) as raised:
        posterior.predict({"kind": X["kind"]})
    assert [problem.column for problem in raised.value.problems] == ["u", "v"]
    assert posterior.score(X, Y).gain > 0
    with pytest.raises(DataError, match="no such column"):
        posterior["b"].predict(X | {"w": X["u"]})


def test_drift_counts_rows_by_their_own_columns(posterior):
    """Rows predicted for one outcome count in the cells of its own columns, with those for others beside."""
    X, _ = made()
    coded = {name: posterior[name].encode(X) for name in OWN}
    means = {name: posterior[name].predict(X, level=None).mean for name in OWN}
    of_a = posterior["a"].schema, posterior["a"].header.grid.cuts, coded["a"]
    parts = training_parts(*of_a, {"a": (means["a"], None)}, np.arange(ROWS))
    rows = [DriftRows.of(posterior[name].schema, coded[name], means[name]) for name in OWN]
    assert count_rows(parts, rows) == count_rows(parts, rows[:1]) == [list(part.training) for part in parts]
    assert not any(map(sum, count_rows(parts, rows[1:])))


def test_the_card_has_the_columns_of_each(posterior):
    """It says of each outcome what it was learnt from."""
    card = posterior.model_card().to_markdown()
    assert "a: Data" in card
    assert "b: Data" in card


def test_directions_and_cut_points_are_of_own_columns():
    """Monotone features and cut points of a column concern the outcomes that have it."""
    X, Y = made()
    told = {"monotone": {"v": "increasing"}, "prior": {"cuts": {"u": [0.25, 0.5]}}}
    prepared = prepare(X, Y, features=OWN, num_chains=1, **told)
    a, b = prepared.training.several.parts
    assert a.directions is None
    assert b.directions.tolist() == [1]
    assert (a.settings.moves, a.settings.num_trees) == (b.settings.moves, b.settings.num_trees)
    assert len(prepared.grid.cuts[0]) == 2
    for more in ({"monotone": {"w": "increasing"}}, {"prior": {"cuts": {"w": [0.5]}}}):
        with pytest.raises(SettingsError, match="w"):
            prepare(X, Y, features=OWN, **more)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"c": ["u"]}, "features names 'c', but it is no outcome"),
        ({"a": "u"}, "features names 'a', but its columns must be a list of names"),
    ],
)
def test_refused(features, words):
    """Outcomes that there aren't, and columns that are no list, are named."""
    with pytest.raises(SettingsError, match=words) as raised:
        fit(*made(), features=features, **SHORT)
    assert raised.value.field == "features"
    with pytest.raises(DataError, match="no such column"):
        fit(*made(), features={"a": ["w"]}, **SHORT)


def test_one_outcome_has_one_list():
    """Features by outcome are refused for one outcome, with what to do; for forecasts too."""
    X, Y = made()
    for more in ({}, {"time": "u", "horizon": 2}):
        with pytest.raises(SettingsError, match="are of several outcomes: leave out features") as raised:
            fit(X, Y["a"], features=OWN, **more)
        assert raised.value.field == "features"


@pytest.mark.slow
def test_studies_have_own_columns():
    """Settings are compared, and features selected, by fits whose outcomes have columns of their own."""
    X, Y = made()
    short = {name: value for name, value in SHORT.items() if name not in ("progress", "num_chains", "thin")}
    selected = select_features(X, Y, num_permutations=20, features=OWN, **short)
    assert {name: list(each.names) for name, each in selected.items()} == OWN
    tuned = tune(X, Y, candidates=[{"linear": False}], folds=2, features=OWN, thin=1, num_chains=1, **short)
    assert np.isfinite(tuned.trials[0].log_score)
