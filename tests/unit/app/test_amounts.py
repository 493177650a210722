"""Numbers with a unit, negatives of accounts, and times are read, or are text with the way to read them."""

import pyarrow as pa
import pytest

from app.services.readers.options import Options
from app.services.readers.values.typing_text import Typing
from sampler.storage.file_dialect import FileDialect


def read(cells, model=None, **options):
    """Return the values, the note, the unit and the faults of a column alone."""
    given = Options(known=("x",) if model else (), model=model, **options)
    typing = Typing(given)
    values, note = typing.read("x", pa.chunked_array([pa.array(cells, pa.string())]), last=True)
    return values.to_pylist(), note, typing.units.get("x"), typing.faults


@pytest.mark.parametrize(
    ("cells", "numbers", "unit"),
    [
        (["1.508,98 €", "NA", "-20,50 €", "0"], [1508.98, None, -20.5, 0], "EUR"),
        (["€ 12.5", "€0.25"], [12.5, 0.25], "EUR"),
        (["$1,508.98", "($3.50)", "-$4.00", "$-5.00"], [1508.98, -3.5, -4, -5], "$"),
        (["US$ 1.5", "US$2.25"], [1.5, 2.25], "USD"),
        (["CHF 1\u2019508.50", "CHF 20.05"], [1508.5, 20.05], "CHF"),
        (["12 %", "5,5\u00a0%"], [12, 5.5], "%"),
        (["1 200,50 zł", "3,00 zł"], [1200.5, 3], "PLN"),
        (["\u22123.5", "4"], [-3.5, 4], None),
        (["(1,234.50)", "20.25"], [-1234.5, 20.25], None),
        (["12 kg", "3.5 kg"], [12, 3.5], "kg"),
        (["1.2k", "3M", "0"], [1200, 3_000_000, 0], None),
        (["1.2 k", "300"], [1200, 300], None),
        (["\u20131", "+2", "-3"], [-1, 2, -3], None),
    ],
)
def test_amounts_are_numbers(cells, numbers, unit):
    """Amounts of one unit, and the negatives of accounts, are read, and the note shows how."""
    values, note, found, faults = read(cells)

    assert (values, found, faults) == (numbers, unit, [])
    assert note.startswith(f"{cells[0]!r} is read as the number {numbers[0]:.15g}")


@pytest.mark.parametrize(
    ("cells", "why", "number", "unit"),
    [
        (["12 m", "3.5 m"], "looks like a number with the unit m", 12, "m"),
        (["12 kg", "3.5"], "1 of its values in kg, 1 without a unit", 12, "kg"),
        (["14k", "18k"], "'14k' may be 14e3", 14_000, None),
        (["30K", "5"], "'30K' may be 30e3", 30_000, None),
        (["12 €", "3", "4"], "1 of its values in EUR, 2 without a unit", 12, "EUR"),
        (["(1)", "(22)"], "'(1)' may be -1", -1, None),
        (["10:30", "9:05"], "looks like a time of day", 10.5, "h"),
        (["12:15 AM", "1:00 pm"], "looks like a time of day", 0.25, "h"),
    ],
)
def test_uncertain_amounts_are_read_on_request(cells, why, number, unit):
    """Text that may be no amount stays text with the reason, and the kind that the note names reads it."""
    values, note, found, _ = read(cells)
    read_values, how, asked_unit, faults = read(cells, kinds={"x": "number"})

    assert (values, found) == (cells, None)
    assert why in note
    assert "the kind number (?kind=x:number)" in note
    assert (read_values[0], asked_unit, faults) == (number, unit, [])
    assert how.startswith(f"{cells[0]!r} is read as the number {number:g}")


