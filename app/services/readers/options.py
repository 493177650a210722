"""Options and limits for reading a file; both are sent to the confined process as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from sampler.host.data import LONGEST_NAME, DateOrder, Decimal, FileDialect, Separator

Quote = Literal["double", "single", "none"]
Format = Literal["csv", "parquet", "arrow", "xlsx", "xlsb", "xls", "ods", "json"]
TYPED = ("parquet", "arrow", None)  # formats without cells as they were written
WORKBOOKS = ("xlsx", "xlsb", "xls", "ods")
Totals = Literal["keep", "leave-out"]
Wide = Literal["keep", "long"]
Quoted = Literal["needed", "words", "all"]
KINDS = ("number", "boolean", "date", "category", "text")
CHARACTERS: dict[str, str] = dict(zip(get_args(Separator), ",;\t| ", strict=True))
QUOTES: dict[str, str] = {"double": '"', "single": "'"}

LONG = "(?wide=long)"  # at the end of the warning of a table with a column for each time
EVERY = "*"  # in a request, for columns to keep: all
TEXTS = "texts"  # in the report of how a file was read: columns of texts in a format with types
WRITTEN = "written"  # in the report of how a file was read: its style, but for the decimal sign
MAX_COLUMNS = 10_000
MAX_NAME = LONGEST_NAME
# Usual spellings of a missing value, ignoring case; an empty cell always is one.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "?", "-", "--", ".")


@dataclass(frozen=True)
class CsvStyle:
    """Style in which a CSV file is written.

    `mark` tells whether a mark at its beginning says how characters are coded. `quoted` are the values in
    quotes: those that need it, all but numbers and the like (words), or all. `escape` writes a quote within
    quotes with a backslash, in place of twice.
    """

    separator: str = ","
    decimal: str = "."
    mark: bool = False
    encoding: str = "utf-8"
    line_end: str = "\n"
    quote: str = '"'
    quoted: Quoted = "needed"
    escape: bool = False

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> "CsvStyle | None":
        """Take the style from the report of how a file was read; None where it doesn't tell."""
        written = report.get(WRITTEN)
        return written and cls(**written, decimal="," if report.get("decimal") == "comma" else ".")


@dataclass(frozen=True)
class Options:
    """Options given by the caller; None means automatic detection.

    `format` is the format that the content type promises. `sheet` is that of a workbook: its name, or its
    number from 1. `kinds` are given by column, `otherwise` applies to all others. `missing` replaces the
    usual spellings, `codes` are further values that mean missing, by column. `known` are a model's columns
    when rows for it are read, and `model` is the dialect of its file, without what the caller overrides.
    `as_text` names columns of an Arrow stream that are text as it was in a delimited file.
    """

    format: Format | None = None
    separator: Separator | None = None
    quote: Quote | None = None
    encoding: str | None = None
    decimal: Decimal | None = None
    header: bool | None = None
    header_line: int | None = None
    sheet: str | None = None
    totals: Totals | None = None
    wide: Wide | None = None
    dates: DateOrder | None = None
    missing: tuple[str, ...] | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    otherwise: str | None = None
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    model: FileDialect | None = None
    as_text: tuple[str, ...] = ()

    def for_rows_of(self, dialect: FileDialect | None) -> "Options":
        """Return the options for new rows of a model: what the caller leaves open is as in its own file."""
        if dialect is None:
            return self
        if self.missing:
            dialect = replace(dialect, missing=(), codes={})
        return replace(
            self,
            decimal=self.decimal or dialect.decimal,
            dates=self.dates or dialect.dates,
            missing=self.missing or dialect.missing,
            codes=dialect.codes,
            model=replace(
                dialect,
                decimal=None if self.decimal else dialect.decimal,
                dates=None if self.dates else dialect.dates,
            ),
        )

    @property
    def spellings(self) -> frozenset[str]:
        """Spellings of a missing value, in lower case."""
        return frozenset({"", *(word.strip().lower() for word in self.missing)} if self.missing else MISSING)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"model": self.model and self.model.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Options":
        """Restore the options from `to_json`."""
        missing, model = data["missing"], data["model"]
        return cls(
            **data
            | {
                "missing": None if missing is None else tuple(missing),
                "codes": {name: tuple(codes) for name, codes in data["codes"].items()},
                "known": tuple(data["known"]),
                "as_text": tuple(data["as_text"]),
                "model": None if model is None else FileDialect.from_json(model),
            }
        )


@dataclass(frozen=True)
class ReaderLimits:
    """Limits on a file's content and on the resources of its reader.

    `bytes` is the unpacked size of the file, `cells` rows times columns, `memory` the allocation beyond the
    libraries, `seconds` CPU time; the wall-clock limit is ten times as long. `leave` are the bytes of the
    temporary disk that the reader's own files leave free.
    """

    bytes: int = 512 << 20
    cells: int = 1 << 27
    rows: int = 1 << 40
    memory: int = 768 << 20
    seconds: int = 120
    fewest_columns: int = 2
    leave: int = 0

    @classmethod
    def of_uploads(cls, most: int) -> "ReaderLimits":
        """Return the limits of uploads of up to `most` bytes; they grow with it beyond the usual size."""
        times = max(most / cls.bytes, 1.0)
        cells, memory, seconds = (int(times * each) for each in (cls.cells, cls.memory, cls.seconds))
        return cls(most, cells=cells, memory=memory, seconds=seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ReaderLimits":
        """Restore the limits from `to_json`."""
        return cls(**data)
