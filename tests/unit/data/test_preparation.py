"""Preparation of a table for a fit."""

import math

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, choose, describe, prepare
from sampler.data.encode import encode
from sampler.methods import METHODS
from sampler.noise import NOISES
from sampler.preparation import prepare_again
from sampler.storage.model_header import Header
from tests.support.prepared_fits import RNG, SETTINGS, N, mixed_columns, outcomes, problem_of, refusal_of

OTHER = np.random.default_rng(11)
Y = OTHER.normal(size=N)


def test_columns_of_a_fit():
    """Columns have their kinds and indicators (one for two levels, q for q > 2); one is left out."""
    problem = problem_of()
    kinds = {column.name: column.kind for column in problem.schema.columns}
    assert kinds == {
        "size": "number",
        "flag": "boolean",
        "pair": "category",
        "trio": "category",
        "when": "date",
    }
    assert [level for _, level in problem.schema.coded] == [None, None, "yes", "a", "b", "c", None]
    (left_out,) = problem.schema.left_out
    assert (left_out.name, problem.warnings) == ("name", [f"name is left out: {left_out.why}"])
    assert "60 different values" in left_out.why
    assert problem.training.codes.shape == (7, N)


def test_left_out_text_can_be_named():
    """Text of many levels is used when `features` or `columns` names it."""
    assert len(problem_of(features=["name"]).schema.coded) == N
    assert "name" in [column.name for column in problem_of(columns={"name": "category"}).schema.columns]


def test_number_as_category():
    """Levels of numbers are spelled as the user would: "1", not "1.0"; 0.5 keeps its fraction."""
    X = {"x": [1.0, 2, 1, 10.5] * 15}
    (column,) = problem_of(X, columns={"x": "category"}).schema.columns
    assert column.levels == ("1", "2", "10.5")
    (column,) = problem_of({"x": [True, False] * 30}, columns={"x": "category"}).schema.columns
    assert column.levels == ("false", "true")


def test_text_as_number():
    """Text that spells numbers becomes numbers on request; other cells are reported by row."""
    (column,) = problem_of({"x": ["1", " 2.5", None] * 20}, columns={"x": "number"}).schema.columns
    assert (column.kind, column.min, column.max, column.missing) == ("number", 1.0, 2.5, 20)
    with pytest.raises(DataError) as caught:
        problem_of({"x": ["1", "?", "2"] * 20}, columns={"x": "number"})
    assert [(p.column, p.row) for p in caught.value.problems[:2]] == [("x", 2), ("x", 5)]
    assert "'?'" in caught.value.problems[0].detail
    assert "10 more" in caught.value.problems[-1].detail


def test_text_as_date():
    """ISO dates in text become days since 1970."""
    (column,) = problem_of(
        {"x": ["1970-01-02", "1971-01-01T12:00:00Z"] * 30}, columns={"x": "date"}
    ).schema.columns
    assert (column.min, column.max) == (1.0, 365.5)


def test_missing_category_is_a_level():
    """Two levels and missing values give three indicators."""
    problem = problem_of({"x": ["a", None, "b"] * 20})
    assert [level for _, level in problem.schema.coded] == ["a", "b", None]
    assert not np.any(problem.training.codes == 255)


def test_missing_numbers_are_coded_as_missing():
    """A missing number has code 255 and is counted in the schema."""
    problem = problem_of({"x": [1.0, math.nan, 3.0] * 20})
    assert problem.schema.columns[0].missing == 20
    assert np.sum(problem.training.codes == 255) == 20


def test_the_target_is_not_a_feature():
    """A target contained in the table is not a feature."""
    frame = pd.DataFrame({"x": RNG.normal(size=N), "y": outcomes()})
    problem = prepare(frame, frame["y"], **SETTINGS)
    assert [column.name for column in problem.schema.columns] == ["x"]
    assert problem.schema.target.name == "y"
    with pytest.raises(DataError, match="target"):
        prepare(frame, frame["y"], features=["x", "y"], **SETTINGS)


