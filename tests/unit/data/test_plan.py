"""The plan of a fit: every check before a feature is read."""

from functools import partial

import numpy as np
import pytest

from sampler import DataError, SettingsError, describe
from sampler.data.rows import Rows
from sampler.data.schema import choose
from sampler.data.table import Table, read
from sampler.preparation import plan, resolve_settings

N = 30
DATA = {
    "y": np.arange(N) % 7 + 0.5,
    "x": np.linspace(0, 1, N),
    "site": ["a", "b", "c"] * (N // 3),
    "w": np.linspace(1, 2, N),
    "days": np.full(N, 3.0),
    "died": np.arange(N) % 2,
    "same": np.ones(N),
}


def planned(changes=None, roles=None, settings=None, **more):
    """Plan a fit to data whose features can't be read."""
    data = read(DATA | (changes or {}))
    taken = {"y", *(roles or {}).values(), *more.get("groups", ()), *more.get("slopes", ())}

    def unreadable(name):
        raise AssertionError(f"{name} was read")

    readers = {
        name: data.readers[name] if name in taken else partial(unreadable, name) for name in data.names
    }
    columns = {role: data.column(name) for role, name in (roles or {}).items()}
    rows = Rows(Table(data.names, N, readers), data.column("y"), columns)
    resolved = resolve_settings(rows, **(settings or {}))
    return plan(rows, describe(DATA | (changes or {})), resolved, **more)


def test_a_plan_reads_no_feature():
    """Settings, features with their kinds, the outcomes and the columns with a role are known by it."""
    fit = planned(roles={"weights": "w"}, groups=["site"], slopes=["x"], prior={"k": 3, "cuts": "uniform"})
    assert fit.choice.kinds == {"x": "number", "days": "number", "died": "number", "same": "number"}
    assert (fit.prior, fit.cuts, fit.resolved_prior["cuts"]) == ({"k": 3}, "uniform", "uniform")
    assert fit.resolved_prior["alpha"] == 0.95
    assert fit.by_role["weights"].tolist() == DATA["w"].tolist()
    assert [(each.name, each.levels) for each in fit.groups] == [("site", ("a", "b", "c"))]
    assert fit.slopes == ("x",)


@pytest.mark.parametrize(
    ("field", "code", "more"),
    [
        ("weights", "not_applicable", {"roles": {"weights": "w"}, "settings": {"family": "poisson"}}),
        ("exposure", "not_applicable", {"roles": {"exposure": "days"}}),
        ("event", "contradiction", {"roles": {"event": "died", "lower": "w"}}),
        ("method", "not_applicable", {"roles": {"event": "died"}, "settings": {"method": "bcart"}}),
        ("transform", "not_applicable", {"changes": {"y": np.arange(N)}, "settings": {"transform": "log"}}),
        ("groups", "unknown", {"groups": ["school"]}),
        ("groups", "contradiction", {"groups": ["w"], "roles": {"weights": "w"}}),
        ("groups", "not_applicable", {"groups": ["site"], "settings": {"method": "bcart"}}),
        ("slopes", "contradiction", {"slopes": ["x"]}),
        ("slopes", "not_applicable", {"slopes": ["same"], "groups": ["site"]}),
        ("prior.cuts", "unknown", {"prior": {"cuts": {"z": [1]}}}),
        ("prior.cuts", "not_accepted", {"prior": {"cuts": {"x": [2, 1]}}}),
        ("prior.k", "out_of_range", {"prior": {"k": -1}}),
        ("columns", "not_accepted", {"columns": {"x": "colour"}}),
    ],
)
def test_settings_are_refused_by_field_and_code(field, code, more):
    """Contradictions with the method, the family, roles and each other, names and ranges."""
    with pytest.raises(SettingsError) as refusal:
        planned(**more)
    assert (refusal.value.field, refusal.value.code) == (field, code)


@pytest.mark.parametrize(
    ("column", "row", "more"),
    [
        ("y", None, {"changes": {"y": np.ones(N)}}),
        ("y", 4, {"changes": {"y": np.where(np.arange(N) == 3, np.inf, DATA["y"])}}),
        ("w", 3, {"changes": {"w": np.where(np.arange(N) == 2, -1.0, 2.0)}, "roles": {"weights": "w"}}),
        ("died", 3, {"changes": {"died": np.arange(N)}, "roles": {"event": "died"}}),
        ("site", 1, {"changes": {"site": [None, *DATA["site"][1:]]}, "groups": ["site"]}),
        ("z", None, {"features": ["x", "z"]}),
        ("w", None, {"features": ["x", "w"], "roles": {"weights": "w"}}),
    ],
)
def test_data_are_refused_by_column_and_row(column, row, more):
    """Outcomes, columns with a role, under their own names, and features by what is known of them."""
    with pytest.raises(DataError) as refusal:
        planned(**more)
    problem = refusal.value.problems[0]
    assert (problem.column, problem.row) == (column, row)


NUMBERED = {"row": np.arange(1.0, N + 1), "id": [f"row {k}" for k in range(N)], "at": np.arange(N) + 0.5}


def test_columns_that_only_tell_rows_apart_are_left_out_with_the_reason():
    """The numbers 1 to n and texts of one row each are no features unless named, or where nothing else is."""
    choice = planned(NUMBERED).choice
    whys = {item.name: item.why for item in choice.left_out}

    assert {*whys} == {"row", "id"} <= {*choice.ignored}
    assert "at" in choice.kinds
    assert f"it only numbers the rows, from 1 to {N} (choose it as a feature" in whys["row"]
    assert "every row has another text (choose it as a feature" in whys["id"]
    assert planned(NUMBERED, features=["row", "id"]).choice.kinds == {"row": "number", "id": "category"}
    assert "row" in planned(NUMBERED, columns={"row": "number"}).choice.kinds
    for summaries, kinds in (
        (describe({"row": NUMBERED["row"]}), {"row": "number"}),
        (describe(NUMBERED), {"at"}),
    ):
        assert {*choose(summaries, num_rows=N).kinds} == {*kinds}
