"""New rows from a file (CSV, Arrow, Parquet), read as the model's columns within limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, BinaryIO, Literal

import pyarrow as pa
from pydantic import Field
from typing_extensions import TypedDict

from app.services.predictions.row_reading import RowReading
from app.services.readers.options import CsvStyle, Format, ReaderLimits
from app.services.readers.process.confined import readers
from sampler.host.data import DateOrder, Decimal, Separator

# Tight limits, because a client waits for the response.
LIMITS = ReaderLimits(bytes=64 << 20, cells=1 << 24, memory=512 << 20, seconds=20, fewest_columns=1)


class RowsReadAsView(TypedDict):
    """Report of how a file of rows for a model was read; null where nothing shows it."""

    summary: str
    format: Format
    separator: Separator | None
    encoding: str | None
    decimal: Decimal | None
    dates: DateOrder | None
    spellings: Annotated[
        list[str] | None,
        Field(description="Spellings of missing values besides empty cells; null: the usual ones."),
    ]
    as_in_model: Annotated[
        list[Literal["decimal", "dates", "missing"]],
        Field(
            description="What the request leaves open, and was read as in the file that the model "
            "was fitted to."
        ),
    ]


@dataclass(frozen=True)
class FileRows:
    """Rows of a file: as the model reads them, as they were sent, warnings, and how the file was read.

    `texts` are cells of the columns to keep as they were written, and `written` is the style of a CSV file.
    """

    rows: pa.Table
    as_sent: pa.Table
    texts: Mapping[str, pa.ChunkedArray]
    written: CsvStyle | None
    notes: list[str]
    read_as: RowsReadAsView


def read_rows(file: BinaryIO, reading: RowReading, max_rows: int, keep: Sequence[str] = ()) -> FileRows:
    """Read the rows of a file of any format; `keep` names columns whose cells are kept as they were written.

    Raises
    ------
    UnusableDataError
        The file can't be read, or a cell doesn't fit its column's kind; names column and row.
    TooLargeError
        There are more rows than `max_rows`, or texts are too long.
    """
    task = {"options": reading.options.to_json(), "keep": list(keep)}
    report, sink = readers.run("rows", file, replace(LIMITS, rows=max_rows), task)
    with sink:
        sent = pa.ipc.open_stream(sink).read_all()
    width = sent.num_columns - len(report["texts"])
    table, texts = sent.select(range(width)), sent.columns[width:]
    rows = reading.as_trained(table)
    read_as: Any = {name: report["read_as"].get(name) for name in RowsReadAsView.__annotations__}
    style = CsvStyle.of_report(report["read_as"])
    kept = dict(zip(report["texts"], texts, strict=True))
    return FileRows(rows, table, kept, style, report["warnings"], read_as)
