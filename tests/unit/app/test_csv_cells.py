"""CSV output contains no formula that a spreadsheet would run, and is read back unchanged."""

import csv
import io
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.errors import InvalidRequestError, TooLargeError
from app.services.predictions.csv_tables import places_of, rounded, style_of, to_csv
from app.services.predictions.workbooks import shown, write_workbook
from app.services.readers.options import CsvStyle
from sampler.storage.file_dialect import FileDialect
from tests.support.workbooks import letters_of

DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    '=cmd|" /C calc"!A0',
    "=",
    "-",
    "\r\n=1",
    '"=1',
    "\uff0b1",
]
TEXT = st.sampled_from([*DANGEROUS, "\n", '"', "'", ",", ";", "a", "é", " "])
WORDS = st.lists(TEXT, max_size=6).map("".join)


def cells(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


def table_of(names: list[str], texts: list[str]) -> pa.Table:
    return pa.table([pa.array(texts, pa.string()) for _ in names], names=names)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_begins_like_a_formula(formula, kind):
    """A text cell or column name that would begin like a formula is prefixed with a quote."""
    table = pa.table({formula: pa.array([formula, "plain", None], pa.string()).cast(kind)})

    read = cells(to_csv(table))

    assert not any(cell.startswith(DANGEROUS) for row in read for cell in row)
    expected = f"'{formula}" if formula.startswith(DANGEROUS) else formula
    assert [read[0][0], read[1][0], read[2][0]] == [expected, expected, "plain"]


@given(names=st.lists(WORDS, min_size=1, max_size=3), texts=st.lists(WORDS, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_no_text_breaks_out_of_its_cell(names, texts):
    """For any text, no cell is a formula, none is lost, and none breaks out of its field."""
    read = cells(to_csv(table_of(names, texts)))

    assert len(read) == 1 + len(texts)
    for row, sent in zip(read, [names, *([text] * len(names) for text in texts)], strict=True):
        assert not any(cell.startswith(DANGEROUS) for cell in row)
        expected = [f"'{cell}" if cell.startswith(DANGEROUS) else cell for cell in sent]
        assert (row or [""]) == expected


def test_numbers_stay_numbers():
    """A negative number is not quoted as a formula."""
    assert cells(to_csv(pa.table({"mean": [-1.5, 2.0]})))[1:] == [["-1.5"], ["2"]]


def test_a_table_in_the_dialect_of_a_file():
    """Separator and decimal sign are the file's, figures only; a mark says that it is UTF-8, once."""
    table = pa.table({"id": ["1.5", "-ä;"], "n": [3, 4], "mean": [-1234.5, None], "kept": [True, False]})
    text = to_csv(table, CsvStyle(";", ",", mark=True))
    assert text.startswith(b"\xef\xbb\xbf")
    read = list(csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), delimiter=";"))
    assert read[1:] == [["1.5", "3", "-1234,5", "true"], ["'-ä;", "4", "", "false"]]
    assert not to_csv(table, CsvStyle(";", ",", mark=True), header=False).startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    ("dialect", "style"),
    [
        (FileDialect("semicolon", "Windows-1252", "comma"), CsvStyle(";", ",", mark=True)),
        (FileDialect("tab", "UTF-8", "comma"), CsvStyle("\t", ",", mark=True)),
        (FileDialect("comma", "UTF-8", None), CsvStyle(",", ".", mark=True)),
        (FileDialect(None, "UTF-8", "comma"), CsvStyle(";", ",", mark=True)),
    ],
)
def test_the_style_is_that_of_the_models_file(dialect, style):
    """A single column with decimal commas gets semicolons; "plain" is plain whatever the file was."""
    assert style_of("model", dialect) == style
    assert style_of("plain", dialect) == CsvStyle()
    for unknown in (None, FileDialect(codes={"x": ("-9",)})):
        with pytest.raises(InvalidRequestError):
            style_of("model", unknown)


@pytest.mark.parametrize(
    ("columns", "places"),
    [
        ({"mean": [100.0, 200.0], "sd": [12.3, 14.5]}, 1),
        ({"mean": [0.5], "sd": [0.00123]}, 5),
        ({"mean": [1e6], "sd": [45_000.0]}, 0),
        ({"mean_a": [0.2], "mean_b": [0.8], "sd_a": [0.04], "sd_b": [0.04]}, 4),
        ({"mean": [0.0010, 0.0030]}, 5),
        ({"mean": [7.0]}, 2),
        ({"mean": [0.0], "sd": [0.0]}, 3),
    ],
)
def test_figures_are_rounded_by_their_standard_deviation(columns, places):
    """Three digits of the median standard deviation, or of the means' where there is none."""
    table = pa.table(columns)
    assert places_of(table) == places
    again = rounded(table.append_column("rhat", pa.array([1.23456] * table.num_rows)), places)
    for name, values in columns.items():
        assert again.column(name).to_pylist() == [round(value, places) for value in values]
    assert again.column("rhat")[0].as_py() == 1.235


