"""Declaration of how new rows will differ from the training rows (docs/validity.md)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sampler.definitions.setting import is_number
from sampler.errors import SettingsError, suggestion

LIKE_THESE = "like_these"
ABOUT = (
    'How the rows to predict will differ from these: "like_these" (the default); {"groups": "subject"}, of '
    'other values of a column, which is no feature then; {"later": "date", "horizon": 28, "gap": 7}, later '
    "by a column, in days or its unit; or both. Rows are held out, and folds made, in the same way, and "
    "claims of calibrated intervals say what that shows."
)
CountedBy = Literal["groups", "rows"]
_FIELDS = ("groups", "later", "horizon", "gap", "count")


@dataclass(frozen=True)
class NewRows:
    """Differences between new rows and the training rows.

    Attributes
    ----------
    groups
        Column whose values new rows will have others of: a subject, a site; None for the same ones.
    later
        Column of time, after which new rows come; None where time plays no part.
    horizon
        How far after the training rows new ones come, in days or units of the column; None for the span of
        the newest tenth of rows.
    gap
        Time before a prediction of which nothing is known yet, in the same unit.
    count
        Whether the claim counts a new group once, or each of its rows.

    """

    groups: str | None = None
    later: str | None = None
    horizon: float | None = None
    gap: float = 0.0
    count: CountedBy = "groups"

    @classmethod
    def read(cls, value: Any, columns: Collection[str] | None = None) -> NewRows:
        """Read a declaration as a request gives it; `columns` are those that it may name.

        Raises
        ------
        SettingsError
            For anything else.

        """
        if value is None or value == LIKE_THESE or isinstance(value, NewRows):
            return value if isinstance(value, NewRows) else cls()
        if not isinstance(value, dict):
            raise SettingsError(
                f'new_rows must be "{LIKE_THESE}", {{"groups": a column}} or {{"later": a column}}, '
                f"not {value!r}",
                field="new_rows",
                code="not_accepted",
            )
        for field in value:
            if field not in _FIELDS:
                raise SettingsError(
                    f"new_rows has no field {field!r}{suggestion(field, _FIELDS)}",
                    field="new_rows",
                    code="unknown",
                )
        given = {field: each for field, each in value.items() if each is not None}
        given |= {  # a list of one name is that name
            field: each[0] for field, each in given.items() if isinstance(each, list) and len(each) == 1
        }
        return cls(**_checked(given, columns))

    @property
    def are_like_these(self) -> bool:
        """Whether new rows are like the training rows."""
        return self.groups is None and self.later is None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [name for name in (self.groups, self.later) if name is not None]

    def to_json(self) -> str | dict[str, Any]:
        """Return the value that `read` reads, without fields at their defaults."""
        if self.are_like_these:
            return LIKE_THESE
        plain = NewRows()
        return {field: own for field, own in vars(self).items() if own != getattr(plain, field)}

    @property
    def in_words(self) -> str:
        """The declaration in words that end "new rows ..."."""
        parts = []
        if self.groups is not None:
            parts.append(f"of other values of {self.groups}")
        if self.later is not None:
            parts.append(f"later by {self.later}")
        return "new rows " + (", ".join(parts) or "like the training rows")


LIKE_TRAINING = NewRows()


def _checked(given: dict[str, Any], columns: Collection[str] | None) -> dict[str, Any]:
    if not given.keys() & {"groups", "later"}:
        raise SettingsError(
            "new_rows names no column: give groups, later or both", field="new_rows", code="not_accepted"
        )
    for field in given.keys() & {"groups", "later"}:
        _check_column(field, given[field], columns)
    if given.get("groups") == given.get("later"):
        raise SettingsError(
            f"new_rows: {given['groups']!r} can't be both groups and later",
            field="new_rows",
            code="contradiction",
        )
    for field, owner in (("horizon", "later"), ("gap", "later"), ("count", "groups")):
        if field in given and owner not in given:
            raise SettingsError(
                f"new_rows.{field} is of {owner}: name its column too",
                field=f"new_rows.{field}",
                code="contradiction",
            )
    for field in given.keys() & {"horizon", "gap"}:
        given[field] = _number(field, given[field])
    if given.get("count", "groups") not in get_args(CountedBy):
        raise SettingsError(
            f"new_rows.count must be groups or rows, not {given['count']!r}",
            field="new_rows.count",
            code="not_accepted",
        )
    return given


def _number(field: str, number: Any) -> float:
    if is_number(number) and 0 <= number < math.inf and (field == "gap" or number):
        return float(number)
    least = "from 0 up" if field == "gap" else "above 0"
    raise SettingsError(
        f"new_rows.{field} must be a number {least}, not {number!r}",
        field=f"new_rows.{field}",
        code="out_of_range",
    )


def _check_column(field: str, name: Any, columns: Collection[str] | None) -> None:
    if not isinstance(name, str):
        message = f"new_rows.{field} must be the name of one column, not {name!r}"
        if isinstance(name, list | tuple) and len(name) > 1:
            message += ": of nested columns name the coarsest whose values will be new"
        raise SettingsError(message, field=f"new_rows.{field}", code="not_accepted")
    if columns is not None and name not in columns:
        message = f"new_rows.{field} names {name!r}, which the table doesn't have{suggestion(name, columns)}"
        raise SettingsError(message, field=f"new_rows.{field}", code="unknown")
