"""What a caller may say of a file, and how much one may hold: both cross to the confined process as JSON."""

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
# How files spell a missing value, in any case of letters; an empty cell always is one.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "?", "-", "--", ".")


@dataclass(frozen=True)
class Options:
    """What the caller says of the file; None: to be found out.

    `format` is what the content type promises. `kinds` are by column, `otherwise` that of all others.
    `missing` takes the place of the usual spellings. `known` are a model's columns, when rows for it are
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
        """The spellings of a missing value, in lower case."""
        return frozenset({"", *(word.strip().lower() for word in self.missing)} if self.missing else MISSING)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Options":
        """What `to_json` gave."""
        missing = data["missing"]
        return cls(
            **data | {"missing": None if missing is None else tuple(missing), "known": tuple(data["known"])}
        )


@dataclass(frozen=True)
class ReaderLimits:
    """How much a file may hold, and what its reader may take of the machine.

    `bytes` are those of the file once unpacked, `cells` rows times columns, `memory` what is allocated beyond
    the libraries, `seconds` of a processor; on a clock it may take ten times as long.
    """

    bytes: int = 512 << 20
    cells: int = 1 << 27
    rows: int = 1 << 40
    memory: int = 768 << 20
    seconds: int = 120
    fewest_columns: int = 2

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ReaderLimits":
        """What `to_json` gave."""
        return cls(**data)
