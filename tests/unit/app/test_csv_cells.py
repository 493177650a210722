"""CSV output contains no formula that a spreadsheet would run, and is read back unchanged."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.errors import InvalidRequestError
from app.services.predictions.csv_tables import CsvStyle, places_of, rounded, style_of, to_csv
from sampler.storage.file_dialect import FileDialect

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
    text = to_csv(table, CsvStyle(";", ",", has_mark=True))
    assert text.startswith(b"\xef\xbb\xbf")
    read = list(csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), delimiter=";"))
    assert read[1:] == [["1.5", "3", "-1234,5", "true"], ["'-ä;", "4", "", "false"]]
    assert not to_csv(table, CsvStyle(";", ",", has_mark=True), header=False).startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    ("dialect", "style"),
    [
        (FileDialect("semicolon", "Windows-1252", "comma"), CsvStyle(";", ",", has_mark=True)),
        (FileDialect("tab", "UTF-8", "comma"), CsvStyle("\t", ",", has_mark=True)),
        (FileDialect("comma", "UTF-8", None), CsvStyle(",", ".", has_mark=True)),
        (FileDialect(None, "UTF-8", "comma"), CsvStyle(";", ",", has_mark=True)),
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
