"""Options and limits for reading a file; both are sent to the confined process as JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Separator = Literal["comma", "semicolon", "tab", "bar", "space"]
Quote = Literal["double", "single", "none"]
Decimal = Literal["point", "comma"]
DateOrder = Literal["day-first", "month-first"]
Format = Literal["csv", "parquet", "arrow"]
KINDS = ("number", "boolean", "date", "category", "text")
CHARACTERS: dict[str, str] = dict(zip(get_args(Separator), ",;\t| ", strict=True))
QUOTES: dict[str, str] = {"double": '"', "single": "'"}

MAX_COLUMNS = 10_000
MAX_NAME = 200
# Usual spellings of a missing value, ignoring case; an empty cell always is one.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "?", "-", "--", ".")


@dataclass(frozen=True)
class Options:
    """Options given by the caller; None means automatic detection.

    `format` is the format that the content type promises. `kinds` are given by column, `otherwise` applies to
    all others. `missing` replaces the usual spellings. `known` are a model's columns when rows for it are
    read.
    """

    format: Format | None = None
    separator: Separator | None = None
    quote: Quote | None = None
    encoding: str | None = None
    decimal: Decimal | None = None
    header: bool | None = None
    dates: DateOrder | None = None
    missing: tuple[str, ...] | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    otherwise: str | None = None
    known: tuple[str, ...] = ()

    @property
    def spellings(self) -> frozenset[str]:
        """Spellings of a missing value, in lower case."""
        return frozenset({"", *(word.strip().lower() for word in self.missing)} if self.missing else MISSING)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Options":
        """Restore the options from `to_json`."""
        missing = data["missing"]
        return cls(
            **data | {"missing": None if missing is None else tuple(missing), "known": tuple(data["known"])}
        )


@dataclass(frozen=True)
class ReaderLimits:
    """Limits on a file's content and on the resources of its reader.

    `bytes` is the unpacked size of the file, `cells` rows times columns, `memory` the allocation beyond the
    libraries, `seconds` CPU time; the wall-clock limit is ten times as long.
    """

    bytes: int = 512 << 20
    cells: int = 1 << 27
    rows: int = 1 << 40
    memory: int = 768 << 20
    seconds: int = 120
    fewest_columns: int = 2

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ReaderLimits":
        """Restore the limits from `to_json`."""
        return cls(**data)
