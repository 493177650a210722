"""Data that no fit can take are refused, with column and row."""

import math

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, SettingsError, prepare
from sampler.data.censoring.outcomes import read_censored
from sampler.data.schema import Column
from sampler.data.table import read_column
from sampler.data.target import read_outcomes
from tests.support.prepared_fits import RNG, N, mixed_columns, outcomes, problem_of, refusal_of


@pytest.mark.parametrize(
    ("change", "row", "words"),
    [
        ({3: math.nan}, 4, "missing"),
        ({0: math.inf}, 1, "infinite"),
        ({9: -math.inf}, 10, "infinite"),
    ],
)
def test_bad_target_rows_are_named(change, row, words):
    """A missing or infinite target is an error that names its row."""
    outcome = outcomes()
    for i, value in change.items():
        outcome[i] = value
    (problem,) = refusal_of(outcome=outcome, target_name="mpg").problems
    assert (problem.column, problem.row) == ("mpg", row)
    assert words in problem.detail


def test_many_bad_target_rows():
    """Ten infinite targets are named and the others counted; missing ones are one fault with the way out."""
    problems = refusal_of(outcome=np.full(N, math.inf)).problems
    assert [p.row for p in problems] == [*range(1, 11), None]
    assert "50 more" in problems[-1].detail
    (problem,) = refusal_of(outcome=[1.5, math.nan, 2.5] * (N // 3)).problems
    assert problem.row is None
    assert "missing in 20 of 60 rows (2, 5, 8, 11, 14, ..)" in problem.detail
    assert 'missing_target="leave_out"' in problem.detail


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ([3.0] * N, "constant target"),
        (["low", "high"] * 30, 'or set family="auto"'),
        (["low", "mid", "high"] * 20, 'or set family="auto" if these are 3 classes'),
        (["1", "2", "x"] * 20, "row 3 holds 'x'"),
        (["12", "13"] * 30, "must be numeric"),
        ([True, False] * 30, 'set family="probit", make it a number (0 and 1)'),
        (pd.date_range("2020", periods=N), "must be numeric"),
        ([1.0, "a"] * 30, "row 2 holds 'a'"),
        (np.zeros((N, 2, 2)), "one dimension"),
        (np.zeros((N, 2)), "column 'y1': constant target"),
        ([1.0, 2.0], "2 rows"),
        ([], "no rows"),
        (3.0, "one column"),
        ([1e308, -1e308] * 30, "rescale it"),
    ],
    ids=str,
)
def test_targets_that_cannot_be_fitted(outcome, words):
    """A refused target's error states the problem and the remedy."""
    assert words in str(refusal_of(outcome=outcome))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (["a"] * N, "constant target"),
        (["a", "b", "c"] * 20, "3 classes: probit takes two"),
        (np.arange(N), "60 classes"),
        (["a", None] * 30, "missing in 30 of 60 rows (2, 4, "),
        ([1.0, math.nan] * 30, "missing in 30 of 60 rows (2, 4, "),
        ([[1], [2]] * 30, "type list"),
    ],
    ids=str,
)
def test_classes_that_cannot_be_fitted(outcome, words):
    """Probit requires exactly two classes and a class in every row."""
    assert words in str(refusal_of(outcome=outcome, family="probit"))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0] * (N - 1) + [0.0], "positive"),
        ([1.0] * (N - 1) + [-1.0], "row 60"),
        ([1.0] * (N - 1) + [math.nan], "missing"),
        ([1.0] * (N - 1) + [math.inf], "finite"),
        (["a"] * N, "numbers"),
        ([1.0], "1 rows"),
    ],
)
def test_weights_that_make_no_sense(weights, words):
    """Weights must be positive numbers, one per row."""
    assert words in str(refusal_of(weights=weights))


