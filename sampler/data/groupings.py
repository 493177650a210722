"""Columns of groups: levels whose rows share an intercept, and slopes (docs/maths.md#groups)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.columns import sort_levels
from sampler.data.convert import NAMED_CELLS, to_labels
from sampler.data.linear_terms import NO_TERMS, LinearTerms
from sampler.data.schema import Column, Schema
from sampler.data.table import RawColumn, Table
from sampler.definitions.pairs import Combination
from sampler.definitions.parts import PartFacts
from sampler.errors import DataError, DataProblem, SettingsError, suggestion
from sampler.pairs import refusals_of
from sampler.settings import Settings

FOREST = "groups"  # name of the forest of stored draws that has a tree of one leaf for each group
MOST_COLUMNS = 4
MOST_GROUPS = 20_000  # in all columns together: a draw keeps a number for each group
MOST_SLOPES = 4


@dataclass(frozen=True)
class Groupings(PartFacts):
    """Facts of a model's columns of groups besides their levels, which are in its schema.

    Attributes
    ----------
    scales
        Scale of the half-Cauchy prior of each column's standard deviation, in units of what is learnt.
    rows
        Training rows of each group, for each column.
    reference
        Group of each reference row, for each column.
    slopes
        The terms whose slopes differ by group.

    """

    scales: tuple[float, ...]
    rows: tuple[tuple[int, ...], ...]
    reference: tuple[tuple[int, ...], ...]
    slopes: LinearTerms = NO_TERMS

    @property
    def num_slopes(self) -> int:
        """Slopes of each group."""
        return len(self.slopes.column)

    @classmethod
    def of(
        cls,
        columns: Sequence[Column],
        index: NDArray[np.int32],
        scale: float,
        reference: NDArray[np.int64],
        slopes: LinearTerms = NO_TERMS,
    ) -> Groupings:
        """Note the facts of training rows in groups `index`, int32 [column, row]; `reference` names rows."""
        rows = [np.bincount(own, minlength=len(c.levels)) for own, c in zip(index, columns, strict=True)]
        return cls(
            (scale,) * len(columns),
            tuple(tuple(counts.tolist()) for counts in rows),
            tuple(tuple(own[reference].tolist()) for own in index),
            slopes,
        )

    @property
    def needs_values(self) -> bool:
        """Whether predictions need rows' values before binning: for slopes."""
        return bool(self.num_slopes)

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads exactly."""
        return {
            "scales": list(self.scales),
            "rows": [list(counts) for counts in self.rows],
            "reference": [list(places) for places in self.reference],
            **({"slopes": self.slopes.to_json()} if self.num_slopes else {}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], schema: Schema, shape: tuple[int, ...]) -> Groupings:
        """Read the groupings of a model with those columns, and reference rows of a shape [column, row].

        Raises ValueError, KeyError or TypeError.
        """
        columns = schema.groups
        groupings = cls(
            slopes=LinearTerms.from_json(stored["slopes"], schema, shape) if "slopes" in stored else NO_TERMS,
            scales=tuple(float(scale) for scale in stored["scales"]),
            rows=tuple(tuple(counts) for counts in stored["rows"]),
            reference=tuple(tuple(places) for places in stored["reference"]),
        )
        sizes = [len(column.levels) for column in columns]
        if not 0 < len(columns) <= MOST_COLUMNS or sum(sizes) > MOST_GROUPS or 0 in sizes:
            raise ValueError("it has too many groups, or none")
        if [len(counts) for counts in groupings.rows] != sizes or len(groupings.scales) != len(columns):
            raise ValueError("the figures of its groups don't fit its columns of groups")
        if [len(places) for places in groupings.reference] != [shape[1]] * len(columns):
            raise ValueError("the groups of its reference rows don't fit them")
        whole = [count for counts in groupings.rows for count in counts]
        if not all(type(count) is int and 0 <= count < 2**63 for count in whole):
            raise ValueError("its numbers of rows by group are invalid")
        for places, size in zip(groupings.reference, sizes, strict=True):
            if not all(type(place) is int and 0 <= place < size for place in places):
                raise ValueError("its reference rows have groups that don't exist")
        if groupings.num_slopes > MOST_SLOPES or any(groupings.slopes.missing):
            raise ValueError("the slopes of its groups are not those of any fit")
        if not all(0 < scale < 1e150 for scale in groupings.scales):
            raise ValueError("the scales of its groups are out of range")
        return groupings

    def at_reference(self) -> dict[str, Any]:
        """Return the groups of the reference rows, int32 [column, row]."""
        return {"groups": np.array(self.reference, np.int32).reshape(len(self.reference), -1)}


def scalar_names(number: int, num_slopes: int = 0) -> tuple[str, ...]:
    """Name the scalars of a draw that tell how the groups of a column differ.

    They are the standard deviations of intercepts and slopes, and the partial correlations of each slope with
    the intercept and the slopes before it.
    """
    sd = f"group_sd_{number}"
    partial = f"group_partial_{number}"
    return (
        sd,
        *(f"{sd}_{i}" for i in range(1, num_slopes + 1)),
        *(f"{partial}_{i}_{j}" for i in range(1, num_slopes + 1) for j in range(i)),
    )


def all_scalars(count: int, num_slopes: int = 0) -> tuple[str, ...]:
    """Name these scalars of that many columns of groups."""
    return tuple(name for k in range(count) for name in scalar_names(k, num_slopes))


def group_names(groups: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of columns of groups; raise SettingsError for too many, and for one named twice."""
    return _names(groups, "groups", MOST_COLUMNS)


