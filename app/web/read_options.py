"""Query parameters for reading a file; whatever is not given is detected."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.services import datasets
from app.services.readers.encodings import check_encoding
from app.services.readers.options import Format, Options, Quote, Totals, Wide
from sampler.host.data import DateOrder, Decimal, Separator

# Content types of files with their formats; None: detected from the signature.
FILES: dict[str, Format | None] = {
    "text/csv": "csv",
    "application/csv": "csv",
    "text/plain": "csv",
    "text/tab-separated-values": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.arrow.file": "arrow",
    "application/gzip": None,
    "application/zip": None,
    "application/x-zip-compressed": None,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": None,
    "application/vnd.oasis.opendocument.spreadsheet": None,
    "application/vnd.ms-excel": None,  # also that of .csv on Windows
    "application/x-ndjson": None,
    "application/octet-stream": None,
}
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
OptionText = Annotated[str, Field(max_length=100)]


class ReadingQuery(BaseModel):
    """Options for reading a file that override automatic detection."""

    model_config = ConfigDict(extra="forbid")

    separator: Separator | None = Field(
        None, description="The separator of values; `space` is any white space within a line."
    )
    quoting: Quote | None = Field(
        None, description="The quote character around values that contain a separator."
    )
    encoding: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="For example utf-8, utf-16, windows-1252 or latin-1."
    )
    decimal: Decimal | None = Field(
        None, description="The decimal sign; the other sign may then separate thousands."
    )
    header: bool | None = Field(None, description="Whether the first row names the columns.")
    header_line: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The line (of a workbook, the row) of the header, below a title."
    )
    totals: Totals | None = Field(
        None, description="Whether a last row that sums the others is kept, as it is by default, or left out."
    )
    sheet: OptionText | None = Field(
        None, description="The sheet of a workbook, by its name or number; the first one with a table."
    )
    dates: DateOrder | None = Field(None, description="Whether 1/2/2026 begins with the day or the month.")
    missing: Annotated[list[OptionText], Field(max_length=100)] | None = Field(
        None,
        description="Spellings of missing values besides empty cells, instead of the usual ones; repeatable. "
        "Numbers match by value, -999 also -999.0. For every format of file.",
    )

    def options(self, promised: Format | None, kinds: dict[str, str] | None = None) -> Options:
        """Convert to reader options; raises InvalidRequestError."""
        return Options(
            format=promised,
            separator=self.separator,
            quote=self.quoting,
            encoding=None if self.encoding is None else check_encoding(self.encoding),
            decimal=self.decimal,
            header=self.header,
            header_line=self.header_line,
            totals=self.totals,
            sheet=self.sheet,
            dates=self.dates,
            missing=None if self.missing is None else tuple(self.missing),
            kinds=kinds or {},
        )


class UploadQuery(ReadingQuery):
    """Options for an upload: those for reading, a name, and kinds of columns."""

    name: str | None = Field(None, description="The name of the dataset; defaults to the file's name.")
    wide: Wide | None = Field(
        None,
        description="Whether a table with a column for each time (2024-01, 2024-02, ..) is made `long`, with "
        "a row for each of their cells in columns time and value, or is kept, as it is by default.",
    )
    kind: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=10_000)] = Field(
        default=[],
        description="The kind of a column as NAME:KIND: number, boolean, date, category or text; repeatable.",
    )

    def options(self, promised: Format | None, kinds: dict[str, str] | None = None) -> Options:
        """Convert to reader options; raises InvalidRequestError."""
        options = super().options(promised, datasets.kinds_of(self.kind) | (kinds or {}))
        return replace(options, wide=self.wide)
