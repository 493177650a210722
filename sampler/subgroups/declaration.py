"""Declaration of subgroups in each of which calibrated intervals hold (docs/validity.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampler.data.scalars import as_text, text_to_days
from sampler.data.schema import FeatureKind
from sampler.definitions.setting import is_number
from sampler.errors import SettingsError, suggestion

MISSING, BY_CLASS = "missing", "by_class"  # in place of a column
ABOUT = (
    "Subgroups in each of which calibrated intervals hold: columns (a category's levels, a number's "
    'quarters); {"name": "old", "where": [{"column": "age", "at_least": 65}]}, with '
    'at_least, below, in, not_in or missing, all of which must be true; "missing", rows by what they lack; '
    '"by_class", each class by itself. Name them before their outcomes are looked at.'
)
MOST = 16  # independent subgroups
MOST_ENTRIES = 50
_TESTS = ("at_least", "below", "in", "not_in", "missing")
_SIGNS = (">=", "!=", "<", "=")
_LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class Condition:
    """A condition on one column of a row; the parts that are given must all be true.

    Attributes
    ----------
    column
        Name of the column.
    at_least, below
        Limits of a number, or of a date in ISO 8601. A missing value is within none.
    levels, without
        Levels of which the value is one, or none of which it is; a missing value is neither.
    missing
        Whether the value is missing, or is not.

    """

    column: str
    at_least: float | str | None = None
    below: float | str | None = None
    levels: tuple[str, ...] | None = None
    without: tuple[str, ...] | None = None
    missing: bool | None = None

    @classmethod
    def read(cls, value: Any, columns: Collection[str] | None) -> Condition:
        """Read a condition as a request gives it; raise SettingsError."""
        if not isinstance(value, dict) or not value.keys() <= {"column", *_TESTS} or len(value) < 2:
            raise refused(f"each condition is a column with {', '.join(_TESTS)}, not {value!r}")
        name = _column(value.get("column"), columns)
        for test in value.keys() & {"at_least", "below"}:
            _days_of(value[test])
        levels = {test: _levels(value[test]) for test in ("in", "not_in") if test in value}
        if not isinstance(value.get("missing", True), bool):
            raise refused(f"missing is true or false, not {value['missing']!r}")
        low, high = value.get("at_least"), value.get("below")
        if isinstance(low, str) != isinstance(high, str) and None not in (low, high):
            raise refused(f"{name}: at_least and below are both dates, or both numbers")
        return cls(name, low, high, levels.get("in"), levels.get("not_in"), value.get("missing"))

    def to_json(self) -> dict[str, Any]:
        """Return the value that `read` reads."""
        values = (
            self.at_least,
            self.below,
            None if self.levels is None else list(self.levels),
            None if self.without is None else list(self.without),
            self.missing,
        )
        given = {test: own for test, own in zip(_TESTS, values, strict=True) if own is not None}
        return {"column": self.column, **given}

    @property
    def limits(self) -> tuple[float, float]:
        """Limits as numbers, or days since 1970."""
        low = -math.inf if self.at_least is None else _days_of(self.at_least)
        return low, math.inf if self.below is None else _days_of(self.below)

    @property
    def of_dates(self) -> bool:
        """Whether the limits are dates."""
        return isinstance(self.at_least, str) or isinstance(self.below, str)

    @property
    def kind(self) -> FeatureKind:
        """Kind of values that the condition is about."""
        if self.at_least is not None or self.below is not None:
            return "date" if self.of_dates else "number"
        named = {*(self.levels or ()), *(self.without or ())}
        return "boolean" if named and named <= {"true", "false"} else "category"


@dataclass(frozen=True)
class Subgroup:
    """Rows of which all of some conditions are true."""

    name: str
    where: tuple[Condition, ...]

    @classmethod
    def read(cls, value: Any, columns: Collection[str] | None = None) -> Subgroup:
        """Read a subgroup with its conditions; raise SettingsError."""
        if not isinstance(value, dict) or value.keys() != {"name", "where"}:
            raise refused(f"a subgroup is a column, or has a name and where, not {value!r}")
        name, where = value["name"], value["where"]
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
            raise refused(f"the name of a subgroup is a text of up to {_LONGEST} characters, not {name!r}")
        if not isinstance(where, list | tuple) or not where:
            raise refused(f"{name}: where is a list of conditions, not {where!r}")
        return cls(name, tuple(Condition.read(each, columns) for each in where))

    def to_json(self) -> dict[str, Any]:
        """Return the value that `read` reads."""
        return {"name": self.name, "where": [each.to_json() for each in self.where]}


@dataclass(frozen=True)
class Subgroups:
    """Declared subgroups: names of columns and subgroups with conditions, and what else tells rows apart."""

    entries: tuple[str | Subgroup, ...] = ()
    missing: bool = False
    by_class: bool = False

    @classmethod
    def read(cls, value: Any, columns: Collection[str] | None = None) -> Subgroups:
        """Read a declaration as a request gives it; `columns` are those that it may name.

        Raises
        ------
        SettingsError
            For anything else.

        """
        if value is None or isinstance(value, Subgroups):
            return value or cls()
        if not isinstance(value, list | tuple) or len(value) > MOST_ENTRIES:
            raise refused(f"subgroups is a list of up to {MOST_ENTRIES} columns and subgroups, not {value!r}")
        words = {each for each in value if isinstance(each, str) and each in (MISSING, BY_CLASS)}
        if columns is not None and (both := words & set(columns)):
            raise refused(
                f"{min(both)!r} is a column too: name its subgroups with where, or rename the column"
            )
        entries = tuple(
            Subgroup.read(each, columns) if isinstance(each, dict) else _column(each, columns)
            for each in value
            if not isinstance(each, str) or each not in words
        )
        if len(set(map(str, entries))) < len(entries):
            raise refused("a subgroup is named twice")
        return cls(entries, MISSING in words, BY_CLASS in words)

    @property
    def are_none(self) -> bool:
        """Whether nothing is declared."""
        return not self.entries and not self.missing and not self.by_class

    @property
    def columns(self) -> list[str]:
        """Names of the columns, once each."""
        named = [[e] if isinstance(e, str) else [c.column for c in e.where] for e in self.entries]
        return list(dict.fromkeys(name for names in named for name in names))

    def to_json(self) -> list[Any]:
        """Return the value that `read` reads."""
        entries = [each if isinstance(each, str) else each.to_json() for each in self.entries]
        words = ((self.missing, MISSING), (self.by_class, BY_CLASS))
        return entries + [word for declared, word in words if declared]


def read_text(text: str) -> str | dict[str, Any]:
    """Read a subgroup as a command line or a form gives it: a column, or "age>=65 & sex=F".

    Signs are >=, <, = and !=; levels are divided by "|" (sex=F|M), and "=?" asks for missing values. Raises
    SettingsError.
    """
    if not any(sign in text for sign in _SIGNS):
        return text.strip()
    parts = [each.strip() for each in text.split("&")]
    return {"name": " & ".join(parts), "where": [_parsed(each) for each in parts]}


def _parsed(text: str) -> dict[str, Any]:
    parts = re.fullmatch(r"\s*(.+?)\s*(>=|!=|<|=)\s*(.*?)\s*", text)
    if parts is None or not parts[3]:
        raise refused(f"{text.strip()!r} is no condition: write age>=65, age<30, sex=F or sex!=F")
    name, sign, value = parts.groups()
    if value == "?":
        if sign not in ("=", "!="):
            raise refused(f"{text.strip()!r}: a missing value is asked for by =? and !=?")
        return {"column": name, "missing": sign == "="}
    if sign in ("=", "!="):
        return {
            "column": name,
            "in" if sign == "=" else "not_in": [each.strip() for each in value.split("|")],
        }
    try:
        limit: float | str = float(value)
    except ValueError:
        limit = value
    return {"column": name, "at_least" if sign == ">=" else "below": limit}


def refused(message: str) -> SettingsError:
    """Make the error of a declaration that can't be read."""
    return SettingsError(f"subgroups: {message}", field="subgroups", code="not_accepted")


