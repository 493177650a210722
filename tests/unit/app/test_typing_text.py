"""Text columns are typed by their content, and ambiguous numbers stay text."""

import math
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.readers.options import MISSING, Options
from app.services.readers.values.typing_text import Typing
from sampler.data.table import read_column
from sampler.forecasts.steps import NUMBER, Times
from sampler.storage.file_dialect import FileDialect


def typed(columns, **options):
    """Return the columns as typed, those that depend on others last, and what typed them."""
    typing = Typing(Options(**options))
    texts = {name: pa.chunked_array([pa.array(cells, pa.string())]) for name, cells in columns.items()}
    converted = {name: typing.read(name, text) for name, text in texts.items()}
    again = {name: typing.read(name, texts[name], last=True) for name in converted if converted[name] is None}
    return converted | again, typing


def values(columns, **options):
    converted, typing = typed(columns, **options)
    assert typing.faults == []
    return {name: column[0].to_pylist() for name, column in converted.items()}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.booleans())
@settings(deadline=None)
def test_numbers_are_read_exactly(numbers, with_comma):
    """Every float64 that Python prints, with a point or a comma, is read as the same float64."""
    cells = [repr(number).replace(".", ",") if with_comma else repr(number) for number in numbers]
    columns, _ = typed({"x": cells}, decimal="comma" if with_comma else "point")
    column = columns["x"][0]

    assert column.type == pa.float64()
    assert all(
        math.copysign(1, a) == math.copysign(1, b) and a == b
        for a, b in zip(numbers, column.to_pylist(), strict=True)
    )


KINDS = [
    (["1", "-2.5", "+3e2"], pa.float64(), [1.0, -2.5, 300.0]),
    (["true", "False", "TRUE"], pa.bool_(), [True, False, True]),
    (["1", "true"], pa.string(), ["1", "true"]),
    (["12", "007", None], pa.string(), ["12", "007", None]),
    (["01067", "1.5"], pa.string(), ["01067", "1.5"]),
    (["0", "0.5", "10"], pa.float64(), [0.0, 0.5, 10.0]),
    (["1,5", "2"], pa.float64(), [1.5, 2.0]),
    (["1,234.5", "2"], pa.float64(), [1234.5, 2.0]),
    (["1.234,5", "2"], pa.float64(), [1234.5, 2.0]),
    (["1,234,567", "2"], pa.float64(), [1234567.0, 2.0]),
    (["1 234", "2"], pa.float64(), [1234.0, 2.0]),
    (["1'234'567.5", "2"], pa.float64(), [1234567.5, 2.0]),
    (["1,234", "2"], pa.string(), ["1,234", "2"]),
    (["1,23,4", "2"], pa.string(), ["1,23,4", "2"]),
    (["0x10", "1_000"], pa.string(), ["0x10", "1_000"]),
    (["12%", "5 kg"], pa.string(), ["12%", "5 kg"]),
    (["2026-02-30", "2026-01-01"], pa.string(), ["2026-02-30", "2026-01-01"]),
    (["1/2/2026", "3/4/2026"], pa.string(), ["1/2/2026", "3/4/2026"]),
    ([" a ", "b"], pa.string(), ["a", "b"]),
    (["inf", "a"], pa.string(), ["inf", "a"]),
    (["yes", "no"], pa.string(), ["yes", "no"]),
]


@pytest.mark.parametrize(("cells", "kind", "expected"), KINDS)
def test_one_cell_of_another_kind_makes_a_column_text(cells, kind, expected):
    """One cell of another kind or an ambiguity makes a column text; missing cells change nothing."""
    columns, typing = typed({"x": ["NA", *cells, ""]})

    assert columns["x"][0].type == kind
    assert columns["x"][0].to_pylist() == [None, *expected, None]
    assert typing.missing == {"NA": 1, "": 1}


def test_other_columns_decide_the_meaning_of_a_comma():
    """An ambiguous comma is read as in the other columns; if these conflict, the column is text."""
    doubt = {"x": ["1,234", "5"], "z": ["1.234", "5"]}

    assert values({**doubt, "y": ["1,5", "2"]}) == {"x": [1.234, 5], "z": [1234, 5], "y": [1.5, 2]}
    assert values({**doubt, "y": ["1.5", "2"]}) == {"x": [1234, 5], "z": [1.234, 5], "y": [1.5, 2]}
    mixed = values({**doubt, "y": ["1.5", "2"], "w": ["1,5", "2"]})
    assert (mixed["x"], mixed["z"]) == (["1,234", "5"], [1.234, 5])
    assert values(doubt, decimal="comma") == {"x": [1.234, 5], "z": [1234, 5]}
    assert values(doubt, decimal="point") == {"x": [1234, 5], "z": [1.234, 5]}


