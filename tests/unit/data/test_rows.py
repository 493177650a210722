"""Roles of columns: each is read under one name, with one check of labels, names and copies."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sampler import DataError, SettingsError, fit, prepare, select_features, tune
from sampler.data.repeated_columns import is_copy
from sampler.data.rows import Rows
from sampler.data.schema import Column
from sampler.data.target import read_outcomes

N = 40
RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "site": RNG.choice(["a", "b", "c"], N),
        "x": RNG.normal(size=N),
        "hours": RNG.integers(2, 90, N).astype(float),
        "lost": RNG.random(N) < 0.4,
        "limit": np.where(RNG.random(N) < 0.3, RNG.uniform(1, 2, N), np.nan),
    }
)
Y = RNG.poisson(4.0, N) + 1.0
ROLES = ("weights", "exposure", "event", "lower", "upper")
SHORT = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 5, "thin": 1, "progress": False}


def column_of(role):
    """Return the column of the table that suits a role."""
    return TABLE[{"event": "lost", "lower": "limit", "upper": "limit"}.get(role, "hours")]


def other_values(role):
    """Compute other values from that column; pandas keeps its name."""
    column = column_of(role)
    return ~column if role == "event" else column / 7


@pytest.mark.parametrize("role", ROLES)
def test_a_column_of_the_table_has_its_role_alone(role):
    """A role given by a column of the table is read under its name, and the column is no feature."""
    column = column_of(role)
    rows = Rows.read(TABLE, Y, {role: column})
    assert (rows.roles[role].name, rows.copies) == (column.name, {})
    assert column.name in rows.taken
    polars = pl.from_pandas(TABLE)
    assert Rows.read(polars, Y, {role: polars[column.name]}).roles[role].name == column.name


@pytest.mark.parametrize("role", ROLES)
def test_values_computed_from_a_column_may_not_keep_its_name(role):
    """Later calls would read the column as it is, in other units or the other way round."""
    with pytest.raises(DataError, match="have other values than the column of the table") as refused:
        Rows.read(TABLE, Y, {role: other_values(role)})
    (problem,) = refused.value.problems
    assert problem.column == column_of(role).name
    assert "rename one of the two" in problem.detail
    for way_out in (
        {"X": TABLE, "values": other_values(role).rename("mine")},
        {"X": TABLE.assign(mine=other_values(role)), "values": other_values(role).rename("mine")},
        {"X": TABLE.drop(columns=column_of(role).name), "values": other_values(role)},
    ):
        rows = Rows.read(way_out["X"], Y, {role: way_out["values"]})
        assert rows.roles[role].name == way_out["values"].name


@pytest.mark.parametrize("role", ["exposure", "event", "lower", "upper"])
def test_a_feature_called_as_a_role_is_not_taken_for_it(role):
    """Values without a name are called as their role, under which new rows would have theirs."""
    table = TABLE.rename(columns={"x": role})
    with pytest.raises(DataError, match=f"column '{role}': .*rename one of the two"):
        Rows.read(table, Y, {role: other_values(role).to_numpy()})


def test_a_feature_called_weights_stays_one():
    """No later call takes weights from a column."""
    rows = Rows.read(TABLE.rename(columns={"x": "weights"}), Y, {"weights": np.linspace(1, 2, N)})
    assert "weights" not in rows.taken


@pytest.mark.parametrize("role", ROLES)
def test_a_column_that_repeats_a_role_is_its_column(role):
    """An array with the values of a column is that column: not a feature, and said so."""
    name = column_of(role).name
    rows = Rows.read(TABLE, Y, {role: column_of(role).to_numpy()})
    assert rows.roles[role].name == name
    assert list(rows.copies) == [name]
    assert "is their column" in rows.copies[name]
    constant = Rows.read(TABLE.assign(one=1.0), Y, {role: np.ones(N)})
    assert (constant.roles[role].name, constant.copies) == (role, {})


def test_what_tells_which_rows_are_censored_is_no_feature():
    """Events under another name, in words or the other way round are left out with a reason."""
    lost = TABLE["lost"].to_numpy()
    table = TABLE.drop(columns="lost").assign(
        status=[None, *np.where(lost, "dead", "alive")[1:]], code=np.where(lost, 2, 1), alive=~lost
    )
    prepared = prepare(table, Y, event=lost)
    assert [column.name for column in prepared.schema.columns] == ["site", "x", "hours", "limit"]
    assert {each.name for each in prepared.schema.left_out} == {"status", "code", "alive"}
    assert prepared.warnings[0] == (
        "status is left out: its values are those of the events (event), or follow from them"
    )
    with pytest.raises(DataError, match="column 'code': its values are those of the events"):
        prepare(table, Y, event=lost, features=["x", "code"])


def test_a_feature_called_as_the_target_is_not_dropped():
    """Outcomes with the name of a column need its values; those without a name get one that is free."""
    lagged = pd.Series(np.roll(TABLE["hours"], -1), name="hours")
    with pytest.raises(DataError, match=r"column 'hours': the target is called so.*target_name"):
        Rows.read(TABLE, lagged)
    assert Rows.read(TABLE, lagged, target_name="next").outcome.name == "next"
    assert Rows.read(TABLE, TABLE["hours"]).taken == ["hours"]
    grid = TABLE.rename(columns={"x": "y", "hours": "target"})
    prepared = prepare(grid, Y)
    assert prepared.schema.target.name == "target_"
    assert {"y", "target"} <= {column.name for column in prepared.schema.columns}
    with pytest.raises(SettingsError, match="'lost' is the target already"):
        prepare(TABLE, TABLE["lost"], groups="lost", family="probit")


@pytest.mark.parametrize("what", ["y", *ROLES])
def test_row_labels_that_differ_are_refused(what):
    """Rows are matched by position, so pandas labels have to agree, for each column alike."""
    mixed = column_of(what).sample(frac=1, random_state=1).rename("mine")
    given = {"y": Y, what: mixed}
    noun = "target" if what == "y" else Rows.read(TABLE, Y, {what: column_of(what)}) and what
    with pytest.raises(DataError, match="different row labels") as refused:
        Rows.read(TABLE, given.pop("y"), given)
    assert noun[:5] in str(refused.value)
    plain = {"y": Y, what: mixed.to_numpy()}
    Rows.read(TABLE.drop(columns=column_of(what).name), plain.pop("y"), plain)
    with pytest.raises(DataError, match="different row labels"):
        Rows.read({"a": TABLE["x"], "b": mixed}, Y)


def test_studies_check_roles_too():
    """Selection, tuning and calibrated fits read the same rows."""

    def calibrated(X, y, **more):
        fit(X, y, calibrate="folds", **SHORT, **more)

    for study in (select_features, partial(tune, candidates="prior"), calibrated):
        with pytest.raises(DataError, match="are called so, and have other values"):
            study(TABLE, Y, family="poisson", exposure=TABLE["hours"] / 24)
        with pytest.raises(DataError, match="different row labels"):
            study(TABLE, Y, weights=TABLE["hours"][::-1])


@pytest.mark.parametrize(
    ("feature", "found"),
    [
        (2 * Y + 1, True),
        (-1e-3 * Y + 1e4, True),
        (Y + 1e-6 * RNG.normal(size=N), False),
        ((Y / 3).astype(np.float32), True),
        (np.where(np.arange(N) < 3, np.nan, 5 - Y), True),
        (np.where(np.arange(N) < 0.6 * N, np.nan, 5 - Y), False),
        (np.exp(Y), False),
        (np.full(N, 3.0), False),
    ],
)
def test_copies_but_for_scale_and_offset(feature, found):
    """A straight line through all rows, rounded or with few gaps too, is a copy; noise or a curve isn't."""
    assert is_copy(feature, Y) == found
    assert not is_copy(feature, Y, also_scaled=False)
    warnings = prepare({"f": feature, "x": TABLE["x"]}, Y).warnings
    assert any(text.startswith("f has, but for scale and offset") for text in warnings) == found