def test_infinite_values_are_named():
    """An infinite feature is an error with column and row."""
    (problem,) = refusal_of({"x": [1.0, math.inf] + [2.0] * 58}).problems
    assert (problem.column, problem.row) == ("x", 2)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"features": ["size", "nope"]}, DataError, "'nope': there is no such column"),
        ({"features": ["size", "size"]}, DataError, "named twice"),
        ({"features": []}, DataError, "no column to learn from"),
        ({"columns": {"nope": "number"}}, SettingsError, "'nope'"),
        ({"columns": {"size": "nominal"}}, SettingsError, "one of number, boolean, category, date"),
        ({"columns": {"size": "boolean"}}, DataError, "true or false"),
        ({"columns": {"size": "date"}}, DataError, "where a date"),
        ({"columns": {"when": "number"}}, DataError, "dates where a number"),
        ({"columns": {"trio": "boolean"}}, DataError, "true or false"),
        ({"prior": {"cuts": "medians"}}, SettingsError, "mixed"),
        ({"prior": {"cuts": {"nope": [1]}}}, SettingsError, "nope"),
        ({"prior": {"cuts": {"size": [2, 1]}}}, SettingsError, "increasing"),
        ({"prior": {"kk": 1}}, SettingsError, "kk"),
        ({"family": "survival"}, SettingsError, "family"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, error, words):
    """The error of an invalid argument names the given value and the accepted ones."""
    assert words in str(refusal_of(error=error, **arguments))


def test_too_many_cells(monkeypatch):
    """Data whose indicators would fill the memory are refused with their size."""
    monkeypatch.setattr("sampler.preparation.encode.MAX_CELLS", 300)
    with pytest.raises(DataError, match="60 rows of more than 5 coded columns"):
        problem_of()


def test_classes_that_float64_would_merge():
    """Integers near 2^53 that float64 would merge are separate classes."""
    with pytest.raises(DataError, match="3 classes"):
        prepare({"a": np.arange(30.0)}, [2**53, 2**53 + 1, 2**53 + 2] * 10, family="probit")


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e160, 1e300, 1e307])
def test_extreme_targets_are_refused_by_name(scale):
    """Targets whose squares overflow or underflow are refused with their size."""
    message = str(refusal_of(outcome=RNG.uniform(1, 9, N).round() * scale, target_name="price"))
    assert "price" in message
    assert "rescale" in message


@pytest.mark.parametrize("name", ["k", "leaf_sd", "lambda", "sigma", "sigma_start", "step"])
@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e300])
def test_extreme_scales_of_the_prior_are_refused(name, value):
    """A prior scale whose square overflows or underflows is refused."""
    assert f"prior {name} must be" in str(refusal_of(error=SettingsError, prior={name: value}))


def test_single_trees_refuse_weights_too_small_to_be_told_from_zero():
    """Weights of a single tree may span a factor of 1e12, held exactly; a span of 1e24 is refused."""
    w = np.where(np.arange(N) % 3 == 0, 1e-6, 1e6)
    assert not any(
        "weights" in warning
        for warning in prepare(mixed_columns(), outcomes(), weights=w, method="bcart").warnings
    )
    with pytest.raises(DataError, match="is negligible"):
        prepare(mixed_columns(), outcomes(), weights=w**2, method="bcart")


@pytest.mark.parametrize("numbers", [[1.0, 1e101], [1.0, -1.7e308]])
def test_outcomes_of_new_rows_are_refused_by_row_beyond_the_largest(numbers):
    """Scores square outcomes: numbers, times and limits of new rows beyond 1e100 are refused by row."""
    column = Column("y", "number", (), 0, 0.0, 9.0)
    late = {"event": read_column([True, False], "event")}
    beside = {"lower": read_column([1.0, np.nan], "lower"), "upper": read_column([2.0, numbers[1]], "upper")}
    for read in (
        lambda: read_outcomes(numbers, column, 2),
        lambda: read_censored(np.abs(numbers), "y", late, 2),
        lambda: read_censored([np.nan, np.nan], "y", beside, 2),
    ):
        with pytest.raises(DataError) as caught:
            read()
        assert [(problem.column, problem.row) for problem in caught.value.problems] == [("y", 2)]
        assert "up to 1e+100" in str(caught.value)