def test_ambiguous_numbers_get_a_note():
    """The note on an ambiguous column gives both readings and the options."""
    columns, _ = typed({"x": ["1,234"], "d": ["1/2/2026"]})

    assert "?decimal=comma or ?decimal=point" in columns["x"][1]
    assert "?dates=day-first or ?dates=month-first" in columns["d"][1]


DATES = [
    ["2026-01-31", "2026-02-01"],
    ["2026/1/31", "2026/2/1"],
    ["31/1/2026", "1/2/2026"],
    ["1/31/2026", "2/1/2026"],
    ["31.01.2026", "1.2.2026"],
    ["31-Jan-2026", "1-Feb-2026"],
    ["January 31, 2026", "February 1, 2026"],
    ["2026-01-31 00:00", "2026-02-01T00:00:00.000"],
    ["31/1/2026 0:00", "1/2/2026"],
    ["1/31/2026 12:00:00 AM", "2/1/2026"],
    ["1/31/2026, 12:00\u202fam", "2/1/2026, 12:00\u202fa.m."],
    ["2026-01-31 00:00:00.0000000", "2026-02-01 00:00:00.000000000"],
    ["2026-01-31 00:00 UTC", "2026-02-01T00:00:00.0000000Z"],
]


@pytest.mark.parametrize("cells", DATES)
def test_dates_as_people_write_them(cells):
    """Every unambiguous way of writing dates gives the same days."""
    dates = values({"x": [*cells, "NA"]})["x"]

    days = [None if day is None else day.date().isoformat() for day in dates]
    assert days == ["2026-01-31", "2026-02-01", None]


def test_other_columns_decide_the_order_of_dates():
    """Ambiguous dates (day below 13) are read in the order of another column or of the given option."""
    assert values({"x": ["1/2/2026"], "y": ["31/1/2026"]})["x"][0].month == 2
    assert values({"x": ["1/2/2026"]}, dates="month-first")["x"][0].month == 1


def test_dates_with_and_without_a_zone():
    """Times with a zone become UTC, times without stay as written, a mixture is text."""
    zoned = ["2026-01-31T10:00:00Z", "2026-01-31 12:00:00+02:00"]
    columns, _ = typed({"z": zoned, "n": ["2026-01-31", "2026-01-31T10:00"], "m": ["2026-01-31", zoned[0]]})

    types = [columns[name][0].type for name in "znm"]
    assert types == [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()]
    first, second = columns["z"][0].to_pylist()
    assert first == second


def test_a_column_of_missing_values_only_is_a_number_without_any():
    """A column of missing values becomes a number column."""
    column = typed({"x": [word.upper() for word in MISSING]})[0]["x"][0]

    assert (column.type, column.null_count) == (pa.float64(), len(MISSING))


def test_given_spellings_of_missing_replace_the_usual_ones():
    """Given spellings of missing values replace the usual ones, which then become levels."""
    cells = ["None", "-999", "5", ""]

    assert values({"x": cells}, missing=("-999",))["x"] == ["None", None, "5", None]
    assert values({"x": cells})["x"] == [None, -999, 5, None]


def test_words_that_may_be_levels_get_a_note():
    """A word such as `none` that may be a level is reported when it is read as missing."""
    columns, _ = typed({"x": ["none", "full", "none"]})

    assert "2 cells 'none' are read as missing" in columns["x"][1]


@pytest.mark.parametrize(
    ("kind", "cells", "row"),
    [
        ("number", ["1", "x"], 2),
        ("number", ["1.5", "2", "1e999"], 3),
        ("boolean", ["yes", "0", "perhaps"], 3),
        ("date", ["2026-01-31", "soon"], 2),
    ],
)
def test_a_kind_that_is_asked_for_is_kept_or_refused_with_the_row(kind, cells, row):
    """A requested kind is kept, or refused with the row; it never becomes text."""
    _, typing = typed({"x": cells}, kinds={"x": kind})

    assert [(fault.column, fault.row) for fault in typing.faults] == [("x", row)]