def slope_columns(slopes: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the columns whose slopes differ by group; raise SettingsError."""
    return _names(slopes, "slopes", MOST_SLOPES)


def _names(columns: str | Sequence[str] | None, field: str, most: int) -> tuple[str, ...]:
    names = () if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(isinstance(name, str) for name in names):
        message = f"{field} must be names of columns, not {columns!r}"
        raise SettingsError(message, field=field, code="not_accepted")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"{field} names {twice!r} twice"
        raise SettingsError(message, field=field, code="not_accepted")
    if len(names) > most:
        message = f"{field} has {len(names)} columns; at most {most} are taken"
        raise SettingsError(message, field=field, code="too_large")
    return names


def may_group(settings: Settings) -> bool:
    """Tell whether a fit with such settings may have columns of groups."""
    alone = Combination(asdict(settings))
    return [*refusals_of(alone.but({"groups": ("any",)}))] == [*refusals_of(alone)]


def check_names(
    names: Sequence[str],
    known: Sequence[str],
    taken: Mapping[str, str | None],
    features: Sequence[str] | None,
) -> None:
    """Raise SettingsError for columns of groups that the table doesn't have, or that have another role.

    `taken` has the name of the column of each other role: ``{"target": "y"}``.
    """
    for name in names:
        if name not in known:
            message = f"groups names {name!r}, which the table doesn't have{suggestion(name, known)}"
            raise SettingsError(message, field="groups", code="unknown")
        role = next((role for role, column in taken.items() if column == name), None)
        if role is not None:
            message = f"groups: {name!r} is the {role} already"
            raise SettingsError(message, field="groups", code="contradiction")
        if features is not None and name in features:
            message = f"groups: {name!r} is among the features too: name it in one of the two"
            raise SettingsError(message, field="groups", code="contradiction")


def read_groups(columns: Sequence[RawColumn]) -> tuple[tuple[Column, ...], NDArray[np.int32]]:
    """Read the columns of groups of the training rows.

    Returns
    -------
    tuple
        The columns with their levels, sorted, and the level of each row, int32 [column, row].

    Raises
    ------
    DataError
        For rows without a group, values that can't be levels, and too many groups.

    """
    problems: list[DataProblem] = []
    columns_read: list[Column] = []
    index = np.zeros((len(columns), len(columns[0]) if columns else 0), np.int32)
    for raw, places in zip(columns, index, strict=True):
        before = len(problems)
        labels = to_labels(raw, problems)
        if len(problems) > before:
            continue
        missing = np.flatnonzero(labels.index < 0)
        message = "the group is missing: give such rows a group of their own, or leave them out"
        problems += [DataProblem(raw.name, int(row) + 1, message) for row in missing[:NAMED_CELLS]]
        if len(missing) > NAMED_CELLS:
            more = len(missing) - NAMED_CELLS
            problems.append(DataProblem.further(raw.name, more, "rows without a group"))
        levels = sort_levels(labels.names)
        place = {level: k for k, level in enumerate(levels)}
        if len(levels) and not len(missing):
            places[:] = np.array([place[name] for name in labels.names], np.int32)[labels.index]
        columns_read.append(Column(raw.name, "category", levels))
    total = sum(len(column.levels) for column in columns_read)
    if total > MOST_GROUPS:
        names = ", ".join(column.name for column in columns_read)
        problems.append(
            DataProblem(
                columns_read[0].name, None, f"{total} groups ({names}) are too many: at most {MOST_GROUPS}"
            )
        )
    if problems:
        raise DataError(problems)
    return tuple(columns_read), index


def columns_of(table: Table, names: Sequence[str]) -> list[RawColumn]:
    """Take columns from a table."""
    return [table.column(name) for name in names]
