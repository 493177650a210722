"""Blocks of stored columns: exact restoration and small size."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.services.readers.options import Options
from app.services.readers.values.typing_text import Typing
from app.store import column_codec

FEW_DIGITS = st.decimals(-(10**6), 10**6, places=3).map(float)
CELLS = [
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float64(), FEW_DIGITS),
    (pa.float64(), st.integers(-130, 130)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=5)),
    (pa.string(), st.sampled_from(["a", "b", "ß"])),
    (pa.timestamp("us"), st.integers(-(2**55), 2**55)),
    (pa.timestamp("us", "UTC"), st.integers(-20_000, 20_000).map(lambda day: day * 86_400_000_000)),
]


@pytest.mark.parametrize(("kind", "cells"), CELLS)
@pytest.mark.sampled(quick=4)
def test_blocks_are_restored_exactly(kind, cells):
    """Present and missing values of every kind are restored from every encoding."""

    @given(st.lists(st.none() | cells, max_size=40))
    @settings(deadline=None)
    def check(values):
        column = pa.chunked_array([pa.array(values, kind)])
        data = column_codec.write(column)
        restored = column_codec.read(data)
        restored.validate(full=True)
        assert restored.type == kind
        assert restored.to_pylist() == column.to_pylist()
        assert column_codec.write(column) == data

    check()


def test_blocks_are_about_as_small_as_parquet():
    """Blocks of typical columns are together no larger than Parquet with zstd."""
    import io

    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    rows = 65_536
    table = pa.table(
        {
            "decimals": np.round(random.normal(50, 10, rows), 2),
            "counts": random.integers(0, 1000, rows).astype(float),
            "noise": random.normal(size=rows),
            "town": [f"town {k}" for k in random.integers(0, 40, rows)],
            "id": [f"id-{k}" for k in range(rows)],
            "day": pa.array(random.integers(0, 20_000, rows) * 86_400_000_000, pa.timestamp("us")),
        }
    )
    ours = sum(len(data) for column in table.columns for data in column_codec.cut(column, rows))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")

    assert ours < sink.tell()


def test_blocks_written_before_are_still_read():
    """Blocks of the first version (plain float64, text as a dictionary with wide indices) still load."""
    for values in (pa.array([1.5, None]), pa.array(["a", None, "a"]).dictionary_encode()):
        sink = pa.BufferOutputStream()
        batch = pa.record_batch([values], names=["values"])
        with pa.ipc.new_stream(
            sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            writer.write_batch(batch)

        assert column_codec.read(sink.getvalue().to_pybytes()).to_pylist() == values.to_pylist()


WRITTEN = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.integers(0, 999).map("{:04}".format),
    st.decimals(-(10**6), 10**6, places=2).map("{:.2f}".format),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "NA", "-0", "1.", ".5", "+7", "1e3", "n/a"]),
)
DAYS = st.datetimes().map(lambda day: day.replace(microsecond=0))
FORMS = st.sampled_from(["{:%Y-%m-%d}", "{:%Y-%m-%d %H:%M:%S}", "{:%Y-%m-%dT%H:%M:%S}", "{:%d.%m.%Y}"])
COLUMNS = st.one_of(
    st.lists(WRITTEN, min_size=1),
    st.lists(WRITTEN.map(lambda cell: cell.replace(".", ",")), min_size=1),
    st.lists(st.sampled_from(["true", "True", "FALSE", "", "null"]), min_size=1),
    st.tuples(FORMS, st.lists(DAYS, min_size=1)).map(lambda both: [both[0].format(day) for day in both[1]]),
    st.lists(st.text(st.characters(codec="ascii", categories=["L", "P"]), max_size=4), min_size=1),
)


@given(COLUMNS)
@settings(deadline=None, max_examples=300)
def test_every_cell_comes_back_as_it_was_written(cells):
    """Typed values and the cells kept beside them, both stored, give every cell back: zeros, signs, forms."""
    text = pc.utf8_trim_whitespace(pa.chunked_array([pa.array(cells, pa.string())]))
    typing = Typing(Options())
    values, _ = typing.read("x", text, last=True)
    spelling, kept = column_codec.unusual(values, text)
    stored = [
        None if each is None else column_codec.read(column_codec.write(each)) for each in (values, kept)
    ]
    column, beside = (None if each is None else pa.chunked_array([each]) for each in stored)
    assert column_codec.restored(column, beside, spelling).to_pylist() == text.to_pylist()


def test_usual_cells_are_not_kept():
    """Numbers in the fewest digits, with a point or commas, ISO days and gaps take no storage."""
    for cells, sign in [
        (["1", "2.5", ""], "."),
        (["9007199254740993", "-7", ""], "."),
        (["2,5", "7", ""], ","),
        (["2026-01-31", ""], "."),
        (["a", ""], "."),
    ]:
        text = pa.chunked_array([cells])
        values, _ = Typing(Options()).read("x", text, last=True)
        assert column_codec.unusual(values, text) == (column_codec.Spelling(sign), None)
    for cells, exact in [
        (["007", "8"], "text"),
        (["1234567890123456", "8"], "integer"),
        (["1.50", "8"], None),
    ]:
        text = pa.chunked_array([cells])
        values, _ = Typing(Options(kinds={"x": "number"})).read("x", text, last=True)
        assert column_codec.unusual(values, text)[0].exact == exact