def test_requested_kinds_convert_values():
    """Numbers requested as categories keep their spelling; yes and no, 1 and 0 become booleans."""
    columns = values({"zip": ["02134", "1"], "b": ["yes", "n"]}, kinds={"zip": "category", "b": "boolean"})

    assert columns == {"zip": ["02134", "1"], "b": [True, False]}


def test_ten_infinite_values_are_named_and_the_others_counted():
    """Ten rows with infinite values are listed; further ones are counted."""
    _, typing = typed({"x": ["1", *["1e999"] * 12]})

    assert [fault.row for fault in typing.faults] == [*range(2, 12), None]
    assert "2 more" in typing.faults[-1].detail


def test_points_between_thousands_get_a_note_beside_decimal_points():
    """Cells with two points stay text, with a note, where other columns have decimal points."""
    doubt = {"x": ["1.234", "2.345.678", "7"]}

    assert values(doubt)["x"] == [1234, 2345678, 7]
    assert values(doubt | {"z": ["1.500", "2"]})["z"] == [1500, 2]
    columns, typing = typed(doubt | {"y": ["0.5", "2"]})
    assert columns["x"][0].to_pylist() == ["1.234", "2.345.678", "7"]
    assert "'2.345.678'" in columns["x"][1]
    assert "?kind=x:number" in columns["x"][1]
    assert typing.decimal == "point"
    assert values(doubt | {"y": ["0.5", "2"]}, kinds={"x": "number"})["x"] == [1234, 2345678, 7]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (
            ["2023-02-28", None, "2023-02-29", "2023-03-01"],
            "its values look like dates, but '2023-02-29' in row 3",
        ),
        (["31/1/2026", "1/2/2026", "31/2/2026"], "'31/2/2026' in row 3"),
        (["2023-02-28", "2023-03-01", "soon"], "2 of its 3 values look like dates, but 'soon' in row 3"),
        (["2023-02-28", "x", "y"], ""),
    ],
)
def test_a_cell_that_is_no_date_is_named(cells, words):
    """A column of dates with one other cell is text, and the note names that cell."""
    columns, _ = typed({"d": cells})

    assert columns["d"][0].type == pa.string()
    assert words in columns["d"][1] if words else columns["d"][1] == ""


def test_points_that_may_separate_thousands_are_doubted():
    """A column of "1.234" alone is read with a point, and says so, unless another column has the sign."""
    alone, typing = typed({"x": ["1.234", "500"]})
    assert alone["x"][0].to_pylist() == [1.234, 500.0]
    assert "pass ?decimal=comma" in alone["x"][1]
    assert (typing.decimal, typing.guessed) == (None, True)
    beside, typing = typed({"x": ["1.234", "500"], "z": ["0.5", "1"]})
    assert beside["x"][1] == ""
    assert (typing.decimal, typing.guessed) == ("point", False)


MODEL = FileDialect("semicolon", "UTF-8", "comma", "day-first", ("k.A.",), {"x": ("-9",)})


def for_model(cells, kind, separator="semicolon", **given):
    """Type one column of new rows for a model, and return its values and the faults."""
    options = Options(kinds={"x": kind}, known=("x",), **given).for_rows_of(MODEL)
    typing = Typing(options, separator)
    values, _ = typing.read("x", pa.chunked_array([pa.array(cells, pa.string())]), last=True)
    plain = values.cast(pa.string()) if kind == "date" else values
    return plain.to_pylist(), [(fault.row, fault.detail) for fault in typing.faults]


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        (["1.234", "12"], "number", [1234.0, 12.0]),
        (["1,5", "k.A."], "number", [1.5, None]),
        (["-9", "-9,0", "9"], "number", [None, None, 9.0]),
        (["1 234", "2"], "number", [1234.0, 2.0]),
        (["1/2/2026", "k.a."], "date", ["2026-02-01 00:00:00.000000", None]),
        (["13.02.2026", None], "date", ["2026-02-13 00:00:00.000000", None]),
    ],
)
def test_cells_for_a_model_are_read_as_in_its_file(cells, kind, expected):
    """Thousands, missing values and days are those of the model's file."""
    assert for_model(cells, kind) == (expected, [])


