"""How a file is to be read, as parameters of the address; what isn't said is found out."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.services import datasets
from app.services.readers.encodings import check_encoding
from app.services.readers.options import DateOrder, Decimal, Format, Options, Quote, Separator

# Content types of files, and what each promises; None: told by its first bytes.
FILES: dict[str, Format | None] = {
    "text/csv": "csv",
    "application/csv": "csv",
    "text/plain": "csv",
    "text/tab-separated-values": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.arrow.file": "arrow",
    "application/gzip": None,
    "application/octet-stream": None,
}
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
Word = Annotated[str, Field(max_length=100)]


class ReadingQuery(BaseModel):
    """What the sender knows of a delimited file, and better than we find out."""

    model_config = ConfigDict(extra="forbid")

    separator: Separator | None = Field(None, description="What divides values; `space` is any blanks.")
    quoting: Quote | None = Field(None, description="What encloses values that hold a separator.")
    encoding: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="For instance utf-8, utf-16, windows-1252, latin-1."
    )
    decimal: Decimal | None = Field(
        None, description="The decimal sign; the other one may then set thousands apart."
    )
    header: bool | None = Field(None, description="Whether the first row names the columns.")
    dates: DateOrder | None = Field(None, description="What 1/2/2026 begins with.")
    missing: Annotated[list[Word], Field(max_length=100)] | None = Field(
        None,
        description="Spellings of missing beside the empty cell, instead of the usual ones; repeat it.",
    )

    def options(self, promised: Format | None, kinds: dict[str, str] | None = None) -> Options:
        """The same as the readers want it; raises InvalidRequestError."""
        return Options(
            format=promised,
            separator=self.separator,
            quote=self.quoting,
            encoding=None if self.encoding is None else check_encoding(self.encoding),
            decimal=self.decimal,
            header=self.header,
            dates=self.dates,
            missing=None if self.missing is None else tuple(self.missing),
            kinds=kinds or {},
        )


class UploadQuery(ReadingQuery):
    """The same, a name, and the kinds of columns."""

    name: str | None = Field(None, description="What to call the dataset; else the file's name.")
    kind: Annotated[list[Annotated[str, Field(max_length=300)]], Field(max_length=10_000)] = Field(
        default=[],
        description="A column's kind, as NAME:KIND: number, boolean, date, category or text; repeat it.",
    )

    def options(self, promised: Format | None, kinds: dict[str, str] | None = None) -> Options:
        """The same as the readers want it; raises InvalidRequestError."""
        return super().options(promised, datasets.kinds_of(self.kind) | (kinds or {}))
