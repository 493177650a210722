"""The warning of rows that resemble each other: silent on independent rows, and naming the right column."""

import numpy as np
import pandas as pd
import pytest

from sampler import fit
from sampler.data.splits.resemblance import find_resemblances
from sampler.data.table import read
from sampler.errors import DataWarning

NOISE = {
    "normal": lambda rng, x: rng.standard_normal(len(x)),
    "heavy tails": lambda rng, x: rng.standard_t(2, len(x)),
    "skewed": lambda rng, x: np.exp(rng.standard_normal(len(x))),
    "by feature": lambda rng, x: rng.standard_normal(len(x)) * np.exp(x),
}


def table_of(rng, n, noise="normal", spread=0.0, groups=None):
    """Three features, a subject as text, a whole number and a date; and the outcome."""
    groups = groups or max(3, n // 5)
    subject = np.arange(n) % groups
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=["a", "b", "c"])
    X["subject"] = [f"s{each}" for each in subject]
    X["visit"] = rng.integers(0, n, n)
    X["date"] = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.permutation(n), unit="D")
    y = np.sin(X.a) + X.b + spread * rng.standard_normal(groups)[subject] + NOISE[noise](rng, X.a.to_numpy())
    return X, y.to_numpy()


def found(X, y, features=("a", "b", "c"), **options):
    return find_resemblances(read(X), features, np.asarray(y, float), **options)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("tables", [100, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.sampled(quick=1, slow=3)
def test_independent_rows_raise_no_warning(noise, tables):
    """At most 2 in 1,000 of these, but for chance (`lab/resemblance.py` has more kinds)."""
    rng = np.random.default_rng(11)
    alarms = sum(bool(found(*table_of(rng, int(rng.integers(60, 800)), noise))) for _ in range(tables))
    assert alarms <= (1 if tables == 100 else 6)


@pytest.mark.parametrize(("groups", "n", "spread", "power"), [(60, 300, 0.5, 0.55), (100, 200, 1.0, 0.9)])
def test_subjects_that_differ_are_named(groups, n, spread, power):
    rng = np.random.default_rng(5)
    named = [
        [each.column for each in found(*table_of(rng, n, spread=spread, groups=groups))] for _ in range(60)
    ]
    assert np.mean(["subject" in each for each in named]) > power
    assert sum("visit" in each or "date" in each for each in named) <= 2


@pytest.mark.parametrize("effect", [np.sin, np.sign, np.abs], ids=["smooth", "stepped", "bent"])
@pytest.mark.parametrize("visits", [26, 60, 300])
def test_a_number_that_repeats_is_no_identity(effect, visits):
    """Neighbouring values are alike, and new ones lie between, whether it is a feature or not."""
    rng = np.random.default_rng(3)
    X, _ = table_of(rng, 800)
    X["visit"] = rng.integers(0, visits, 800)
    y = effect(8 * X.visit / visits - 4) + 0.5 * rng.standard_normal(800)
    assert not found(X, y, features=("a", "b", "c", "visit"))
    assert not found(X, y)


@pytest.mark.parametrize("groups", [20, 51])
@pytest.mark.parametrize("kind", ["text", "whole numbers", "category"])
@pytest.mark.parametrize("is_feature", [True, False])
def test_the_groups_of_a_panel_are_named(groups, kind, is_feature):
    """Groups are named where they are a feature too, beside other columns with one value for each group."""
    rng = np.random.default_rng(7)
    group = np.repeat(np.arange(groups), 8)
    X = pd.DataFrame({"x": rng.standard_normal(len(group)), "year": np.tile(np.arange(8), groups)})
    X["size"], X["tax"] = rng.standard_normal(groups)[group], rng.integers(1, 99, groups)[group]
    names = rng.permutation(groups)[group]
    X["state"] = names + 1 if kind == "whole numbers" else [f"s{each}" for each in names]
    X["state"] = X["state"].astype("category") if kind == "category" else X["state"]
    y = X.x + 1.5 * rng.standard_normal(groups)[group] + rng.standard_normal(len(group))
    features = ["x", "year", "size", "tax", *(["state"] if is_feature else [])]
    assert [(each.kind, each.column) for each in found(X, y, features)] == [("groups", "state")]


TIMES = {
    "week_of_year": lambda times: times.isocalendar().week,
    "dayOfYear": lambda times: times.day_of_year,
    "period": lambda times: times.strftime("%Y%m").astype(int),
    "week": lambda times: times.strftime("%G-W%V"),
    "kw": lambda times: times.isocalendar().week.to_numpy(float),
    "holiday code": lambda times: (7 * times.isocalendar().week) % 54,  # no name tells it
}


@pytest.mark.parametrize("has_date", [True, False])
@pytest.mark.parametrize("part", TIMES)
def test_shops_are_named_and_not_weeks(part, has_date):
    """Values of a part of the calendar are known of every date; those of a shop by any name are not."""
    rng = np.random.default_rng(2)
    times = pd.date_range("2021-01-04", periods=130, freq="7D")
    shop, time = np.divmod(np.arange(25 * 130), 130)
    values = np.asarray(TIMES[part](times))
    code = np.unique(values, return_inverse=True)[1]
    X = pd.DataFrame({"x": rng.standard_normal(len(shop)), part: values[time], "no": 1 + shop})
    if has_date:
        X["date"] = times[time]
    y = X.x + 3 * rng.standard_normal(25)[shop] + 1.5 * rng.standard_normal(code.max() + 1)[code][time]
    all_found = found(X, y + rng.standard_normal(len(X)), ["x"])
    named = {each.column for each in all_found if each.kind == "groups"}
    assert named == {"no"} | ({part} if part == "holiday code" and not has_date else set())


def test_batches_of_a_day_are_groups():
    """A value that doesn't come back on another date is new on each."""
    rng = np.random.default_rng(6)
    batch = np.repeat(np.arange(60), 5)
    X = pd.DataFrame({"x": rng.standard_normal(300), "batch": [f"b{each}" for each in batch]})
    X["date"] = pd.Timestamp("2021-03-01") + pd.to_timedelta(batch, unit="D")
    y = X.x + 2 * rng.standard_normal(60)[batch] + rng.standard_normal(300)
    assert [each.column for each in found(X, y, ["x"])] == ["batch"]


def test_a_subject_has_effects_of_its_features():
    """The age of a subject, however its effect bends, isn't taken for the subject itself."""
    rng = np.random.default_rng(9)
    X, _ = table_of(rng, 1000, groups=200)
    X["age"] = rng.uniform(18, 80, 200)[np.arange(1000) % 200]
    y = 2 * np.sin(X.age / 10) + rng.standard_normal(1000)
    assert not found(X, y, features=("a", "b", "c", "age"))


def test_days_that_resemble_their_neighbours_are_named():
    rng = np.random.default_rng(4)
    X, _ = table_of(rng, 300)
    level = np.zeros(300)
    for k in range(1, 300):
        level[k] = 0.8 * level[k - 1] + rng.standard_normal()
    order = np.argsort(X.date.to_numpy())
    y = X.b.to_numpy().copy()
    y[order] += level
    (one,) = found(X, y)
    assert (one.kind, one.column) == ("later", "date")
    assert 'new_rows={"later": "date"}' in one.text
    days = X.date - X.date.min()
    X["date"] = [f"{1900 + each // 4} Q{1 + each % 4}" for each in days.dt.days]
    assert [(each.kind, each.column) for each in found(X, y)] == [("later", "date")]


def test_sorted_tables_are_no_series():
    x = np.arange(200.0)
    X = pd.DataFrame({"x": x, "z": np.random.default_rng(0).standard_normal(200)})
    assert not found(X, np.sin(x / 8), features=("x", "z"))


def test_a_fit_warns_and_a_declaration_ends_it():
    rng = np.random.default_rng(8)
    X, y = table_of(rng, 400, spread=2.0, groups=40)
    short = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 10, "thin": 1, "progress": False}
    short |= {"noise": "constant", "transform": "none", "linear": False}  # choices take longer than the fits
    with pytest.warns(
        DataWarning, match=r'subject: 40 values, 10 rows each.*new_rows=\{"groups": "subject"\}'
    ):
        fit(X, y, seed=0, **short)
    with pytest.warns(DataWarning) as told:
        fit(X, y, seed=0, calibrate="folds", new_rows={"groups": "subject"}, **short)
    assert not any("resemble" in str(each.message) for each in told)
    assert any("subject is left out: new rows have other values of it" in str(each.message) for each in told)
