"""Tables of any library become equal typed columns."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from sampler import DataError, describe
from sampler.data.columns import sort_levels
from sampler.data.convert import to_labels
from sampler.data.table import from_cells, read, read_column, read_rows

VALUES = {
    "whole": [1, 2, None],
    "real": [1.5, None, -2.0],
    "flag": [True, False, None],
    "full_flag": [True, False, True],
    "text": ["b", None, "a"],
    "time": [dt.datetime.fromisoformat("2020-01-01T12:00"), None, dt.datetime.fromisoformat("1969-12-31")],
    "day": [dt.date(2020, 1, 1), None, dt.date(1969, 12, 31)],
}
TABLES = {
    "mapping": lambda values: values,
    "pyarrow": pa.table,
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "pandas nullable": lambda values: pd.DataFrame(values).convert_dtypes(),
    "pandas arrow": lambda values: pd.DataFrame(values).convert_dtypes(dtype_backend="pyarrow"),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_every_library_gives_the_same_columns(make):
    """Types, values and missing cells do not depend on the table's library."""
    table = read(make(VALUES))
    assert (table.names, table.num_rows) == (list(VALUES), 3)
    expected = {
        "whole": ("number", [1, 2, math.nan]),
        "real": ("number", [1.5, math.nan, -2]),
        "flag": ("boolean", [1, 0, math.nan]),
        "full_flag": ("boolean", [1, 0, 1]),
        "time": ("date", [18262.5, math.nan, -1]),
        "day": ("date", [18262, math.nan, -1]),
    }
    for name, (kind, numbers) in expected.items():
        column = table.column(name)
        assert column.type == kind
        np.testing.assert_array_equal(column.numbers, numbers)
    assert table.column("text").cells == ["b", None, "a"]


def test_time_zones_are_converted_to_utc():
    """An instant is the same number in any time zone."""
    zone = dt.timezone(dt.timedelta(hours=6))
    cells = [dt.datetime(2020, 1, 1, 6, tzinfo=zone), None]
    for column in (cells, pa.array(cells), pl.Series(cells), pd.Series(cells)):
        np.testing.assert_array_equal(read_column(column, "t").numbers, [18262, math.nan])


def test_numpy_columns_are_numbered():
    """A 2-D array has columns x1, x2, ...; object columns are typed by their cells."""
    assert read(np.zeros((4, 2))).names == ["x1", "x2"]
    table = read(np.array([[1, "a"], [2.5, None]], dtype=object))
    np.testing.assert_array_equal(table.column("x1").numbers, [1, 2.5])
    assert table.column("x2").cells == ["a", None]
    assert read(np.zeros((0, 3))).num_rows == 0


def test_cells_of_unusual_types_have_their_values():
    """Decimals, huge integers, NA and numpy scalars are read as their values."""
    column = read_column([Decimal("1.5"), 10**400, pd.NA, np.int8(3), float("nan")], "x")
    np.testing.assert_array_equal(column.numbers, [1.5, math.inf, math.nan, 3, math.nan])
    masked = np.ma.MaskedArray([1.0, 2.0], mask=[False, True])
    np.testing.assert_array_equal(read_column(masked, "x").numbers, [1, math.nan])


@pytest.mark.parametrize("values", [pa.array([[1], [2]]), pa.array([b"a", b"b"]), np.array([1j, 2])])
def test_types_that_cannot_be_used_say_so(values):
    """A column of lists, bytes or complex numbers is described as unusable, with its type."""
    (summary,) = describe({"x": values})
    assert summary.kind == "unusable"
    assert summary.note


@pytest.mark.parametrize(
    "table",
    [
        5,
        "text",
        None,
        [1, 2],
        np.zeros(3),
        np.zeros((2, 2, 2)),
        pd.Series([1.0]),
        {"a": [1], "b": [1, 2]},
        {"a": 3},
        {"a": "text"},
        pl.LazyFrame({"a": [1]}),
    ],
    ids=str,
)
def test_anything_but_a_table_is_refused(table):
    """Anything that is not a table is refused with a clear error, not a library's exception."""
    with pytest.raises(DataError):
        read(table)


@pytest.mark.parametrize(
    "make",
    [lambda: pa.table([[1], [2]], names=["a", "a"]), lambda: pd.DataFrame([[1, 2]], columns=["a", "a"])],
)
def test_doubled_names_are_refused(make):
    """Two columns of one name are refused with that name."""
    with pytest.raises(DataError, match=r"'a'.*several columns"):
        read(make())


def test_pandas_names_of_any_type():
    """Numeric column names are read as text."""
    assert read(pd.DataFrame(np.zeros((2, 2)))).names == ["0", "1"]


def test_describe():
    """A description has kinds, missing, distinct, range and levels of every column, dates as text."""
    summaries = {summary.name: summary.to_json() for summary in describe(VALUES)}
    assert summaries["whole"] == {
        "name": "whole", "kind": "number", "missing": 1, "distinct": 2,
        "min": 1.0, "max": 2.0, "levels": [], "note": "",
    }  # fmt: skip
    assert (summaries["text"]["kind"], summaries["text"]["levels"]) == ("category", ["a", "b"])
    assert (summaries["time"]["min"], summaries["time"]["max"]) == ("1969-12-31", "2020-01-01T12:00:00")
    assert summaries["flag"]["kind"] == "boolean"


def test_text_of_many_levels_is_text():
    """50 levels make a category, 51 make text."""
    kinds = [describe({"x": [f"v{i}" for i in range(n)]})[0].kind for n in (50, 51)]
    assert kinds == ["category", "text"]


def test_numbers_with_another_spelling_of_missing():
    """A column of numbers with a `?` is text, with a note that names the cell."""
    (summary,) = describe({"hp": ["130", "?", "95.5", "?", "?"]})
    assert summary.note == ""  # mostly not numbers
    (summary,) = describe({"hp": ["130", "?", "95.5"]})
    assert "'?' in row 2" in summary.note


