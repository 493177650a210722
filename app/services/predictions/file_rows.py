"""New rows from a file (CSV, Arrow, Parquet), read as the model's columns within limits."""

from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import pyarrow as pa

from app.services.predictions.row_reading import RowReading
from app.services.readers.options import ReaderLimits
from app.services.readers.process.confined import readers

# Tight limits, because a client waits for the response.
LIMITS = ReaderLimits(bytes=64 << 20, cells=1 << 24, memory=512 << 20, seconds=20, fewest_columns=1)
# What an answer tells of how its file was read.
TOLD = ("summary", "format", "separator", "encoding", "decimal", "dates", "spellings", "as_in_model")


@dataclass(frozen=True)
class FileRows:
    """Rows of a file: as the model reads them, as they were sent, warnings, and how the file was read."""

    rows: pa.Table
    as_sent: pa.Table
    notes: list[str]
    read_as: dict[str, Any]


def read_rows(file: BinaryIO, reading: RowReading, max_rows: int) -> FileRows:
    """Read the rows of a file of any format.

    Raises
    ------
    UnusableDataError
        The file can't be read, or a cell doesn't fit its column's kind; names column and row.
    TooLargeError
        There are more rows than `max_rows`, or texts are too long.
    """
    task = {"options": reading.options.to_json()}
    report, sink = readers.run("rows", file, replace(LIMITS, rows=max_rows), task)
    with sink:
        table = pa.ipc.open_stream(sink).read_all()
    rows = reading.as_trained(table)
    read_as = {name: report["read_as"].get(name) for name in TOLD}
    return FileRows(rows, table, report["warnings"], read_as)
