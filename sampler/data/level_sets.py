"""Rules "x in A" of categories: the sets of levels A by which trees may part a category's rows.

A rule of a category sends a set of its levels right (docs/maths.md#sets-of-levels). Each set is a coded
column of the trees, beside those of the features: 1 for the rows whose level is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Codes, Floats
from sampler.data.binning import MISSING
from sampler.data.schema import Column, Schema
from sampler.definitions.parts import PartFacts

NAME = "categories"  # of the part, and of the setting
SETS = "sets"
COMPLETE = 8  # levels up to which a category has every set
MOST_SETS = 127  # 2^7 - 1, the ways to part 8 levels


def ways_to_part(levels: int) -> NDArray[np.bool_]:
    """Choose sets of a category's levels, none the complement of another: bool [set, level].

    Up to `COMPLETE` levels these are all sets without the first level, else `MOST_SETS` of these drawn
    uniformly: bits of a hash, the same ones for every category of as many levels on every machine.
    """
    if levels <= COMPLETE:
        numbers = np.arange(1, 1 << levels - 1)[:, None]
        return np.pad(numbers >> np.arange(levels - 1) & 1, ((0, 0), (1, 0))).astype(bool)
    chosen: dict[bytes, NDArray[np.bool_]] = {}
    for number in count():
        blocks = range(-(-levels // 512))
        bits = b"".join(blake2b(b"%d %d %d" % (levels, number, block)).digest() for block in blocks)
        row = np.unpackbits(np.frombuffer(bits, np.uint8))[:levels].astype(bool)
        row ^= row[0]
        if row.any():
            chosen.setdefault(row.tobytes(), row)
        if len(chosen) == MOST_SETS:
            break
    return np.array([*chosen.values()])


@dataclass(frozen=True)
class SetsOfColumn:
    """Sets of one category's levels.

    Attributes
    ----------
    column
        Its position among the features.
    first
        Position of its first indicator among the coded columns.
    sides
        Whether a set has a level, bool [set, level]: missing is the last level where training had missing
        values.

    """

    column: int
    first: int
    sides: NDArray[np.bool_]

    @property
    def num_levels(self) -> int:
        """Number of levels, with that of missing values."""
        return int(self.sides.shape[1])

    def codes(self, codes: Codes) -> Codes:
        """Compute the columns of the sets, uint8 [set, row], from those of the features.

        A level that training had not is missing there: it goes to the side of a rule that its coin says.
        """
        own = codes[self.first : self.first + self.num_levels] == 1
        level = np.where(own.any(axis=0), own.argmax(axis=0), self.num_levels)
        of_level = np.pad(self.sides.astype(np.uint8), ((0, 0), (0, 1)), constant_values=MISSING)
        return of_level[:, level]


@dataclass(frozen=True)
class LevelSets(PartFacts):
    """Sets of the levels of all categories of more than two levels.

    Attributes
    ----------
    num_coded
        Number of coded columns of the features.
    columns
        The sets of each such category.

    """

    num_coded: int
    columns: tuple[SetsOfColumn, ...]

    @classmethod
    def of(cls, schema: Schema) -> Self | None:
        """Choose the sets of the categories of a schema; None without one of more than two levels."""
        found = [
            SetsOfColumn(place, first, ways_to_part(len(column.indicators)))
            for place, first, column in _of_levels(schema)
        ]
        return cls(len(schema.coded), tuple(found)) if found else None

    def coded_columns(self, num_features: int) -> list[int]:  # noqa: ARG002
        """Return the feature of each column that is added."""
        return np.repeat([own.column for own in self.columns], self.counts).tolist()

    @property
    def counts(self) -> list[int]:
        """Number of sets of each category."""
        return [len(own.sides) for own in self.columns]

    def add(self, codes: Codes) -> Codes:
        """Return the coded columns with those of the sets, which come last, uint8 [column, row]."""
        return np.concatenate([codes, *(own.codes(codes) for own in self.columns)])

    def with_sets(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Return coded columns of features with those of their sets."""
        ends = self.num_coded + np.cumsum([0, *self.counts])
        more = [
            place
            for own, start, stop in zip(self.columns, ends[:-1], ends[1:], strict=True)
            if own.first in positions
            for place in range(start, stop)
        ]
        return (*positions, *more)

    def shares(self) -> Floats:
        """Share of each column of the trees in rules, and running sums, float64 [2, column].

        All features have the same, as by Chipman, George and McCulloch (1998, section 2.1), and the sets of
        a category the same of its own; its indicators have none.
        """
        shares = np.ones(self.num_coded + sum(self.counts))
        for own in self.columns:
            shares[own.first : own.first + own.num_levels] = 0
        shares[self.num_coded :] = np.repeat(1 / np.array(self.counts), self.counts)
        shares /= shares.sum()
        return np.stack([shares, np.cumsum(shares)])

    def rule(self, position: int, schema: Schema) -> tuple[str, tuple[str | None, ...]]:
        """Return a column's feature, and the levels that its rule sends right (None: missing)."""
        ends = np.cumsum(self.counts)
        which = int(np.searchsorted(ends, position - self.num_coded, side="right"))
        own = self.columns[which]
        sides = own.sides[position - self.num_coded - int(ends[which]) + len(own.sides)]
        column = schema.columns[own.column]
        names = (name for name, inside in zip(column.indicators, sides, strict=True) if inside)
        return column.name, tuple(names)

    def to_json(self) -> list[list[str]]:
        """Return the sets of each category, each as the hexadecimal digits of its sides."""
        return [[np.packbits(side).tobytes().hex() for side in own.sides] for own in self.columns]

    @classmethod
    def from_json(cls, value: Any, schema: Schema, shape: tuple[int, ...]) -> LevelSets:  # noqa: ARG003
        """Read the sets that `to_json` wrote; raise ValueError for anything else."""
        found = []
        for own, (place, first, column) in zip(value, _of_levels(schema), strict=True):
            width = len(column.indicators)
            packed = np.array([np.frombuffer(bytes.fromhex(side), np.uint8) for side in own])
            if packed.ndim != 2 or packed.shape[1] != -(-width // 8) or not 0 < len(packed) <= MOST_SETS:
                raise ValueError(f"the sets of column {column.name!r} don't fit its levels")
            sides = np.unpackbits(packed, axis=1, count=width).astype(bool)
            if not np.all(sides.any(axis=1) & ~sides.all(axis=1)):
                raise ValueError(f"a set of column {column.name!r} has all levels, or none")
            found.append(SetsOfColumn(place, first, sides))
        if not found:
            raise ValueError("there are sets of levels without a category")
        return cls(len(schema.coded), tuple(found))


def _of_levels(schema: Schema) -> list[tuple[int, int, Column]]:
    """List the categories of more than two levels: position, first coded column, column."""
    found, first = [], 0
    for place, column in enumerate(schema.columns):
        if len(column.indicators) > 2:
            found.append((place, first, column))
        first += len(column.indicators)
    return found
