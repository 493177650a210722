"""CSV output contains no formula that a spreadsheet would run, and is read back unchanged."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.predictions.answers import to_csv

DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=cmd|" /C calc"!A0', "=", "-", "\r\n=1", '"=1']
TEXT = st.sampled_from([*DANGEROUS, "\n", '"', "'", ",", ";", "a", "é", "＝", " "])  # noqa: RUF001
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
