"""Pairs of things that don't go together in a fit: the form of an entry, and what a fit is asked with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sampler.errors import SettingsCode

OF_OTHERS = {
    "groups": ("slopes", "adoption", "period"),
    "adoption": ("period",),
    "treatment": ("propensity", "effects", "assignment"),
}  # go with it


@dataclass(frozen=True)
class Combination:
    """Things that a fit is asked to have together.

    Attributes
    ----------
    values
        Settings, columns with a role and other arguments by name, as far as they are known; None where they
        are not given, absent where that isn't known. `arms` are those of a treatment, and `outcomes` is the
        number of outcomes.
    suits
        Function that tells whether the outcomes may be of a family.

    """

    values: Mapping[str, Any]
    suits: Callable[[str], bool] = lambda _: True

    def __getitem__(self, name: str) -> Any:
        if "." not in name:
            return self.values.get(name)
        first, _, entry = name.partition(".")
        entries = self.values.get(first)
        return entries.get(entry) if isinstance(entries, Mapping) else None

    def but(self, changes: Mapping[str, Any]) -> Combination:
        """Return what is asked with other values; None leaves one out, with what is only of use beside it."""
        values = dict(self.values)
        for name, value in changes.items():
            first, _, entry = name.partition(".")
            if entry:
                values[first] = {key: each for key, each in (values.get(first) or {}).items() if key != entry}
            else:
                values[first] = value
                values |= dict.fromkeys(OF_OTHERS.get(first, ()) if value is None else ())
        return replace(self, values=values)


NOTHING = Combination({})


@dataclass(frozen=True)
class Pair:
    """Two kinds of things that don't go together.

    Attributes
    ----------
    one, other
        The kinds: a name of `sampler.pairs.KINDS`, or the name of a setting, a role or an argument, which
        stands for its being given.
    reason
        Why, in a few words; values that are asked for may stand in braces.
    field
        The setting that is at fault.
    ways
        Ways that work: a name leaves it out ("lower+upper" both), "family=" sets another value that goes with
        all the rest, "noise=constant" this one. Those that would be refused next are not named.
    code
        Kind of the fault.

    """

    one: str | Callable[[Combination], bool]
    other: str | Callable[[Combination], bool]
    reason: str
    field: str
    ways: tuple[str, ...]
    code: SettingsCode = "not_applicable"
