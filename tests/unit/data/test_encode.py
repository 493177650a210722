"""New rows are matched by column name; mismatches are reported, never guessed."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler import DataError, prepare
from sampler.data.encode import _few_usual_rows, encode
from sampler.data.schema import Schema

SETTINGS = {"num_trees": 5, "num_chains": 1, "num_burnin": 1, "num_draws": 2}
TRAIN = pd.DataFrame(
    {
        "size": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "hole": [1.0, math.nan, 3.0, 4.0, 5.0, 6.0],
        "flag": [True, False, True, False, True, False],
        "pair": ["no", "yes", "no", "yes", "no", "yes"],
        "trio": ["a", "b", "c", "a", "b", "c"],
        "when": pd.date_range("2020-01-01", periods=6),
        "y": [1.0, 5.0, 2.0, 4.0, 3.0, 6.0],
        "name": [f"n{i}" for i in range(6)],
    }
)
PROBLEM = prepare(TRAIN.drop(columns=["name"]), TRAIN["y"], ignored=["name"], **SETTINGS)
ROW = {"size": 2.5, "hole": 1.0, "flag": True, "pair": "yes", "trio": "b", "when": "2020-01-03"}


def encoded(rows):
    return encode(rows, PROBLEM.schema, PROBLEM.grid)


def columns(*rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def bad(**change):
    with pytest.raises(DataError) as caught:
        encoded(columns(ROW | change))
    return caught.value.problems


def test_training_rows_get_their_training_codes():
    """Encoding the training table again gives the training codes, in any column order and library."""
    for X in (TRAIN, TRAIN[TRAIN.columns[::-1]], pa.Table.from_pandas(TRAIN), TRAIN.to_dict("list")):
        np.testing.assert_array_equal(encoded(X).codes, PROBLEM.training.codes)


def test_unused_training_columns_are_ignored_and_named():
    """The target and other unused training columns are accepted, ignored and named."""
    assert encoded(TRAIN).warnings[0] == "not used by the model: y, name"
    assert encoded(columns(ROW)).warnings == []


def test_a_row_of_lists_has_the_codes_and_values_of_the_table():
    """A few usual rows are encoded cell by cell, with what whole columns give."""
    names = [*ROW]
    table = encode(TRAIN[names], PROBLEM.schema, PROBLEM.grid, keep_values=True)
    texts = TRAIN[names].assign(when=TRAIN["when"].dt.strftime("%Y-%m-%d")).to_dict("records")
    for i, record in enumerate(texts):
        cells = {name: [None if value != value else value] for name, value in record.items()}
        for order in (names, names[::-1]):
            coded = encode(
                {name: cells[name] for name in order}, PROBLEM.schema, PROBLEM.grid, keep_values=True
            )
            np.testing.assert_array_equal(coded.codes[:, 0], table.codes[:, i])
            np.testing.assert_array_equal(vars(coded)["values"][:, 0], vars(table)["values"][:, i])
            np.testing.assert_array_equal(coded.marks, np.zeros((len(names), 1), np.uint8))
    whole = encode({**cells, "size": [6]}, PROBLEM.schema, PROBLEM.grid)
    np.testing.assert_array_equal(whole.codes[:, 0], table.codes[:, 5])
    for change, usual in (({}, True), ({"size": 6.5}, False), ({"trio": "d"}, False), ({"when": "x"}, False)):
        rows = columns(ROW | change)
        assert (_few_usual_rows(rows, PROBLEM.schema, PROBLEM.grid) is not None) == usual, change


TIMES = pd.date_range("2020-01-01 06:00", periods=6, freq="D")
FORMS = {
    "pandas": pd.Series,
    "polars": lambda times: pl.Series(times.to_pydatetime()),
    "arrow": pa.array,
    "chunked": lambda times: pa.chunked_array([pa.array(times)]),
    "datetimes": lambda times: [*times.to_pydatetime()],
    "text": lambda times: [time.isoformat() for time in times],
    "a row": lambda times: [times[2].isoformat()],
    "one of many": lambda times: [TIMES[0].isoformat(), times[2].isoformat()],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("trained", [None, "Europe/Berlin"])
def test_times_with_a_zone_are_told_from_those_without(form, trained):
    """Rows of every type that differ from training, in what its file keeps too, are named."""
    problem = prepare(pd.DataFrame({"when": TIMES.tz_localize(trained)}), TRAIN["y"], **SETTINGS)
    schema = Schema.from_json(problem.schema.to_json())
    assert schema.columns[0].zoned is (trained is not None)
    for zone in (None, "Europe/Berlin"):
        rows = FORMS[form](TIMES.tz_localize(zone))
        if trained and form == "one of many":
            rows[0] = TIMES.tz_localize(trained)[0].isoformat()
        warnings = encode({"when": rows}, schema, problem.grid).warnings
        told = [warning for warning in warnings if "zone" in warning]
        assert len(told) == (zone != trained), (zone, warnings)
        assert all(("taken as UTC" if trained else "converted to UTC") in warning for warning in told)
    old = replace(schema, columns=(replace(schema.columns[0], zoned=None),))  # of an earlier version
    assert "zoned" not in old.columns[0].to_json()
    assert "zone" not in str(encode({"when": rows}, old, problem.grid).warnings)


@given(st.permutations(list(ROW)))
def test_the_order_of_columns_never_matters(names):
    """Columns are matched by name, in any order."""
    shuffled = {name: [ROW[name]] for name in names}
    np.testing.assert_array_equal(encoded(shuffled).codes, encoded(columns(ROW)).codes)


def test_absent_unknown_and_doubled_columns():
    """Absent, unknown and duplicate columns are errors that name them all at once."""
    row = {name: value for name, value in ROW.items() if name != "size"} | {"colour": "red"}
    with pytest.raises(DataError) as caught:
        encoded(columns(row))
    assert [p.column for p in caught.value.problems] == ["size", "colour"]
    doubled = pa.table([[1.0]] * 7, names=["size", "size", "hole", "flag", "pair", "trio", "when"])
    with pytest.raises(DataError, match="several columns"):
        encoded(doubled)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("size", "abc", "the text 'abc' where a number belongs"),
        ("size", "12", "send it without quotes"),
        ("size", math.inf, "infinite"),
        ("size", -math.inf, "infinite"),
        ("size", 10**400, "infinite"),
        ("size", [1], "type list"),
        ("size", {"a": 1}, "type dict"),
        ("flag", 2, "boolean must be true or false"),
        ("flag", "true", "where true or false belongs"),
        ("when", "tomorrow", "where a date like 2026-01-31 belongs"),
        ("when", 5, "where a date"),
        ("trio", ["a"], "type list"),
    ],
    ids=str,
)
def test_cells_of_the_wrong_type(column, value, words):
    """An error about a cell names its column, row and value."""
    with pytest.raises(DataError) as caught:
        encoded(columns(ROW | {column: value}))
    (problem,) = caught.value.problems
    assert problem.column == column
    assert words in problem.detail


def test_rows_are_named_from_one():
    """Rows are numbered from 1 in errors."""
    with pytest.raises(DataError) as caught:
        encoded(columns(ROW, ROW | {"size": "x", "trio": "b"}))
    assert [p.row for p in caught.value.problems] == [2]


def test_several_problems_at_once():
    """All problems of the rows are reported together."""
    assert {p.column for p in bad(size="x", when="y", hole=math.inf)} == {"size", "when", "hole"}


def test_numbers_and_booleans_for_a_boolean():
    """1 and 0 are accepted as true and false."""
    assert encoded(columns(ROW | {"flag": 1})).codes[2, 0] == encoded(columns(ROW)).codes[2, 0]


@pytest.mark.parametrize("when", ["2020-01-03", "2020-01-03T00:00:00Z", "2020-01-03T02:00:00+02:00"])
def test_dates_in_text(when):
    """ISO dates and times are read, with time zones converted."""
    np.testing.assert_array_equal(encoded(columns(ROW | {"when": when})).codes, encoded(columns(ROW)).codes)


def test_unseen_levels_are_named_not_refused():
    """A new level sets no indicator of three, or counts as missing among two levels; both give warnings."""
    coded = encoded(columns(ROW | {"trio": "z", "pair": "maybe"}, ROW))
    assert coded.codes[:, 0].tolist()[3:7] == [255, 0, 0, 0]
    assert coded.warnings == [
        "pair: levels never seen in training: 'maybe' (1 row)",
        "trio: levels never seen in training: 'z' (1 row)",
    ]


def test_missing_values_are_counted():
    """Missing values are counted; where training had none, the warning calls their prediction a guess."""
    coded = encoded(columns(ROW | {"hole": None, "size": None, "trio": None}, ROW | {"hole": math.nan}))
    np.testing.assert_array_equal(coded.codes[:2] == 255, [[True, False], [True, True]])
    assert coded.warnings == [
        "size: missing in 1 row, though none was in training: such a prediction is a guess",
        "hole: missing in 2 rows",
        "trio: missing in 1 row, though none was in training: such a prediction is a guess",
    ]


def test_zero_rows():
    """A table without rows encodes to no rows."""
    assert encoded({name: [] for name in ROW}).num_rows == 0


def test_numbers_for_categories_are_spelled():
    """A category with integer levels accepts 1, 1.0 and "1" alike."""
    problem = prepare({"x": [1, 2, 3] * 5}, np.arange(15.0), columns={"x": "category"}, **SETTINGS)
    codes = [
        encode({"x": [value]}, problem.schema, problem.grid).codes.tolist()
        for value in (2, 2.0, "2", np.int8(2))
    ]
    assert codes == [[[0], [1], [0]]] * 4
