"""Claims of calibrated intervals in words, never more than was shown (docs/validity.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.definitions.new_rows import NewRows

NOT_PROMISED = "Not promised: the same for each value of the features, or if rows come to differ."
NO_GUARANTEE = "No guarantee goes with it."
IN_SUBGROUPS = (
    "At least as many do in each named subgroup, and for any other mix of these. Not promised: the same in "
    "parts that were not named."
)
ABOUT_SUBGROUPS = "The same is estimated of each named subgroup, and of any other mix of these."


class SubgroupClaim(NamedTuple):
    """Claim of one subgroup: calibration rows, and the share inside at least and, without ties, at most."""

    name: str
    rows: int
    at_least: float | None
    at_most: float | None
    text: str


@dataclass(frozen=True)
class Basis:
    """Facts that a claim rests on, as `sampler.storage.conformal_table.ConformalTable` describes them."""

    kind: str
    rows: int
    count: int
    of_classes: bool
    since_change: bool
    new_rows: NewRows
    unit: NDArray[np.int32] | None


def claim_of(basis: Basis, level: float, inside: NDArray[np.bool_]) -> str:
    """Say what intervals or sets of a level hold; `inside` tells which calibration rows are, bool [row]."""
    noun = "prediction sets" if basis.of_classes else "intervals"
    if basis.new_rows.later is not None:
        return _of_later_rows(basis, noun, inside)
    if basis.new_rows.groups is not None:
        return _of_new_groups(basis, level, noun, inside)
    if basis.kind == "folds":
        return (
            f"Estimated: about {level:.4g} of new rows like the {basis.rows} training rows fall inside "
            f"these {noun}, measured by fits that had not seen the rows. {NO_GUARANTEE}"
        )
    if basis.since_change:
        return (
            f"Of new rows like the {basis.rows} outcomes since the change, about {level:.4g} fall inside "
            f"these {noun} on average; no exact statement, since the outcomes told when it was. "
            f"{NOT_PROMISED}"
        )
    origin = "rows held out from the fit" if basis.kind == "holdout" else "outcomes reported after the fit"
    return (
        f"Of new rows like the {basis.rows} {origin}, at least {level:.4g} fall inside "
        f"these {noun} on average. {NOT_PROMISED}"
    )


def claim_of_subgroup(
    basis: Basis, level: float, name: str, rows: int, count: int, excess: float, *, exact: bool
) -> SubgroupClaim:
    """Return what intervals or sets of a level hold in a subgroup.

    Parameters
    ----------
    basis, level
        As for `claim_of`.
    name
        Name of the subgroup.
    rows, count
        Calibration rows in it, and how many of them count: rows, or groups.
    excess
        Largest share above the level that is to be expected.
    exact
        Whether the level is promised.

    """
    groups = basis.new_rows.groups
    by = f"{rows} rows" if groups is None else f"{count} values of {groups}"
    if not exact:
        text = f"{name}: about {level:.4g} inside, estimated from {by}."
        return SubgroupClaim(name, rows, None, None, text)
    most = min(level + excess, 1.0)
    text = f"{name}: at least {level:.4g} inside on average, at most {most:.2g} ({by})."
    if level + excess > 1:
        text += " So few may make intervals too wide, or infinite."
    return SubgroupClaim(name, rows, level, most, text)


def claim_of_totals(groups: str, count: int, level: float, *, exact: bool) -> str:
    """Say what intervals of totals, or means, of all rows of a group hold."""
    if not exact:
        return (
            f"Estimated: about {level:.4g} of the totals of new values of {groups} fall inside these "
            f"intervals, measured by fits without them ({count} values). {NO_GUARANTEE}"
        )
    return (
        f"Of the totals of new values of {groups}, at least {level:.4g} fall inside these intervals on "
        f"average, if they and their numbers of rows are like those of the {count} held out. Not promised: "
        "the same for some of a value's rows, for several values together, or for one value alone."
    )


def _of_new_groups(basis: Basis, level: float, noun: str, inside: NDArray[np.bool_]) -> str:
    groups, by_row = basis.new_rows.groups, ""
    if basis.new_rows.count == "groups":
        by_row = f" Counted by row rather than by group, {np.mean(inside):.2f} of these rows were inside."
    if basis.kind == "folds":
        return (
            f"Estimated: about {level:.4g} of the rows of a new value of {groups} fall inside these {noun}, "
            f"measured by fits without it ({basis.count} values). {NO_GUARANTEE}{by_row}"
        )
    if basis.since_change:
        return (
            f"Of the rows of a new value of {groups}, about {level:.4g} fall inside these {noun} on average "
            f"over values like the {basis.count} with outcomes since the change; no exact statement, since "
            f"the outcomes told when it was.{by_row}"
        )
    seen = "held out" if basis.kind == "holdout" else "with outcomes reported after the fit"
    return (
        f"Of the rows of a new value of {groups}, at least {level:.4g} fall inside these {noun} on average "
        f"over values like the {basis.count} {seen}. Not promised: the same within one value, or for all "
        f"its rows at once.{by_row}"
    )


def _of_later_rows(basis: Basis, noun: str, inside: NDArray[np.bool_]) -> str:
    groups, share = basis.new_rows.groups, f"{np.mean(inside):.2f}"
    of = "" if groups is None else f" of other values of {groups}"
    if basis.kind != "folds":
        return (
            f"Estimated from one later period: {share} of its rows{of} were inside these {noun}. "
            f"{NO_GUARANTEE} Other periods may differ by more than chance."
        )
    if groups is not None or basis.unit is None:
        return f"Estimated: in rehearsals {share} of later rows{of} were inside these {noun}. {NO_GUARANTEE}"
    by = np.bincount(basis.unit, inside) / np.bincount(basis.unit)
    return (
        f"Estimated: in {len(by)} {'rehearsal' if len(by) == 1 else 'rehearsals'} {share} of later rows were "
        f"inside these {noun}, from {by.min():.2f} to {by.max():.2f}. {NO_GUARANTEE} The next period is "
        f"below the lowest of {len(by)} about 1 time in {len(by) + 1}."
    )
