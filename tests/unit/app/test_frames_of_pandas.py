"""Tables of pandas in Arrow and Parquet: row labels, categories and periods, as the library reads them."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.client.bodies import as_arrow
from app.services.errors import UnusableDataError
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.table import open_table
from sampler import DataError, prepare
from sampler.data.encode import encode
from sampler.data.scalars import days_to_text
from sampler.data.table import read as read_table


def written(table: pa.Table, kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def read(content: bytes, **options):
    """Return the columns by name, and the warnings."""
    with open_table(io.BytesIO(content), Options(**options), ReaderLimits()) as table:
        return {name: values for _, name, values, *_ in table.columns()}, table.warnings


CATEGORIES = {
    "whole": [3, 1, 3, None, 12],
    "half": [1.0, 0.5, 1.0, 2.0, None],
    "flag": [True, False, None, True, True],
    "day": pd.to_datetime(["2024-03-01", "2023-01-31", "2024-03-01", None, "2023-01-31"]),
    "word": ["b", "a", "b", "a", None],
}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_categories_of_pandas_are_categories_of_any_values(kind):
    """Levels are spelled as in the library, which has the same kinds; a kind that is given comes first."""
    frame = pd.DataFrame({name: pd.Categorical(values) for name, values in CATEGORIES.items()})
    stored = io.BytesIO()
    frame.to_parquet(stored)
    content = stored.getvalue() if kind == "parquet" else written(pa.table(frame), kind)

    columns, _ = read(content)

    ours = read_table(frame)
    assert {name: values.to_pylist() for name, values in columns.items()} == {
        name: ours.column(name).cells for name in CATEGORIES
    }
    kinds = {"whole": "number", "flag": "boolean", "day": "date", "half": "category"}
    typed = {name: str(values.type) for name, values in read(content, kinds=kinds)[0].items()}
    assert typed == {
        "whole": "double", "half": "string", "flag": "bool", "day": "timestamp[us]", "word": "string",
    }  # fmt: skip
    of_model = read(content, kinds=kinds, known=("whole", "flag", "day"))[0]
    assert str(of_model["whole"].type) == "int64"


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("labels", [[0, 0, 1], [7, 2, 5], pd.date_range("2025-01-01", periods=3)])
def test_row_labels_of_pandas_are_no_column(kind, labels):
    """Whether they repeat, are numbers or dates; with a name they are a column, and as one of a model."""
    table = pa.Table.from_pandas(pd.DataFrame({"x": [1.0, 2, 3]}, index=labels), preserve_index=True)

    columns, warnings = read(written(table, kind))

    assert list(columns) == ["x"]
    assert len(warnings) == 1
    assert warnings[0].startswith("__index_level_0__: left out")
    named = pa.Table.from_pandas(pd.DataFrame({"x": [1.0, 2, 3]}, index=pd.Index(labels, name="id")))
    assert set(read(written(named, kind))[0]) == {"x", "id"}
    assert len(read(written(table, kind), known=("x", "__index_level_0__"))[0]) == 2


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_periods_are_left_out_rather_than_counted(kind):
    """Their numbers since 1970 would be read as numbers; the client sends their first moments."""
    frame = pd.DataFrame({"month": pd.period_range("2024-11", periods=3, freq="M"), "x": [1.0, 2, 3]})

    columns, (warning,) = read(written(pa.table(frame), kind))

    assert list(columns) == ["x"]
    assert warning.startswith("month: left out, since columns of type period (of pandas; .dt.to_timestamp()")
    with pytest.raises(UnusableDataError, match="month"):
        read(written(pa.table(frame), kind), kinds={"month": "date"})
    sent = read(as_arrow(frame))[0]["month"]
    ours = read_table(frame).column("month")
    assert ours.type == "date"
    assert [days_to_text(day) for day in ours.numbers] == ["2024-11-01", "2024-12-01", "2025-01-01"]
    assert [each.isoformat()[:10] for each in sent.to_pylist()] == ["2024-11-01", "2024-12-01", "2025-01-01"]


def test_the_library_leaves_row_labels_out_too():
    """Labels without a name are no feature of a fit to an Arrow table, and new rows may have them or not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40)}, index=[*range(20), *range(20)])
    table, y = pa.Table.from_pandas(frame), rng.normal(size=40)
    fits = prepare(table, y), prepare(frame, y)
    for prepared in fits:
        assert [column.name for column in prepared.schema.columns] == ["x"]
        codes = [
            encode(rows, prepared.schema, prepared.grid).codes for rows in (table, frame, {"x": frame["x"]})
        ]
        assert np.array_equal(codes[0], codes[1])
        assert np.array_equal(codes[0], codes[2])
    assert "row labels of pandas" in fits[0].warnings[0]
    with pytest.raises(DataError, match="no such column"):
        encode(table.rename_columns(["x", "id"]), fits[0].schema, fits[0].grid)
    kept = prepare(table, y, features=["x", "__index_level_0__"])
    assert len(kept.schema.columns) == 2
