"""Errors that say what to do: all are `SamplerError`, and `ValueError` where the input is to blame."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

SettingsCode = Literal[
    "unknown", "not_accepted", "out_of_range", "too_large", "not_applicable", "contradiction", "unavailable"
]
SHOWN = 5  # problems spelled out in a message; `DataError.problems` has them all


@dataclass(frozen=True)
class DataProblem:
    """One thing wrong with a table.

    `column` is its name or None when the whole table is meant. `row` is the 1-based data row (the header of
    a CSV file doesn't count) or None when the whole column is meant. `detail` is a sentence without them.
    """

    column: str | None
    row: int | None
    detail: str

    def __str__(self) -> str:
        where = [f"column {self.column!r}"] if self.column is not None else []
        where += [f"row {self.row}"] if self.row is not None else []
        return f"{', '.join(where)}: {self.detail}" if where else self.detail

    def to_json(self) -> dict[str, str | int | None]:
        """`{column, row, detail}` as the HTTP contract spells it."""
        return asdict(self)


class SamplerError(Exception):
    """Base of everything this library raises on purpose."""


class DataError(SamplerError, ValueError):
    """The data can't be used as they are; `problems` says what, where."""

    def __init__(self, problems: Sequence[DataProblem] | str) -> None:
        self.problems = [DataProblem(None, None, problems)] if isinstance(problems, str) else list(problems)
        lines = [str(problem) for problem in self.problems[:SHOWN]]
        hidden = len(self.problems) - len(lines)
        super().__init__("; ".join(lines) + (f"; and {hidden} more" if hidden else ""))


class SettingsError(SamplerError, ValueError):
    """A setting has no such name, type or range; the message says which are allowed.

    Attributes
    ----------
    field
        The setting at fault, an entry of a mapping after a dot (``prior.k``); None where no one is.
    code
        What is wrong with it: ``unknown`` (there is no such name), ``not_accepted`` (another type or choice),
        ``out_of_range``, ``too_large`` (for the memory or time there is), ``not_applicable`` (it has no
        meaning with the method, family or other settings), ``contradiction`` (it disagrees with another
        setting), ``unavailable`` (the model lacks what the call needs).

    """

    def __init__(self, detail: str, *, field: str | None = None, code: SettingsCode = "not_accepted") -> None:
        self.field, self.code = field, code
        super().__init__(detail)

    def called(self, name: str) -> str:
        """Return the message for callers who know the field by another name."""
        return str(self) if self.field is None else str(self).replace(self.field, name)


class NotFittedError(SamplerError):
    """There is no draw to answer from yet."""


class PackedError(SamplerError, ValueError):
    """Stored bytes that can't be read: truncated, altered, or of a newer format."""


class DataWarning(UserWarning):
    """Something about the data that the user should know, though the fit can go on."""
