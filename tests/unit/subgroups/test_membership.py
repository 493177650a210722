"""Declared subgroups: what is read, which rows are in each, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from sampler.data.table import read
from sampler.errors import DataError, SettingsError
from sampler.subgroups.declaration import Condition, Subgroup, Subgroups, read_text
from sampler.subgroups.membership import bits_of, columns_of, quarter_points, resolve

ROWS = pd.DataFrame(
    {
        "age": [20.0, 65.0, np.nan, 80.0],
        "sex": ["F", "M", None, "F"],
        "day": pd.to_datetime(["2026-01-01", "2026-02-01", None, "2026-03-01"]),
        "smokes": [True, False, True, False],
    }
)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("age>=65", [False, True, False, True]),
        ("age<65", [True, False, False, False]),
        ("age>=65 & sex=F", [False, False, False, True]),
        ("sex!=F", [False, True, False, False]),
        ("sex=F|M", [True, True, False, True]),
        ("age=?", [False, False, True, False]),
        ("day>=2026-02-01", [False, True, False, True]),
        ("smokes=true", [True, False, True, False]),
        ("age=20", [True, False, False, False]),
    ],
)
def test_conditions_of_a_command_line_are_read(text, inside):
    subgroup = Subgroup.read(read_text(text), ROWS.columns)
    assert (bits_of([subgroup], read(ROWS)) == 1).tolist() == inside
    assert Subgroup.read(subgroup.to_json()) == subgroup


def test_truths_may_come_as_numbers():
    smokes = Subgroup("smokes", (Condition("smokes", levels=("true",)),))
    assert bits_of([smokes], read({"smokes": [1, 0, None]})).tolist() == [1, 0, 0]


def test_columns_become_levels_quarters_and_patterns():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "region": ["a"] * 30 + ["b"] * 12 + ["c"] * 5 + [None] * 3,
            "x": [*rng.uniform(size=39).round(3), *[np.nan] * 11],
            "beside": ["u", "v"] * 25,
        }
    )
    kinds = {"region": "category", "x": "number"}
    declared = Subgroups.read(["region", "x", "beside", "missing", "by_class"], table.columns)
    cuts = lambda name: quarter_points(table[name].to_numpy())  # noqa: E731
    found = resolve(declared, read(table), kinds, cuts, of_classes=True)
    names = [each.name for each in found]
    assert names[:3] == ["region = a", "region = b", "region: other values"]
    assert len(names) == 3 + 4 + 2 + 2
    assert names[-4:] == ["beside = u", "beside = v", "x missing", "complete"]
    bits = bits_of(found, read(table))
    counts = [int(((bits >> np.uint64(j)) & np.uint64(1)).sum()) for j in range(len(found))]
    assert counts[:3] == [30, 12, 5]
    assert sum(counts[3:7]) == 39
    assert counts[-4:] == [25, 25, 11, 39]
    assert columns_of(found) == ["region", "x", "beside"]
    assert Subgroups.read(declared.to_json(), table.columns) == declared


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("sex", "is a list of up to"),
        (["sexx"], "did you mean sex"),
        ([3], "neither the name of a column"),
        ([{"name": "old"}], "has a name and where"),
        ([{"name": "", "where": [{"column": "age", "below": 3}]}], "a text of up to 200"),
        ([{"name": "old", "where": []}], "where is a list"),
        ([{"name": "old", "where": [{"column": "age"}]}], "each condition is a column with"),
        ([{"name": "old", "where": [{"column": "age", "above": 3}]}], "each condition is a column with"),
        ([{"name": "old", "where": [{"column": "age", "at_least": "three"}]}], "dates like 2026-01-31"),
        ([{"name": "old", "where": [{"column": "age", "below": None}]}], "dates like 2026-01-31"),
        ([{"name": "old", "where": [{"column": "day", "at_least": 3, "below": "2026-01-01"}]}], "both dates"),
        ([{"name": "old", "where": [{"column": "sex", "in": []}]}], "lists of levels"),
        ([{"name": "old", "where": [{"column": "sex", "missing": 1}]}], "true or false"),
        (["sex", "sex"], "named twice"),
    ],
)
def test_what_is_no_declaration_is_refused(value, message):
    with pytest.raises(SettingsError, match=message) as refused:
        Subgroups.read(value, ROWS.columns)
    assert refused.value.field == "subgroups"


def test_text_that_is_no_condition_is_refused():
    for text in ("age>=", "age>=?", ">=3"):
        with pytest.raises(SettingsError, match="subgroups"):
            Subgroup.read(read_text(text), ROWS.columns)


def test_cells_that_no_condition_is_about_are_named():
    with pytest.raises(DataError, match="row 2"):
        bits_of([Subgroup.read(read_text("age>=65"))], read({"age": [20, "old"]}))
    with pytest.raises(DataError, match="send it too"):
        bits_of([Subgroup.read(read_text("age>=65"))], read({"sex": ["F"]}))
