"""Blocks of stored columns: exact restoration and small size."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