def test_cells_against_the_models_file_are_named():
    """Each contradiction is a fault with its row; a separator of another decimal sign is doubt enough."""
    for cells, rows in [(["1", "1.5"], [2]), (["1,234.5", "2.5", "3"], [1, 2])]:
        assert [row for row, detail in for_model(cells, "number")[1] if "?decimal=point" in detail] == rows
    assert for_model(["1.5", "oops"], "number")[1][1:] == [(2, "the text 'oops' is not a number")]
    assert [row for row, _ in for_model(["1/2/2026", "1/13/2026"], "date")[1]] == [2]
    ((row, detail),) = for_model(["1.234"], "number", separator="comma")[1]
    assert row is None
    assert "1.234 with a decimal point, 1234 with a decimal comma" in detail
    assert for_model(["1234"], "number", separator="comma") == ([1234.0], [])
    assert for_model(["1.234"], "number", separator="tab") == ([1234.0], [])
    assert for_model(["1.234"], "number", separator="comma", decimal="point") == ([1.234], [])


@pytest.mark.parametrize(
    ("cells", "times", "note"),
    [
        (["1/31/2026 1:05 PM", "1/31/2026 11:05 PM"], ["2026-01-31T13:05", "2026-01-31T23:05"], ""),
        (["1-Feb-2026 12:30 p.m.", ""], ["2026-02-01T12:30", None], ""),
        (
            ["2025-03", "2025-12"],
            ["2025-03-01", "2025-12-01"],
            "'2025-03' is read as the first day of the month",
        ),
        (
            ["2026-01-31 10:00:00.1234560", "2026-01-31 10:00:00.1234567"],
            ["2026-01-31T10:00:00.123456"] * 2,
            "times are read to the microsecond, and '2026-01-31 10:00:00.1234567' has more digits",
        ),
        (["1/31/2026 13:05 PM", "1/31/2026 1:05 PM"], None, "'1/31/2026 13:05 PM' in row 1 is not valid"),
        (["2025-03", "2025-13"], None, ""),
        (["2025-03", "2025-03-01"], None, "'2025-03-01' in row 2 is not valid or has another format"),
    ],
)
def test_times_as_databases_and_spreadsheets_write_them(cells, times, note):
    """Halves of the day and months are read, digits below a microsecond are left out with a note."""
    values, said = typed({"x": cells})[0]["x"]

    assert note in said
    if times is None:
        assert values.to_pylist() == cells
    else:
        expected = [None if each is None else datetime.fromisoformat(each) for each in times]
        assert values.to_pylist() == expected
        assert bool(said) == bool(note)


NUMBERED = {
    "20240131": ("x", "a day as yyyymmdd", datetime.fromisoformat("2024-01-31")),
    "1706659200": ("x", "seconds since 1970", datetime.fromisoformat("2024-01-31")),
    "1706659200000": ("x", "milliseconds since 1970", datetime.fromisoformat("2024-01-31")),
    "2024-W05": ("x", "a week", datetime.fromisoformat("2024-01-29")),
    "2014 Q3": ("x", "a quarter", datetime.fromisoformat("2014-07-01")),
    "May 2024": ("x", "a month", datetime.fromisoformat("2024-05-01")),
    "45322": ("date", "a day number of a spreadsheet", datetime.fromisoformat("2024-01-31")),
}


@pytest.mark.parametrize("cell", NUMBERED)
def test_times_that_are_written_as_numbers_are_hinted_at_and_read_on_demand(cell):
    """Such a column says what it may be, and the kind date reads it; a day that isn't is refused."""
    name, form, day = NUMBERED[cell]

    for cells in ([cell, cell], [cell, None]):
        note = typed({name: cells})[0][name][1]
        assert f"looks like {form}" in note
        assert f"?kind={name}:date" in note
        kept = read_column(typed({name: [cell, cell]})[0][name][0], name)
        assert ("the time of a forecast is read so" in note) == (Times.read(kept).form != NUMBER)
        assert values({name: cells}, kinds={name: "date"})[name] == [day, None if cells[1] is None else day]
    assert typed({"x": ["45322", "45323"]})[0]["x"][1] == ""
    assert typed({"x": ["20240231"]}, kinds={"x": "date"})[1].faults
