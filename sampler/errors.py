"""Errors of the sampler: all are `SamplerError`, and `ValueError` where the input is to blame."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal
from unicodedata import normalize

SettingsCode = Literal[
    "unknown", "not_accepted", "out_of_range", "too_large", "not_applicable", "contradiction", "unavailable"
]
MAX_NAME = 200  # characters of a name that is compared with others
MANY_NAMES = 500
SHOWN = 5  # problems spelled out in a message; `DataError.problems` has them all


@dataclass(frozen=True)
class DataProblem:
    """One problem with a table.

    Attributes
    ----------
    column
        Name of the column; None for the whole table.
    row
        1-based data row (the header of a CSV file doesn't count); None for the whole column.
    detail
        A sentence that repeats neither.
    count
        How many problems it stands for.

    """

    column: str | None
    row: int | None
    detail: str
    count: int = 1

    @classmethod
    def further(cls, column: str | None, count: int, noun: str) -> DataProblem:
        """Say how many further cells or rows of a column have the problem that some were named for."""
        return cls(column, None, f"and {count} more {noun}", count)

    def __str__(self) -> str:
        where = [f"column {self.column!r}"] if self.column is not None else []
        where += [f"row {self.row}"] if self.row is not None else []
        return f"{', '.join(where)}: {self.detail}" if where else self.detail

    def to_json(self) -> dict[str, str | int | None]:
        """Return `{column, row, detail}`, as in the HTTP API."""
        return {"column": self.column, "row": self.row, "detail": self.detail}


def suggestion(name: object, known: Collection[str]) -> str:
    """Return "; did you mean k?" for a name that resembles a known one, in any case, else an empty text.

    One that looks the same, since letters have several codes in Unicode, is told by the codes. Names of
    more than 200 characters, and more than 500 known ones, are not compared: that takes long.
    """
    if not isinstance(name, str) or len(name) > MAX_NAME or len(known) > MANY_NAMES:
        return ""
    if twin := next((each for each in known if each != name and _looks(each) == _looks(name)), None):
        return f"; {twin} looks the same, but is spelled {twin!a}, not {name!a}: normalize the text (NFC)"
    by_text = {each.casefold(): each for each in sorted(known, reverse=True)}
    near = get_close_matches(name.casefold(), sorted(by_text), 1)
    return f"; did you mean {by_text[near[0]]}?" if near else ""


def _looks(name: str) -> str:
    return normalize("NFKC", name)


def unknown_feature(field: str, name: object, names: Collection[str]) -> SettingsError:
    """Make the error for a name, given as `field`, that none of a model's features has."""
    return SettingsError(
        f"{field}: the model has no feature {name!r}; it has {', '.join(names)}{suggestion(name, names)}",
        field=field,
        code="unknown",
    )


class SamplerError(Exception):
    """Base of all errors that this library raises on purpose."""


class DataError(SamplerError, ValueError):
    """Unusable data; `problems` lists what is wrong and where."""

    def __init__(self, problems: Sequence[DataProblem] | str) -> None:
        self.problems = [DataProblem(None, None, problems)] if isinstance(problems, str) else list(problems)
        lines = [str(problem) for problem in self.problems[:SHOWN]]
        hidden = sum(problem.count for problem in self.problems[SHOWN:])
        super().__init__("; ".join(lines) + (f"; and {hidden} more" if hidden else ""))

    @classmethod
    def at(cls, column: str | None, row: int | None, detail: str) -> DataError:
        """Make the error of one problem, as of `DataProblem`."""
        return cls([DataProblem(column, row, detail)])


class SettingsError(SamplerError, ValueError):
    """Setting with an unknown name, or a value of the wrong type or range.

    The message lists what is accepted.

    Attributes
    ----------
    field
        The setting at fault; entries of a mapping follow a dot (``prior.k``). None where it is no single one.
    code
        Kind of the fault: ``unknown`` (no such name), ``not_accepted`` (wrong type or choice),
        ``out_of_range``, ``too_large`` (for the available memory or time), ``not_applicable`` (meaningless
        with the method, family or other settings), ``contradiction`` (in conflict with another setting),
        ``unavailable`` (the model lacks what the call needs).
    ways
        Changed values of arguments, by name, each of which works where two things don't go together; None
        leaves one out.

    """

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        code: SettingsCode = "not_accepted",
        ways: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.field, self.code, self.ways = field, code, ways
        super().__init__(detail)

    def message_for(self, name: str) -> str:
        """Return the message with the field's name replaced by `name`, for callers who know it by that."""
        return str(self) if self.field is None else str(self).replace(self.field, name)


class NotFittedError(SamplerError):
    """No kept draw yet, so there is no posterior to use."""


class PackedError(SamplerError, ValueError):
    """Stored bytes that can't be read: truncated, altered, or of a newer format."""


class DataWarning(UserWarning):
    """Problem with the data that the user should know about, although the fit can continue."""