def unknown(message: str) -> SettingsError:
    """Make the error of a declaration of columns that are not there."""
    return SettingsError(f"subgroups: {message}", field="subgroups", code="unknown")


def out_of_range(message: str) -> SettingsError:
    """Make the error of a declaration of too many subgroups, or of some with too few rows."""
    return SettingsError(f"subgroups: {message}", field="subgroups", code="out_of_range")


def _column(name: Any, columns: Collection[str] | None) -> str:
    if not isinstance(name, str):
        raise refused(f"{name!r} is neither the name of a column nor a subgroup with a name and where")
    if columns is not None and name not in columns:
        raise unknown(f"{name!r} is no column of the table{suggestion(name, columns)}")
    return name


def _days_of(bound: Any) -> float:
    if is_number(bound) and math.isfinite(bound):
        return float(bound)
    try:
        return text_to_days(bound) if isinstance(bound, str) else math.nan + _refuse_bound(bound)
    except (ValueError, OverflowError):
        return _refuse_bound(bound)


def _refuse_bound(bound: Any) -> float:
    raise refused(f"at_least and below are numbers, or dates like 2026-01-31, not {bound!r}")


def _levels(value: Any) -> tuple[str, ...]:
    several: Sequence[Any] | Mapping[str, Any] = value if isinstance(value, list | tuple) else [value]
    if not several or not all(isinstance(each, str | bool) or is_number(each) for each in several):
        raise refused(f"in and not_in are lists of levels, not {value!r}")
    return tuple(dict.fromkeys(map(as_text, several)))