def test_columns_without_values_are_left_out():
    """A column without any value is left out."""
    problem = problem_of({"x": RNG.normal(size=N), "empty": [None] * N})
    assert [item.name for item in problem.schema.left_out] == ["empty"]


def test_constant_column_stays():
    """A constant column is a feature that no rule can use."""
    problem = problem_of({"x": RNG.normal(size=N), "c": [1.0] * N, "one": ["a"] * N})
    assert problem.training.num_codes.tolist()[1:] == [1, 1 + 0]


def test_header_is_the_same_bytes_and_comes_back():
    """Equal problems have equal headers, which restore the schema, the grid and up to 200 rows."""
    X, outcome = mixed_columns(), outcomes()
    problem = problem_of(X, outcome)
    assert problem.header() == problem_of(X, outcome).header()
    header = Header.from_bytes(problem.header())
    assert header.schema == problem.schema
    assert header.to_bytes() == problem.header()
    assert header.constants == problem.training.constants.to_json()
    for ours, theirs in zip(header.grid.cuts, problem.grid.cuts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(header.reference, problem.training.codes)


def test_reference_rows_are_at_most_200():
    """Large data keep 200 reference rows, spread over all."""
    problem = prepare({"x": np.arange(5000.0)}, RNG.normal(size=5000), **SETTINGS)
    assert Header.from_bytes(problem.header()).reference.shape == (1, 200)


def test_given_cuts():
    """Cut points can be given by column."""
    problem = problem_of({"x": np.arange(60.0), "z": np.arange(60.0)}, prior={"cuts": {"x": [10, 20.5]}})
    assert [len(cuts) for cuts in problem.grid.cuts] == [2, 59]
    assert problem.training.codes[0].tolist() == [0] * 11 + [1] * 10 + [2] * 39


def test_unusable_columns():
    """A column of mixed types is left out with a reason, and refused when it is requested."""
    X = {"x": RNG.normal(size=N), "m": [1, "a"] * 30}
    assert "several types" in problem_of(X).schema.left_out[0].why
    assert "several types" in str(refusal_of(X, features=["m"]))
    assert problem_of(X, columns={"m": "category"}).schema.columns[1].levels == ("1", "a")


def test_too_many_levels():
    """A category of thousands of levels is refused, since its indicators would fill the memory."""
    X = {"x": [f"v{i}" for i in range(3000)]}
    with pytest.raises(DataError, match="too many"):
        prepare(X, RNG.normal(size=3000), features=["x"], **SETTINGS)


def test_the_service_can_choose_without_the_data():
    """`choose` needs only the summaries stored with a dataset, and refuses the same columns."""
    summaries = describe(mixed_columns())
    assert list(choose(summaries, features=["size", "name"]).kinds) == ["size", "name"]
    with pytest.raises(DataError, match="no such column"):
        choose(summaries, features=["nope"])
    with pytest.raises(DataError, match="target"):
        choose(summaries, features=["size"], reserved=["size"])


@pytest.mark.parametrize("method", ["bart", "bcart", "bcart-mean-variance", "bcart-wu", "rjhmc-df"])
def test_rows_given_again_are_the_same_problem(method):
    """A header and the same rows restore the training data, constants and settings exactly."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.uniform(size=60), "b": rng.choice(["x", "y", "z"], 60)})
    y = X["a"].to_numpy() + 0.1 * rng.normal(size=60)
    problem = prepare(X, y, method=method)
    again = prepare_again(Header.from_bytes(problem.header()), X, y)
    assert again.training.fingerprint == problem.training.fingerprint
    assert again.header() == problem.header()


def test_a_feature_equal_to_the_target_is_reported():
    """A feature equal to the target is reported, for numbers, booleans and classes, named or not."""
    y = RNG.normal(size=30)
    (warning,) = prepare({"a": RNG.normal(size=30), "price": y}, y).warnings
    assert warning.startswith("price has exactly the values of the target")
    classes = np.array(["u", "v", "w"] * 10, dtype=object)
    other = RNG.normal(size=30)
    (warning,) = prepare({"a": other, "c": classes}, classes, method="bcart", family="categorical").warnings
    assert warning.startswith("c has")
    assert prepare({"a": other}, y).warnings == []


def test_text_that_spells_numbers_or_dates_says_how_to_read_it():
    """Text of many levels is left out with the argument of `fit` that reads it, or that takes subjects."""
    days = pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d")
    X = {
        "x": OTHER.normal(size=N),
        "d": [*days],
        "n": [f"{i}.5" for i in range(N)],
        "t": [f"t{i}" for i in range(N)],
    }
    why = {item.name: item.why for item in problem_of(X, Y).schema.left_out}
    assert "d" not in why
    assert why["n"].endswith("category; all are numbers: read them as such by columns={'n': 'number'}")
    assert why["t"].endswith("and up to 50 make a category")
    read = problem_of(X, Y, columns={"n": "number"}).schema
    assert {"d", "n"} <= {column.name for column in read.columns}
    subjects = [f"t{i % 150}" for i in range(300)]
    prepared = prepare({"x": OTHER.normal(size=300), "t": subjects}, OTHER.normal(size=300))
    assert prepared.schema.left_out[0].why.endswith("if they are subjects or sites, name it in groups")


CHOSEN = {"noise": "constant", "transform": "none", "linear": False}  # choices take longer than all else


def test_many_levels_of_few_rows_are_better_groups():
    """A category that is asked for has a note where few rows tell of each level, and groups may be had."""
    X = {"x": OTHER.normal(size=300), "t": [f"t{i % 100}" for i in range(300)]}
    y = OTHER.normal(size=300)
    (warning,) = prepare(X, y, columns={"t": "category"}, **CHOSEN).warnings
    assert warning.startswith("t has 100 levels, of 3.0 rows each: ")
    assert "groups='t'" in warning
    for more in ({"noise": "t"}, {"method": "bcart"}, {"groups": "t"}):
        columns = {} if "groups" in more else {"columns": {"t": "category"}}
        assert prepare(X, y, **columns, **CHOSEN | more).warnings == []
    assert prepare(X | {"t": [f"t{i % 25}" for i in range(300)]}, y, **CHOSEN).warnings == []


def test_very_few_rows_are_said_to_hold_less():
    """With 10 rows or less 90% intervals are known to hold less; classes have none."""
    x, y = OTHER.normal(size=11), OTHER.normal(size=11)
    assert prepare({"x": x}, y).warnings == []
    (warning,) = prepare({"x": x[1:]}, y[1:]).warnings
    assert warning.startswith("10 rows are very few: intervals of new outcomes hold less than they claim")
    assert prepare({"x": x[1:]}, y[1:] > np.median(y[1:]), family="probit").warnings == []


@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_whole_numbers_that_are_rounded_are_said(make):
    """Identifiers beyond 2^53 lose digits as numbers, and keep them as levels; exact ones are no matter."""
    ids = [2**53 + 1 + 3 * i for i in range(N)]
    X = {"x": OTHER.normal(size=N), "id": make(ids)}
    warnings = problem_of(X, Y).warnings
    assert warnings[0].startswith("id: 30 whole numbers of 2^53 or more are rounded to 53 bits")
    assert len(set(problem_of(X, Y, columns={"id": "category"}).schema.columns[1].levels)) == N
    assert problem_of(X | {"id": make([2**53 + 2 * i for i in range(N)])}, Y).warnings == []


@pytest.mark.parametrize("kind", ["number", "text"])
def test_numbers_that_calculations_would_not_survive_are_left_out(kind):
    """Features beyond 1e100, often a code for missing, are left out with a reason, or refused by name."""
    wild = np.where(np.arange(N) % 9, OTHER.normal(size=N), 1.7e308)
    X = {"x": OTHER.normal(size=N), "wild": wild if kind == "number" else [str(each) for each in wild]}
    asked = {} if kind == "number" else {"columns": {"wild": "number"}}
    if kind == "number":
        with np.errstate(all="raise"):
            (left_out,) = problem_of(X, Y).schema.left_out
        assert left_out.why.startswith("its numbers reach 1.7e+308, and up to 1e+100 are accepted")
    with pytest.raises(DataError, match=r"column 'wild': its numbers reach 1.7e\+308"):
        problem_of(X, Y, features=["x", "wild"], **asked)
    assert problem_of(X | {"wild": wild.clip(max=1e100)}, Y).schema.left_out == ()


def test_outliers_of_the_target_are_reported():
    """An outlier a million ranges away is reported with its row; a heavy tail isn't."""
    y = RNG.normal(size=60)
    y[41] = 1e6
    (warning,) = prepare({"a": RNG.normal(size=60)}, y, target_name="z").warnings
    assert warning.startswith("z: 1e+06 in row 42 is ")
    assert prepare({"a": RNG.normal(size=60)}, RNG.standard_t(2, size=60)).warnings == []


@pytest.mark.parametrize("method", ["bart", "bcart", "rjhmc-df"])
@pytest.mark.parametrize("scale", [1e-99, 1e99])
def test_targets_and_weights_at_the_ends_of_what_is_taken(method, scale):
    """The most extreme accepted targets and weights give finite positive constants."""
    outcome, weights = RNG.normal(size=N), RNG.uniform(1, 9, N)
    for other in (1e-99, 1e99):
        constants = prepare(
            mixed_columns(), outcome * scale, weights=weights * other, method=method
        ).training.constants
        figures = [constants.step, constants.leaf_sd, constants.sigma_start, constants.lambda_]
        assert all(0 < value < math.inf for value in figures)


@pytest.mark.parametrize("method", ["bart", "bcart", "smc", "rjhmc-df"])
def test_inverse_variance_weights_make_any_unit_of_y_alike(method):
    """With weights 1 / variance sigma is 1 in any unit of y, also where a straight line fits perfectly."""
    X = {"x": RNG.uniform(size=N)}
    w = RNG.uniform(0.3, 4, N)
    for y in (np.sin(6 * X["x"]), 3 * X["x"]):
        one, other = (
            prepare(X, y * unit, weights=w / unit**2, method=method).training.constants
            for unit in (1.0, 2.0**30)
        )
        assert other.sigma_start == pytest.approx(one.sigma_start, rel=1e-9)
        assert other.lambda_ == pytest.approx(one.lambda_, rel=1e-9)


# Powers of the units of y and of the weights in the constants; the other constants have no unit.
UNITS = {"lambda_": (2, 1), "sigma_start": (1, 0.5), "sigma_scale": (1, 0.5), "precision": (0, 1)}
UNITS |= dict.fromkeys(("offset", "step", "leaf_sd", "slope_scale", "scale_of_groups"), (1, 0))


@pytest.mark.parametrize(
    "settings",
    [
        *({"method": method} for method in METHODS),
        *({"noise": noise} for noise in NOISES if noise != "mixture"),  # which takes no weights
        {"linear": True, "groups": "trio"},
    ],
    ids=str,
)
def test_constants_have_the_units_of_the_outcomes_and_weights(settings):
    """y times 2^k and all weights times 2^j multiply every constant by a power of two, by its unit."""
    X, outcome, w = mixed_columns(), outcomes() + 3, RNG.uniform(0.3, 4, N)
    fixed = {"transform": "none"} if METHODS[settings.get("method", "bart")].engine.forests else {}

    def constants(k: int, j: int) -> dict[str, object]:
        prepared = prepare(X, outcome * 2.0**k, weights=w * 2.0**j, **fixed, **settings)
        linear, groups = prepared.training.parts.get("line"), prepared.parts.get("groups")
        return (
            prepared.training.constants.to_json()
            | ({"slope_scale": linear.terms.slope_scale} if linear else {})
            | ({"scale_of_groups": groups.scales[0]} if groups else {})
        )

    one, other = constants(0, 0), constants(-12, 40)
    for name, value in one.items():
        of_y, of_weights = (0, 0) if name == "lambda_" and "sigma_scale" in one else UNITS.get(name, (0, 0))
        factor = 2.0 ** (-12 * of_y + 40 * of_weights)
        expected = value if factor == 1 else pytest.approx(factor * value, rel=1e-12, abs=0)
        assert other[name] == expected, name


def test_weights_too_small_to_be_told_from_zero_are_said():
    """Rows with negligible weight count as weight 0, with a warning and their number."""
    w = np.where(np.arange(N) % 3 == 0, 1e-6, 1e6)
    problem = problem_of(weights=w)
    (warning,) = [warning for warning in problem.warnings if warning.startswith("weights")]
    assert "20 of 60 rows (33.3%) count as weight 0" in warning
    training = problem.training
    np.testing.assert_array_equal(training.grid_weights * training.weight_unit, np.where(w < 1, 0, w))

    fine = problem_of(weights=np.where(w < 1, 1e-1, 1e6))
    assert not [warning for warning in fine.warnings if warning.startswith("weights")]
    relative = fine.training.grid_weights * fine.training.weight_unit / fine.training.weights
    np.testing.assert_allclose(relative, 1, atol=1 / 8)


def test_most_rows_of_one_value_are_told_before_the_fit():
    """The sentence names what can be fitted: a hurdle, with its point where that is no end, or no hurdle."""
    rng = np.random.default_rng(0)
    number, X = rng.normal(5, 1, 60), {"a": rng.uniform(size=60)}
    low, middle = (np.where(np.arange(60) < 40, value, number) for value in (0.0, 5.0))
    ((zero,), (five,)) = (prepare(X, y, noise="constant").warnings for y in (low, middle))
    assert zero.startswith("y: 67% of the rows are exactly 0")
    assert 'fit with family="hurdle", which learns' in zero
    assert "family=\"hurdle\" and prior={'point': 5.0}, which learns" in five
    fewer = np.where(np.arange(60) < 24, 0.0, number)
    assert prepare(X, fewer, noise="constant").warnings[0].startswith("y: 40% of the rows are exactly 0")
    prepare(X, low, family="hurdle")
    prepare(X, middle, family="hurdle", prior={"point": 5.0})
    for more in ({"monotone": {"a": "increasing"}}, {"method": "bcart"}):
        (said,) = prepare(X, low, **more).warnings
        assert "hurdle" not in said
    assert prepare(X, low, family="hurdle").warnings == prepare(X, number).warnings == []


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([f"2024-{1 + k % 12:02}-{1 + k % 28:02}" for k in range(N)], "date"),
        ([f"2024-{1 + k % 3:02}-01" for k in range(N)], "date"),
        ([f"2024-{1 + k % 12:02}-{1 + k % 28:02} {k % 24:02}:30" for k in range(N)], "date"),
        ([None, *(f"2024-01-{1 + k % 28:02}" for k in range(N - 1))], "date"),
        ([f"2024-{1 + k % 12:02}" for k in range(N)], "category"),  # a month is no day
        ([f"{1 + k % 12:02}/{1 + k % 28:02}/2024" for k in range(N)], None),  # day or month first
        (["2024-01-31", *(f"2024-01-{1 + k % 28:02}T12:00" for k in range(N - 1))], "category"),  # two forms
        (["2024-02-30", *(f"2024-01-{1 + k % 28:02}" for k in range(N - 1))], "category"),  # no such day
    ],
)
def test_text_that_spells_dates_of_one_form_is_dates(cells, kind):
    """It is said, new rows may have text too, and a kind that is asked for goes before."""
    prepared = problem_of({"x": OTHER.normal(size=N), "d": cells}, Y)
    found = {column.name: column.kind for column in prepared.schema.columns}.get("d")
    if kind is not None:
        assert found == kind
    assert ("d is text that spells dates" in " ".join(prepared.warnings)) == (kind == "date")
    if kind == "date":
        coded = encode({"x": [0.0], "d": [cells[-1]]}, prepared.schema, prepared.grid)
        assert not [each for each in coded.warnings if each.startswith("d")]
        asked = problem_of({"x": OTHER.normal(size=N), "d": cells}, Y, columns={"d": "category"})
        assert asked.schema.columns[1].kind == "category"
