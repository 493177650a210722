"""One table in any format: options mean the same in each, and no value changes on the way."""

import io
from datetime import datetime

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from app.services.errors import UnusableDataError
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.profile import summarise
from app.services.readers.table import open_table
from app.store import column_codec

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


INT96 = {"int96": {"use_deprecated_int96_timestamps": True}}
TIMES = {
    "seconds": pa.array([-30_610_224_000, 253_402_214_400, None], pa.timestamp("s")),
    "milliseconds": pa.array([-30_610_224_000_000, 253_402_214_400_000, None], pa.timestamp("ms")),
    "microseconds": pa.array([-30_610_224_000_000_000, 253_402_214_400_000_000, None], pa.timestamp("us")),
    "days": pa.array([-354_285, 2_932_896, None], pa.date32()),
    "milliseconds of days": pa.array([-30_610_224_000_000, 253_402_214_400_000, None], pa.date64()),
}


@pytest.mark.parametrize("unit", TIMES)
@pytest.mark.parametrize("kind", [*FORMATS, "int96"])
def test_times_of_any_unit_keep_their_year(kind, unit):
    """The years 1000 and 9999, beyond what nanoseconds express, are read right in every unit and format."""
    table = pa.table({"t": TIMES[unit], "y": [1.0, 2, 3]})
    if kind == "int96":
        table = table.set_column(0, "t", table.column("t").cast(pa.timestamp("us")))
    content = written(table, "parquet" if kind == "int96" else kind, **INT96.get(kind, {}))

    days = [None if t is None else t.date().isoformat() for t in read(content)[0]["t"].to_pylist()]

    assert days == ["1000-01-01", "9999-12-31", None]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 10**15], pa.timestamp("s")),
        ([0, -(10**14)], pa.timestamp("ms")),
        ([0, 2**62], pa.timestamp("us", "UTC")),
        ([0, 3_000_000], pa.date32()),
        ([0, -86_400_000 * 10**8], pa.date64()),
    ],
)
def test_times_that_have_no_date_are_refused_with_their_row(values, kind):
    """Times before the year 1 or after 9999 would wrap around or have no text: the row is named."""
    table = pa.table({"t": pa.array(values, kind), "y": [1.0, 2]})

    with pytest.raises(UnusableDataError) as refused:
        read(written(table, "arrow"))

    assert [(fault.column, fault.row) for fault in refused.value.errors] == [("t", 2)]
    assert "after 9999" in refused.value.errors[0].detail


def test_a_year_zero_stays_text_and_is_named():
    """A date of the year 0, which has no date here, is named, and the column stays text."""
    columns, _, notes = read(b"t,y\n0000-01-02,1\n2026-01-02,2\n")

    assert columns["t"].to_pylist() == ["0000-01-02", "2026-01-02"]
    assert "'0000-01-02' in row 1" in notes["t"]


BEYOND = [2**53 + 1, None, -(2**53) - 1, 2**63 - 1, 7]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("type_", [pa.int64(), pa.decimal128(20, 0)])
def test_integers_of_64_bits_are_stored_with_all_digits(kind, type_):
    """Integers that float64 would round stay integers up to the stored block; others become float64."""
    table = pa.table({"id": pa.array(BEYOND, type_), "small": pa.array([1, None, 3, 4, 5], type_)})

    columns, _, _ = read(written(table, kind))
    stored = [column_codec.read(column_codec.write(column_codec.storable("", c))) for c in columns.values()]

    assert (stored[0].type, stored[1].type) == (pa.int64(), pa.float64())
    assert stored[0].to_pylist() == BEYOND
    (summary, _) = summarise("id", columns["id"])
    assert (summary.kind, summary.distinct) == ("number", 4)
    assert "2^53" in summary.note


