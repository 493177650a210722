"""One table in any format: options mean the same in each, and no value changes on the way."""

import io

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table

FORMATS = ("csv", "parquet", "arrow")


def written(table: pa.Table, kind: str, **options) -> bytes:
    sink = io.BytesIO()
    if kind == "csv":
        pacsv.write_csv(table, sink)
    elif kind == "parquet":
        pq.write_table(table, sink, **options)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def read(content: bytes, **options):
    """Return the columns by name, what is told of the reading, and the notes by column."""
    with open_table(io.BytesIO(content), Options(**options), ReaderLimits()) as table:
        found = {each.name: (each.values, each.note) for each in table.columns()}
    columns = {name: values for name, (values, _) in found.items()}
    return columns, table, {name: note for name, (_, note) in found.items()}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("missing", "spelled"),
    [("-999", -999), ("-999.0", -999), ("-9.99e2", -999), ("1e3", 1000), ("0", 0), ("-0.0", 0), ("0.1", 0.1)],
)
def test_numbers_that_mean_missing_do_so_by_their_value(kind, missing, spelled):
    """A number named as missing is missing in numbers of every format and spelling, and is counted."""
    table = pa.table({"x": [float(spelled), 5.5, 7.25, float(spelled)], "y": [1.0, 2, 3, 4]})

    columns, read_table, _ = read(written(table, kind), missing=(missing,))

    assert columns["x"].to_pylist() == [None, 5.5, 7.25, None]
    assert columns["y"].null_count == 0
    assert read_table.read_as["missing"] == [{"text": missing, "count": 2}]
    assert read_table.read_as["spellings"] == [missing]


@pytest.mark.parametrize("kind", FORMATS)
def test_texts_that_mean_missing_do_so_in_every_format(kind):
    """A spelling in any case and a number of equal value are missing among texts; "07" is not 7."""
    table = pa.table({"x": ["a", "K.A.", " k.a.", "7.0", "07"], "y": [1.0, 2, 3, 4, 5]})

    assert read(written(table, kind), missing=("k.A.", "7"))[0]["x"].to_pylist() == [
        "a",
        None,
        None,
        None,
        "07",
    ]


def test_a_point_that_may_separate_thousands_is_no_missing_number():
    """1.000 in a file of decimal commas is a thousand, and is not missing where 1 is."""
    text = b"x;y\n1.000;1,5\n1;2,5\n"

    assert read(text, missing=("1",))[0]["x"].to_pylist() == [1000.0, None]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_an_option_that_a_format_does_not_have_is_named(kind):
    """A separator given for a Parquet or Arrow file has no effect, and the warning says so."""
    table = pa.table({"x": [1.0], "y": [2.0]})

    _, read_table, _ = read(written(table, kind), separator="tab", quote="single")

    assert [warning for warning in read_table.warnings if "no separator or quoting" in warning]
