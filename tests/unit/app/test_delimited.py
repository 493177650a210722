"""Reading delimited files: cells come through as written, and columns become what they hold."""

import csv
import io
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.delimited import DELIMITERS, read_delimited
from app.services.errors import UnusableDataError
from app.services.typing_text import MISSING, type_columns

NAME = st.text(st.sampled_from("abcxyz_ é"), min_size=1, max_size=6).filter(lambda name: name.strip() == name)
CELL = st.text(st.sampled_from('ab 1.5-"\néß'), max_size=8)


@st.composite
def tables(draw):
    names = draw(st.lists(NAME, min_size=2, max_size=5, unique=True))
    rows = draw(st.lists(st.lists(CELL, min_size=len(names), max_size=len(names)), min_size=1, max_size=8))
    return names, rows


@given(tables(), st.sampled_from(DELIMITERS), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
@settings(deadline=None)
def test_what_a_writer_wrote_is_read_back(table, delimiter, end, all_quoted, with_bom):
    """Whatever the delimiter, the ends of lines, the quoting and the mark of the encoding."""
    names, rows = table
    file = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([names, *rows])
    content = file.getvalue().encode("utf-8-sig" if with_bom else "utf-8")

    read = read_delimited(io.BytesIO(content))

    assert read.column_names == names
    assert [list(row.values()) for row in read.to_pylist()] == rows


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@settings(deadline=None)
def test_numbers_come_through_exactly(values):
    """Every float64, as Python spells it, is read as the same float64."""
    table = pa.table({"x": [repr(value) for value in values]})

    (column,) = type_columns(table).columns

    assert column.type == pa.float64()
    assert all(
        math.copysign(1, a) == math.copysign(1, b) and a == b
        for a, b in zip(values, column.to_pylist(), strict=True)
    )


KINDS = [
    (["1", "-2.5", "+3e2"], pa.float64(), [1.0, -2.5, 300.0]),
    (["true", "False", "TRUE"], pa.bool_(), [True, False, True]),
    (["1", "true"], pa.string(), ["1", "true"]),
    (["1,5", "2"], pa.string(), ["1,5", "2"]),
    (["0x10", "1_000"], pa.string(), ["0x10", "1_000"]),
    (["2026-02-30", "2026-01-01"], pa.string(), ["2026-02-30", "2026-01-01"]),
    ([" a ", "b"], pa.string(), ["a", "b"]),
    (["inf", "a"], pa.string(), ["inf", "a"]),
]


@pytest.mark.parametrize(("cells", "kind", "values"), KINDS)
def test_a_column_is_what_all_its_cells_are(cells, kind, values):
    """One cell of another kind makes it text; missing ones change nothing."""
    typed = type_columns(pa.table({"x": ["NA", *cells, ""]}))

    assert typed.schema.field("x").type == kind
    assert typed.column("x").to_pylist() == [None, *values, None]


def test_dates_with_and_without_a_zone():
    """A zone makes UTC; without one the time stands as it is; mixed, it is text."""
    zoned = ["2026-01-31T10:00:00Z", "2026-01-31 12:00:00+02:00"]
    table = pa.table({"z": zoned, "n": ["2026-01-31", "2026-01-31T10:00"], "m": ["2026-01-31", zoned[0]]})

    typed = type_columns(table)

    assert typed.schema.types == [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()]
    first, second = typed.column("z").to_pylist()
    assert first == second


def test_a_column_of_missing_values_only_is_a_number_without_any():
    """Whatever it was meant to be, there is nothing to tell."""
    (column,) = type_columns(pa.table({"x": [word.upper() for word in MISSING]})).columns

    assert (column.type, column.null_count) == (pa.float64(), len(MISSING))


def test_infinite_values_are_named_but_not_all_of_a_million():
    """The first ten rows one by one, then how many more."""
    with pytest.raises(UnusableDataError) as caught:
        type_columns(pa.table({"x": ["1", *["1e999"] * 12]}))

    rows = [fault.row for fault in caught.value.errors]
    assert rows == [*range(2, 12), None]
    assert "2 more" in caught.value.errors[-1].detail


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_a_table_or_a_refusal(content):
    """Nothing else ever comes out of the reader."""
    try:
        table = type_columns(read_delimited(io.BytesIO(content)))
    except UnusableDataError:
        return
    assert table.num_rows > 0
    assert table.num_columns > 1