def test_levels_that_are_numbers_are_sorted_as_numbers():
    """Numeric levels are sorted by value: 2 before 10."""
    assert describe({"x": ["10", "2", "1"]})[0].levels == ("1", "2", "10")


IDS = [2**53 + 1, 2**53 + 3, 2**53 + 5, -(2**53) - 1]


@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
        lambda ids: np.array(ids, dtype=object),
        lambda ids: [Decimal(number) for number in ids],
        lambda ids: pd.Series([*ids, None], dtype="Int64"),
        lambda ids: pd.array([*ids, None], dtype="Int64"),
        lambda ids: pd.Series([*ids, None], dtype="int64[pyarrow]"),
        lambda ids: pd.Series(pd.Categorical.from_codes([0, 1, 2, 3, -1], pd.Index(ids))),
        lambda ids: pl.Series([*ids, None], dtype=pl.Int128),
        lambda ids: pa.array([*ids, None]),
        lambda ids: pa.array([*ids, None]).dictionary_encode(),
        lambda ids: pa.chunked_array([[*ids, None]]),
        lambda ids: np.ma.array([*ids, 7], mask=[False] * 4 + [True]),
    ],
)
def test_large_integers_keep_all_their_digits(make):
    """Integers that float64 would merge are separate levels, spelled as written, in any library."""
    problems = []
    labels = to_labels(read_column(make(IDS), "id"), problems)

    assert problems == []
    assert [labels.names[i] for i in labels.index if i >= 0] == [str(number) for number in IDS]
    assert len(labels.index) == 4 or labels.index[4] == -1


@pytest.mark.parametrize("make", [np.array, list, pd.Series])
def test_large_floats_name_no_level(make):
    """A float beyond 2^53 is refused as a level, with its row, since it may stand for two integers."""
    problems = []
    to_labels(read_column(make([1.0, 2.0**53]), "id"), problems)

    assert [(problem.row, "several integers" in problem.detail) for problem in problems] == [(2, True)]


def test_large_levels_are_sorted_by_value():
    """Integer levels that float64 would merge are sorted by value."""
    assert (
        sort_levels(["-9007199254740993", "9007199254740993", "-9007199254740995"])[0] == "-9007199254740995"
    )


def test_rounded_integers_are_reported():
    """Integers that float64 rounds, such as identifiers, are reported; measurements are not."""
    columns = ([2.0**53, 1], IDS, [1e30, 1], [0.5, 2])
    notes = [describe({"x": np.array(values)})[0].note for values in columns]
    assert ["2^53" in note for note in notes] == [True, True, False, False]


def test_masked_arrays_keep_their_mask():
    """Masked values are missing, in tables and columns of any type."""
    table = read(np.ma.masked_equal([[1.0, -999.0], [-999.0, 4.0]], -999.0))
    np.testing.assert_array_equal(table.column("x1").numbers, [1.0, np.nan])
    np.testing.assert_array_equal(table.column("x2").numbers, [np.nan, 4.0])
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
    for values, kind in (
        (days, "date"),
        ([True, False], "boolean"),
        (["a", "b"], "text"),
        ([1, 2], "number"),
    ):
        column = read_column(np.ma.array(values, mask=[False, True]), "x")
        assert (column.type, column.missing) == (kind, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: pd.DataFrame({"y": x}),
        lambda x: pl.DataFrame({"y": x}),
        lambda x: pa.table({"y": x}),
        lambda x: np.array(x)[:, None],
        pd.array,
    ],
)
def test_a_table_of_one_column_is_a_column(make):
    """The outcome may be a one-column table or a pandas extension array."""
    assert read_column(make([1, 2]), "y").numbers.tolist() == [1.0, 2.0]


def test_rows_are_read_one_by_one():
    """A dict of values, a pandas series, and lists of these are the same rows as a table."""
    table = pd.DataFrame({"x": [1.0, 2.0], "c": ["a", None]})
    dicts = table.to_dict("records")
    for rows in (dicts, tuple(dicts), [row for _, row in table.iterrows()]):
        opened = read_rows(rows)
        assert opened.names == ["x", "c"]
        assert opened.column("x").numbers.tolist() == [1.0, 2.0]
        assert opened.column("c").cells == ["a", None]
    for row in (dicts[0], table.iloc[0]):
        assert read_rows(row).column("x").numbers.tolist() == [1.0]
    assert read_rows({"x": [1.0, 2.0]}).num_rows == 2
    with pytest.raises(DataError, match="column 'c', row 2: this row lacks the column"):
        read_rows([dicts[0], {"x": 1.0}])
    for nothing in ([], [1.0, 2.0], [[1.0], [2.0]]):
        with pytest.raises(DataError, match="a table must be"):
            read_rows(nothing)


def test_sparse_matrices_are_refused_with_the_way_out():
    """For training and for new rows."""
    for make in (sparse.csr_matrix, sparse.csc_array):
        with pytest.raises(DataError, match=r"give its \.toarray\(\)"):
            read_rows(make(np.eye(3)))


def test_plain_floats_are_read_as_any_numbers_are():
    """A list of floats and None, converted at once, becomes the column that its numbers one by one become."""
    for cells in ([], [1.5, None, math.nan], [None], [2.0**60, math.nan, -1.0], [math.inf, 0.0]):
        at_once = from_cells(cells, "a")
        one_by_one = from_cells([cell if cell is None else np.float64(cell) for cell in cells], "a")
        assert (at_once.type, at_once.cells) == (one_by_one.type, one_by_one.cells)
        assert np.array_equal(at_once.numbers, one_by_one.numbers, equal_nan=True)
