"""Request bodies: files by name, data frames of any library as Arrow streams, rows as JSON."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypedDict, cast

from app.client.errors import ClientError

CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
BY_SUFFIX = {
    ".tsv": "text/tab-separated-values",
    ".tab": "text/tab-separated-values",
    ".gz": "application/gzip",
    ".parquet": "application/vnd.apache.parquet",
    ".pq": "application/vnd.apache.parquet",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xls": "application/vnd.ms-excel",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".zip": "application/zip",
    ".json": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".arrow": ARROW,
    ".arrows": ARROW,
}
ARRAYS = "tolist"  # a method of numpy arrays and scalars, and of the series of data frames


class ReadOptions(TypedDict, total=False):
    """Options for reading a delimited file, where automatic detection fails (`read_as` shows its result)."""

    separator: Literal["comma", "semicolon", "tab", "bar", "space"]
    quoting: Literal["double", "single", "none"]
    encoding: str  # utf-8, windows-1252, ...
    decimal: Literal["point", "comma"]
    header: bool  # whether the first row names the columns
    header_line: int  # below a title
    totals: Literal["keep", "leave-out"]  # of a last row that sums the others
    sheet: str  # of a workbook, by name or number
    dates: Literal["day-first", "month-first"]  # the order in 1/2/2026
    missing: Sequence[str]  # spellings of a missing value, instead of the usual ones
    wide: Literal["keep", "long"]  # of a table with a column for each time


@dataclass(frozen=True)
class Body:
    """Bytes or an open file, with its content type."""

    content: bytes | IO[bytes]
    content_type: str


@contextmanager
def open_body(data: Any) -> Iterator[Body]:
    """Open a path, bytes, an open binary file or a data frame as a body.

    Raises
    ------
    ClientError
        The file can't be opened, or the object is of another type.
    """
    if isinstance(data, (str, Path)):
        try:
            file = Path(data).open("rb")  # noqa: SIM115  closed below
        except OSError as error:
            raise ClientError(f"{data} can't be opened: {error.strerror}.") from None
        with file:
            yield Body(file, type_of(data))
    elif isinstance(data, bytes):
        yield Body(data, CSV)
    elif isinstance(data, io.IOBase):
        yield Body(cast("IO[bytes]", data), type_of(getattr(data, "name", "")))
    elif is_frame(data):
        yield Body(as_arrow(data), ARROW)
    else:
        raise ClientError(
            f"A {type(data).__name__} can't be sent: give a path, bytes, an open binary file or a data frame."
        )


def type_of(name: Any) -> str:
    """Return the content type for a file name; CSV unless its suffix says otherwise."""
    return BY_SUFFIX.get(Path(str(name)).suffix.lower(), CSV)


def is_frame(data: Any) -> bool:
    """Return whether the object is a table with the Arrow interface: pandas, polars, pyarrow and others."""
    return hasattr(data, "__arrow_c_stream__")


def as_arrow(frame: Any) -> bytes:
    """Encode a data frame as an Arrow stream; the index of pandas is dropped, periods are first moments."""
    import pyarrow as pa

    if hasattr(frame, "reset_index"):
        frame = frame.reset_index(drop=True)
        periods = [name for name, kind in frame.dtypes.items() if type(kind).__name__ == "PeriodDtype"]
        frame = frame.assign(**{name: frame[name].dt.to_timestamp() for name in periods})
    table = pa.table(frame).replace_schema_metadata(None)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def is_row(rows: Any) -> bool:
    """Return whether the object is a single row: a mapping or a pandas series of values by column name."""
    if isinstance(rows, Mapping):
        return bool(rows) and all(
            isinstance(value, str) or not hasattr(value, "__len__") for value in rows.values()
        )
    pandas = type(rows).__module__.partition(".")[0] == "pandas"
    return pandas and getattr(rows, "ndim", None) == 1 and hasattr(rows, "items")


def rows_json(rows: Any) -> dict[str, Any]:
    """Return rows as a list of objects, or columns or a data frame as an object of lists, of plain values.

    Raises
    ------
    ClientError
        The argument is neither.
    """
    if is_row(rows):
        return {"rows": [_row(rows)]}
    if is_frame(rows):
        import pyarrow as pa

        rows = pa.table(rows).to_pydict()
    if isinstance(rows, Mapping):
        return {"columns": {str(name): [_plain(v) for v in _values(rows[name])] for name in rows}}
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return {"rows": [_row(row) for row in rows]}
    raise ClientError(
        "Give rows as a list of dicts or one dict, columns as a dict of lists, a path, or a data frame."
    )


def _row(row: Any) -> Any:
    named = isinstance(row, Mapping) or is_row(row)
    return {str(name): _plain(value) for name, value in row.items()} if named else row


def _values(column: Any) -> Any:
    return column.tolist() if hasattr(column, ARRAYS) else list(column)


def _plain(value: Any) -> Any:
    """Convert a value for JSON: NaN becomes null, dates become text."""
    if hasattr(value, ARRAYS):
        value = value.tolist()
    if isinstance(value, float) and value != value:  # noqa: PLR0124  only NaN is not itself
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value
