"""Judges of a claim: functions of the document's figures, ours, and the smaller of the two errors.

A `Number` holds within two errors of the document's figure, an `Order` where ours has no two of its groups
the other way round, a `Statement` where each of its quantities is below the one that it says is larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ERRORS = 2.0  # errors that a number may be from the document's
REPRODUCED, BETTER, NOT_REPRODUCED, NO_WORD, NOT_YET = WORDS = (
    "reproduced",
    "better",
    "not reproduced",
    "no word",
    "not yet",
)


@dataclass(frozen=True)
class Seen:
    """Our values, as a judge compares them and as the page says them.

    `values` are numbers for a `Number` (with `errors`, where they are known), values by name for an `Order`,
    and pairs of what is to be smaller and what is to be larger for a `Statement`. `why` is what else to know,
    `unless` the reason where the claim doesn't hold.
    """

    ours: str
    values: Any
    errors: Sequence[float] = ()
    why: str = ""
    unless: str = ""


class Judge(Protocol):
    """Function from what is seen to a word; `kind` is the kind of its claims."""

    kind: ClassVar[str]

    def word(self, seen: Seen) -> str:
        """Return one of `WORDS`."""


@dataclass(frozen=True)
class Number:
    """Judge of numbers, each within two of the smaller error of the document's, and half a unit of rounding.

    `errors` are the document's, none where it has none. Beyond them one that is `less` or `more` (as `good`
    says) is better.
    """

    paper: tuple[float, ...]
    errors: tuple[float, ...] = ()
    unit: float = 0.0  # of the document's last digit
    good: str = ""
    kind: ClassVar[str] = "number"

    def tolerances(self, errors: Sequence[float]) -> list[float]:
        """Return how far each number may be from the document's, given our errors."""
        known = [each for each in (self.errors, errors) if len(each)]
        each = [min(several) for several in zip(*known, strict=True)] if known else [0.0] * len(self.paper)
        return [ERRORS * error + self.unit / 2 for error in each]

    def word(self, seen: Seen) -> str:
        """Return whether all numbers are the document's, or better."""
        off = [our - their for our, their in zip(seen.values, self.paper, strict=True)]
        limits = [limit * (1 + 1e-9) for limit in self.tolerances(seen.errors)]
        if all(abs(each) <= limit for each, limit in zip(off, limits, strict=True)):
            return REPRODUCED
        sign = {"": 0, "less": 1, "more": -1}[self.good]
        good = sign and all(sign * each <= limit for each, limit in zip(off, limits, strict=True))
        return BETTER if good else NOT_REPRODUCED


@dataclass(frozen=True)
class Order:
    """Judge of an order: a group's values are above those of the groups after it, or below (`rising`)."""

    groups: tuple[tuple[str, ...], ...]
    rising: bool = False
    kind: ClassVar[str] = "order"

    @classmethod
    def of(cls, paper: Mapping[str, float], tie: float = 2.0) -> Order:
        """Return the order of a document's values, where those within a factor `tie` are equal."""
        names = sorted(paper, key=lambda name: -paper[name])
        groups = [[names[0]]]
        for name in names[1:]:
            if paper[groups[-1][0]] > tie * paper[name]:
                groups.append([])
            groups[-1].append(name)
        return cls(tuple(tuple(group) for group in groups))

    def word(self, seen: Seen) -> str:
        """Return whether our values have the document's order."""
        sign = -1 if self.rising else 1
        ours = [[sign * seen.values[name] for name in group] for group in self.groups]
        return REPRODUCED if all(min(a) > max(b) for a, b in pairwise(ours)) else NOT_REPRODUCED


@dataclass(frozen=True)
class Statement:
    """Judge of a statement: in every pair the first is smaller than the second."""

    kind: ClassVar[str] = "statement"

    def word(self, seen: Seen) -> str:
        """Return whether every pair has the order that the statement says."""
        return REPRODUCED if all(less < more for less, more in seen.values) else NOT_REPRODUCED
