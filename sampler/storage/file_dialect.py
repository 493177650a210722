"""Dialect of the file of a model's training rows, by which files of new rows are read like it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

Separator = Literal["comma", "semicolon", "tab", "bar", "space"]
Decimal = Literal["point", "comma"]
DateOrder = Literal["day-first", "month-first"]
_CHOICES = {"separator": Separator, "decimal": Decimal, "dates": DateOrder}


@dataclass(frozen=True)
class FileDialect:
    """Dialect of a delimited file, and its spellings of missing values; what is not known is None or empty.

    Attributes
    ----------
    separator
        Separator of values; None for a single column too.
    encoding
        Name of the encoding for display.
    decimal
        Decimal sign; None where no column shows it.
    dates
        Order of day and month; None where no column shows it.
    missing
        Spellings of missing values besides empty cells, in place of the usual ones; empty: the usual ones.
    codes
        Further values that mean missing, as text, by column.
    units
        Units of numbers that the file has beside them ("EUR", "%"), by column.

    """

    separator: Separator | None = None
    encoding: str | None = None
    decimal: Decimal | None = None
    dates: DateOrder | None = None
    missing: tuple[str, ...] = ()
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

    def of_columns(self, names: Collection[str]) -> FileDialect:
        """Return the dialect without the codes and units of other columns."""
        codes = {name: codes for name, codes in self.codes.items() if name in names}
        return replace(
            self, codes=codes, units={name: unit for name, unit in self.units.items() if name in names}
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is known as JSON values."""
        codes = {name: list(values) for name, values in self.codes.items()}
        fields = asdict(self) | {"missing": list(self.missing), "codes": codes}
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileDialect:
        """Read the dialect that `to_json` wrote; raise ValueError for anything else."""
        missing, codes, encoding = data.get("missing") or [], data.get("codes") or {}, data.get("encoding")
        units = data.get("units") or {}
        if not all(map(_are_texts, (missing, *codes.values()))):
            raise ValueError("its spellings of missing values are not lists of texts")
        if not _are_texts(list(units.values())):
            raise ValueError("its units are not texts")
        for name, choice in _CHOICES.items():
            if data.get(name) not in {None, *get_args(choice)}:
                raise ValueError(f"its file has an unknown {name}")
        return cls(
            encoding=None if encoding is None else str(encoding),
            missing=tuple(missing),
            codes={name: tuple(values) for name, values in codes.items()},
            units=dict(units),
            **{name: data.get(name) for name in _CHOICES},
        )

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> FileDialect | None:
        """Take the dialect from the report of how a dataset's file was read; None where it tells nothing."""
        names = {"missing": "spellings"} | {name: name for name in (*_CHOICES, "encoding", "codes", "units")}
        dialect = cls.from_json({name: report.get(reported) for name, reported in names.items()})
        return dialect if dialect.to_json() else None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