def test_only_the_letters_of_a_file_may_begin_like_a_formula():
    """Cells of a file are left as they are on request; others are guarded, and no workbook has a formula."""
    letters = {"=own": pa.chunked_array([FORMULAS])}
    table = pa.table({"=own": ["x"] * len(FORMULAS), "=other": FORMULAS})
    style = CsvStyle(";", ",", mark=True, line_end="\r\n", quoted="all", encoding="utf-16-le")
    text = to_csv(table, style, letters=letters).decode("utf-16")
    names, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=";")
    assert names == ["=own", "'=other"]
    assert [row[0] for row in rows] == FORMULAS
    assert not any(row[1].startswith(DANGEROUS) for row in rows)
    with write_workbook([(table, letters)], table.num_rows) as file:
        cells = letters_of(file.read())
    assert [row[0].replace("\r", "") for row in cells[1:]] == [cell.replace("\r", "") for cell in FORMULAS]


def test_a_workbook_has_the_formats_that_excel_opens():
    """A number with many blanks around it is text, and cells of too many forms are refused."""
    assert shown(5.0, f"{' ' * 300}5") == (f"{' ' * 300}5", "")
    assert max(len(shown(5.0, f"{' ' * n}5{' ' * n}")[1]) for n in range(300)) <= 255
    blanks = pa.chunked_array([[f"{' ' * (n % 15)}5{' ' * (n // 15)}" for n in range(225)]])
    with pytest.raises(TooLargeError, match="more than 200 forms"):
        write_workbook([(pa.table({"c": [5.0] * 225}), {"c": blanks})], 225)


@pytest.mark.parametrize("quoted", ["needed", "words", "all"])
@pytest.mark.parametrize(("quote", "escape"), [('"', False), ('"', True), ("'", False)])
@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
def test_letters_are_read_back_in_every_style(separator, quote, escape, quoted):
    """Quotes, separators, line breaks and backslashes of a cell stay in it."""
    letters = ["a", "", "NA", "1.5", "it's", 'a "b"', "x;y,z\tw v", "two\nlines", "back\\slash"]
    style = CsvStyle(separator, quote=quote, escape=escape, quoted=quoted)
    text = to_csv(pa.table({"c": letters, "m": letters}), style, letters={"c": pa.chunked_array([letters])})
    form = {"delimiter": separator, "quotechar": quote, "escapechar": "\\" if escape else None}
    read = list(csv.reader(io.StringIO(text.decode(), newline=""), doublequote=not escape, **form))
    assert [row[0] for row in read[1:]] == letters


def test_an_encoding_that_lacks_a_letter_is_named():
    """A name of a class that the file's encoding doesn't have refuses the answer."""
    letters = {"c": pa.chunked_array([["a"]])}
    with pytest.raises(InvalidRequestError, match="has no") as refused:
        to_csv(pa.table({"c": ["a"], "mean_\u0142": [0.5]}), CsvStyle(encoding="cp1252"), letters=letters)
    assert "cp1252" in refused.value.errors[0].detail


def moment(*parts):
    """Return a time without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("value", "text", "form"),
    [
        (12.5, "12.50", "0.00"),
        (12.5, "12,50", "0.00"),
        (1234.5, "1.234,50", "#,##0.00"),
        (12.0, "12 %", '0" %"'),
        (-5.0, "-$5", '"$"0'),
        (7.0, "007", ""),
        (7.0, " 7", '" "0'),
        (1200.0, "1.2k", ""),
        (1234.0, "1.234", "#,##0"),
        (1.234, "1.234", "0.000"),
        (1e20, "1e20", ""),
        (0.1234567890123456, "0.1234567890123456", ""),
        (-0.0, "-0", ""),
        (None, "n/a", ""),
        (moment(2026, 1, 13), "1/13/2026", r"m\/dd\/yyyy"),
        (moment(2026, 1, 13, 5, 7), "13.01.2026 05:07", r'dd\.mm\.yyyy" "hh:mm'),
        (moment(2026, 1, 13), "2026-01-14", ""),
        (moment(1899, 1, 13), "1899-01-13", ""),
        (True, "true", ""),
    ],
)
def test_a_workbook_has_values_where_it_shows_the_letters(value, text, form):
    """A number or date keeps its value and gets a format that shows its letters, else it is text."""
    cell, shape = shown(value, text)
    assert shape == form
    assert cell == (value if form else text)