def test_larger_integers_are_unsigned_or_rounded():
    """uint64 keeps its digits in every format, also beside a plus sign; with 20 digits they are float64."""
    most = 2**64 - 1
    table = pa.table({"id": pa.array([most, 1], pa.uint64()), "y": [1.0, 2]})
    for kind in FORMATS:
        assert read(written(table, kind))[0]["id"].to_pylist() == [most, 1]
    columns, _, _ = read(f"id,z,y\n+{2**53 + 1},{10**20 + 1},1\n1,2,NA\n".encode())
    assert columns["id"].to_pylist() == [2**53 + 1, 1]
    assert columns["z"].to_pylist() == [1e20, 2]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_that_a_model_does_not_read_keep_their_type(kind):
    """Columns that an answer may repeat are read as they are: integers, decimals, float32, dates, times."""
    columns = {
        "id": pa.array([2**53 + 1, None], pa.int64()),
        "price": pa.array(["0.10", "12345678901234567.89"]).cast(pa.decimal128(19, 2)),
        "half": pa.array([0.1, float("nan")], pa.float32()),
        "day": pa.array([0, 1], pa.date32()),
        "at": pa.array([1, 2], pa.timestamp("ns", "Europe/Berlin")),
        "hour": pa.array([1, 2], pa.time64("us")),
        "name": pa.array(["a ", " b"]),
    }
    table = pa.table(columns | {"x": pa.array([1, 2], pa.int32()), "list": [[1], [2]]})

    found, read_table, _ = read(written(table, kind), known=("x",), kinds={"x": "number"}, otherwise="raw")

    for name, values in columns.items():
        assert found[name].type == values.type
        assert str(found[name].to_pylist()) == str(values.to_pylist())
    assert found["x"].to_pylist() == [1, 2]
    assert [warning.partition(", since")[0] for warning in read_table.warnings] == ["list: left out"]


def test_columns_of_types_without_values_are_left_out_with_a_warning():
    """A list or bytes leave the others usable; asked for, or alone, such a column is refused by name."""
    table = pa.table({"x": [1.0, 2], "list": [[1], [2]], "bytes": [b"1", b"2"], "y": [1.0, 2]})

    columns, read_table, _ = read(written(table, "arrow"))

    assert list(columns) == ["x", "y"]
    assert [warning.partition(":")[0] for warning in read_table.warnings] == ["list", "bytes"]
    for kept, options in ((["x", "list"], {"kinds": {"list": "text"}}), (["bytes"], {})):
        with pytest.raises(UnusableDataError) as refused:
            read(written(table.select(kept), "arrow"), **options)
        assert [fault.column for fault in refused.value.errors] == kept[-1:]


def test_labels_of_a_data_frame_are_left_out_whatever_they_are():
    """pandas' index without a name is no column, also where its labels repeat or are dates."""
    for labels in ([1, 1], pa.array([0, 1], pa.timestamp("ns")), ["a", "b"]):
        table = pa.table({"x": [1.0, 2], "y": [1.0, 2], "__index_level_0__": labels})
        columns, read_table, _ = read(written(table, "parquet"))
        assert list(columns) == ["x", "y"]
        assert "identifies rows" in read_table.warnings[0]
        known = {"known": ("x", "__index_level_0__"), "kinds": {"__index_level_0__": "raw"}}
        assert "__index_level_0__" in read(written(table, "parquet"), **known)[0]


@pytest.mark.parametrize(
    ("cells", "kind", "first"),
    [
        (["2026/01/31", None], "date", datetime.fromisoformat("2026-01-31")),
        (["1.5", "2"], "number", 1.5),
        (["12 %", "3 %"], "number", 12),
        (["$1,200.00", "$3.00"], "number", 1200),
        (["10:30", "9:00"], "number", 10.5),
        (["0815", "4711"], None, None),
        (["red", "blue"], None, None),
    ],
)
def test_text_that_looks_like_another_kind_says_how_it_is_read(cells, kind, first):
    """Text in a Parquet file stays text, with a note that names the kind; whole numbers may be codes."""
    content = written(pa.table({"x": cells, "y": [1.0, 2.0]}), "parquet")
    columns, _, notes = read(content)

    assert columns["x"].to_pylist() == cells
    if kind is None:
        assert notes["x"] == ""
    else:
        assert f"?kind=x:{kind}" in notes["x"]
        assert read(content, kinds={"x": kind})[0]["x"][0].as_py() == first