def test_classes_under_other_names_are_copies():
    """One name for each class, as text or as a number, repeats the target."""
    classes = RNG.choice(["u", "v", "w"], N)
    number = np.select([classes == "u", classes == "v"], [7, 1], 3)
    for feature in (number, np.array(["z", "k", "m"])[np.searchsorted(["u", "v", "w"], classes)]):
        (warning,) = prepare({"f": feature, "x": TABLE["x"]}, classes, family="categorical").warnings
        assert warning.startswith("f has other names for the classes of the target")
    for feature in (classes != "u", [None, *np.where(classes == "u", "p", "q")[1:]]):
        (warning,) = prepare({"f": feature, "x": TABLE["x"]}, classes == "u", family="probit").warnings
        assert warning.startswith("f has other names")
    assert prepare({"f": number, "x": TABLE["x"]}, classes == "u", family="probit").warnings == []


@pytest.mark.parametrize(
    ("levels", "y", "hint"),
    [
        (("No", "Yes"), ["YES"], "did you mean Yes?"),
        (("No", "Yes"), [True], "did you mean Yes?"),
        (("0", "1"), [False], "did you mean 0?"),
        (("false", "true"), ["N"], "did you mean false?"),
        (("setosa", "virginica"), ["Setosa "], "did you mean setosa?"),
        (("a", "b"), ["q"], "which has 'a', 'b'"),
    ],
)
def test_labels_that_are_no_class_are_refused(levels, y, hint):
    """With row, the model's classes, and the nearest of them."""
    target = Column("kind", "category", levels)
    known = read_outcomes([levels[1], levels[0]], target, 2)
    assert known[0] == levels
    with pytest.raises(DataError, match="is no class of the model") as refused:
        read_outcomes(y * 2, target, 2)
    (problem,) = refused.value.problems
    assert (problem.column, problem.row) == ("kind", 1)
    assert "here and in 1 other row" in problem.detail
    assert hint in problem.detail