@pytest.mark.parametrize(
    "cells",
    [["A1", "B2"], ["12 €", "3 $", "x"], ["2. OG", "3. EG"], ["5%-6%", "1%"], ["13:10 PM", "1:00 PM"]],
)
def test_codes_with_digits_are_no_amounts(cells):
    """Texts that only contain numbers stay text without a word on amounts."""
    values, note, unit, faults = read(cells)

    assert (values, unit, faults) == (cells, None, [])
    assert "is read as" not in note


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["12 kg", "3 lb"], "its values are in kg and lb: write all in one"),
        (["5 g", "2 kg"], "its values are in g and kg: write all in one"),
        (["5 ft 7", "6 ft 1"], "write one in one unit, such as 67"),
        (["5'7\"", "6'1\""], "write one in one unit, such as 67"),
        (["3h 20", "1h 5m"], "write one in one unit, such as 67"),
        (["3 apples", "2 pears"], ""),
        (["12B34", "7C2"], ""),
    ],
)
def test_units_that_mix_are_said_and_not_converted(cells, why):
    """A column of several units, or of two numbers in a cell, stays text, and the note says what to write."""
    values, note, unit, _ = read(cells)
    assert (values, unit) == (cells, None)
    assert why in note
    assert bool(note) == bool(why)


def test_several_currencies_are_never_one_column():
    """Currencies don't mix: the note names them, and a forced column reports the cells of the rarer one."""
    cells = ["1.50 €", "2.50 €", "$3.50", "$4.50", "$5.50"]

    assert read(cells)[1] == "its values are in $ and EUR: write all in one"
    faults = read(cells, kinds={"x": "number"})[3]
    assert [fault.row for fault in faults] == [1, 2]
    assert faults[0].detail == "'1.50 €' has another unit than others, $: write all values in that"


def test_a_cell_among_times_that_is_none_is_named():
    """Other cells, also those of an hour that no clock has, are reported; the times aren't."""
    values, _, unit, faults = read(["9:15", "noon", "13:00 pm", "8:30"], kinds={"x": "number"})

    assert (values, unit) == ([9.25, None, None, 8.5], "h")
    assert [(fault.row, fault.detail) for fault in faults] == [
        (2, "the text 'noon' is not a time such as 10:30"),
        (3, "the text '13:00 pm' is not a time such as 10:30"),
    ]


def test_forcing_a_kind_tells_examples_and_the_number_of_others():
    """Cells that are no numbers are reported once each, with their rows, and the rest is counted."""
    cells = ["EG", "1", "EG", "2", "EG", "EG", *(f"floor {i}" for i in range(30))]
    faults = read(cells, kinds={"x": "number"})[3]

    assert len(faults) == 6
    assert str(faults[0]) == "column x, row 1: the text 'EG' (in 4 rows) is not a number"
    assert faults[-1].detail == "and 26 more of its 36 values"


@pytest.mark.parametrize(
    ("units", "cells", "number", "refused"),
    [
        ({"x": "EUR"}, ["1.508,98 €", "3"], 1508.98, None),
        ({"x": "EUR"}, ["$3,00"], None, "has another unit than the model's file, EUR"),
        ({}, ["12,5 %"], None, "has another unit than the model's file, none"),
        ({}, ["10:30"], None, "has another unit than the model's file, none"),
        ({"x": "h"}, ["10:30"], 10.5, None),
        ({}, ["(3,5)"], -3.5, None),
        ({}, ["1,2k"], 1200, None),
        ({}, ["1,2k", "3 K"], 1200, None),
        ({}, ["3M"], 3_000_000, None),
        ({}, ["300 K", "295"], None, "has another unit than the model's file, none"),
        ({"x": "K"}, ["300 K", "295"], 300, None),
        ({"x": "k"}, ["1,2k"], 1.2, None),
    ],
)
def test_new_rows_have_the_unit_of_the_models_file(units, cells, number, refused):
    """Rows for a model may leave its unit out, but have no other; what its file showed is not told again."""
    dialect = FileDialect.from_json(FileDialect(decimal="comma", units=units).to_json())
    values, note, _, faults = read(cells, dialect, kinds={"x": "number"}, decimal="comma")

    assert note == ""
    assert [bool(refused and refused in each.detail) for each in faults] == [True] * bool(refused)
    assert refused or values[0] == number
