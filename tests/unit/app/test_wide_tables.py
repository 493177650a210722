"""Files with a column for each time are told apart, and made long when that is asked for."""

import io

import pyarrow as pa
import pytest

from app.services.errors import UnusableDataError
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table
from tests.support.workbooks import xlsx

MONTHS = ["2024-01", "2024-02", "2024-03", "2024-04"]
ROWS = [["A", "north", 1, 2.5, None, 4], ["B", "south", 5, 6, 7, 8]]
HEADER = ["shop", "region", *MONTHS]
CSV = "\n".join(
    ",".join("" if cell is None else str(cell) for cell in row) for row in [HEADER, *ROWS]
).encode()


def read(content: bytes, **options):
    """Return the columns by name, the report and the warnings."""
    with open_table(io.BytesIO(content), Options(**options), ReaderLimits()) as table:
        columns = {each.name: each.values.to_pylist() for each in table.columns()}
        return columns, table.read_as, table.warnings


def arrow() -> bytes:
    """Write the table as an Arrow stream, with whole numbers in one column of times and text in none."""
    table = pa.table(dict(zip(HEADER, map(list, zip(*ROWS, strict=True)), strict=True)))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


FILES = {"csv": lambda: CSV, "xlsx": lambda: xlsx({"Sales": [HEADER, *ROWS]}), "arrow": arrow}


@pytest.mark.parametrize("kind", FILES)
def test_a_wide_file_is_told_and_made_long_on_demand(kind):
    """By default the table stays, with a warning; made long, all formats give the same columns."""
    kept, read_as, warnings = read(FILES[kind]())
    assert [*kept] == HEADER
    assert read_as["wide"] == {"columns": 4, "first": "2024-01", "last": "2024-04", "step": "a month"}
    assert any("forecasts need a row for each time" in each and "?wide=long" in each for each in warnings)
    assert not read(FILES[kind](), wide="keep")[2]

    columns, read_as, warnings = read(FILES[kind](), wide="long")
    assert [*columns] == ["shop", "region", "time", "value"]
    assert columns["shop"] == ["A", "B"] * 4
    assert [each.strftime("%Y-%m") for each in columns["time"]] == [month for month in MONTHS for _ in "AB"]
    assert columns["value"] == [1, 5, 2.5, 6, None, 7, 4, 8]
    assert "wide" not in read_as
    assert [each for each in warnings if "are made rows" in each]


def test_row_labels_and_totals_are_no_series():
    """Labels of rows and a last row of totals that is left out don't come back in each time; years stay."""
    text = b",shop,2019,2020,2021,2022\n0,A,1,2,n.a.,4\n1,B,5,6,7,8\n2,C,5,6,7,8\n3,Total,11,14,14,20\n"
    columns, _, warnings = read(text, wide="long", totals="leave-out", missing=("n.a.",))
    assert columns["shop"] == ["A", "B", "C"] * 4
    assert columns["time"][::3] == [2019, 2020, 2021, 2022]
    assert columns["value"][6:9] == [None, 7, 7]
    assert not any("Column names are numbers" in each for each in warnings)


def test_cells_that_differ_in_type_are_read_as_text_is():
    """A column of times that its format has as text doesn't keep the values of all from being numbers."""
    table = pa.table({"shop": ["A"], **{month: [1.5] for month in MONTHS[:3]}, MONTHS[3]: ["2"]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert read(sink.getvalue(), wide="long")[0]["value"] == [1.5, 1.5, 1.5, 2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a,b,2024-01\n1,2,3\n", "No four columns are named by times"),
        (b"2024-01,2024-02,2024-03,2024-04\n1,2,3,4\n1,2,3,4\n", "add a column that names them"),
    ],
)
def test_what_can_not_be_made_long_is_refused(text, why):
    """A table without columns of times, and rows that nothing tells apart, with what to do."""
    with pytest.raises(UnusableDataError, match=why):
        read(text, wide="long")
