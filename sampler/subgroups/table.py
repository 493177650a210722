"""Ends of calibrated intervals by the subgroups of a row, found for each kind of row before it is served."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, ndtri

from sampler.array_types import Floats, Words
from sampler.data.target import MAX_CLASSES
from sampler.errors import SettingsError
from sampler.subgroups.declaration import MOST, Subgroup, out_of_range
from sampler.subgroups.membership import MOST_BITS, Membership
from sampler.subgroups.quantiles import ScoredRows, independent_columns, threshold

MAX_ROWS = 4_000  # kept of the calibration rows: each cell and level takes a linear programme
MOST_CELLS = 200
LEAST_P = 1e-12  # of a tail or a class; beyond, an end is infinite and a set has every class
FARTHEST_Z = float(-ndtri(LEAST_P))
NEAREST = 1e-6  # distance from the median that counts as none, in standard deviations


@dataclass(frozen=True)
class Weighed:
    """Scores as `ConformalTable` has them, ascending, with what each counts.

    Attributes
    ----------
    scores, weights
        float64 [row].
    new
        Weight of the new row.
    of_classes
        Whether scores are probabilities of classes.

    """

    scores: Floats
    weights: Floats
    new: float
    of_classes: bool


@dataclass(frozen=True)
class SubgroupTable:
    """Subgroups of calibration rows, and the ends that hold in each of them.

    Attributes
    ----------
    subgroups
        The subgroups.
    cells
        uint64 [cell], ascending: the subgroups of each kind of row that was observed, as bits.
    cell
        uint16 [row], the cell of each calibration row.
    two_sided
        Whether each tail has its own share.
    own
        int32 [row], the class of each calibration row where each class counts by itself; else None.
    ends
        By level, float64 [cell, 2], the probabilities of the quantiles that are the ends; of classes the
        least probability in a set, float64 [cell, 1], or [cell, class] where each counts by itself.
    labels
        Names of the classes, where each counts by itself.

    """

    subgroups: tuple[Subgroup, ...]
    cells: Words
    cell: NDArray[np.uint16]
    two_sided: bool = False
    own: NDArray[np.int32] | None = None
    ends: Mapping[float, Floats] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    _others: dict[tuple[float, int], Floats] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, members: Membership, *, two_sided: bool) -> SubgroupTable:
        """Arrange the subgroups of calibration rows; raise SettingsError for too many."""
        cells, cell = np.unique(members.bits, return_inverse=True)
        if len(cells) > MOST_CELLS:
            raise out_of_range(
                f"{len(cells)} combinations of them are there, and {MOST_CELLS} are the most: name fewer"
            )
        labels = () if members.own is None else members.labels
        table = cls(members.subgroups, cells, cell.astype(np.uint16), two_sided, members.own, labels=labels)
        if table.dimension > MOST + 1:
            raise out_of_range(
                f"{table.dimension - 1} are independent of each other, and {MOST} are the most: name fewer, "
                "or join levels by where"
            )
        return table

    def to_json(self) -> dict[str, Any]:
        """Return the table without what it has by row as JSON values."""
        return {
            "groups": [each.to_json() for each in self.subgroups],
            "cells": self.cells.tolist(),
            "two_sided": self.two_sided,
            "by_class": self.own is not None,
            **({"labels": list(self.labels)} if self.labels else {}),
            "ends": [[level, ends.tolist()] for level, ends in self.ends.items()],
        }

    @property
    def arrays(self) -> list[bytes]:
        """Arrays with an entry by row: cells, uint16, and classes, int32, where each counts by itself."""
        own = [] if self.own is None else [self.own.astype("<i4").tobytes()]
        return [self.cell.astype("<u2").tobytes(), *own]

    @classmethod
    def read(cls, values: Mapping[str, Any], rows: int, data: bytes) -> tuple[bytes, SubgroupTable]:
        """Read what `to_json` returned, with `arrays` of so many rows at the end of some bytes.

        Returns the bytes before them too; raises ValueError for anything else.
        """
        try:
            subgroups = tuple(map(Subgroup.read, values["groups"]))
        except SettingsError as error:
            raise ValueError(str(error)) from None
        own = None
        if rows > MAX_ROWS or rows * (6 if values["by_class"] is True else 2) > len(data):
            raise ValueError("its subgroups' arrays don't have the sizes it states")
        if values["by_class"] is True:
            data, classes = data[: -rows * 4], data[-rows * 4 :]
            own = np.frombuffer(classes, "<i4").astype(np.int32)
        cell = np.frombuffer(data[-rows * 2 :], "<u2").astype(np.uint16)
        ends = {float(level): np.array(each, np.float64) for level, each in values["ends"]}
        cells = np.array(values["cells"], np.uint64)
        labels = tuple(map(str, values.get("labels", ())))
        table = cls(subgroups, cells, cell, values["two_sided"] is True, own, ends, labels)
        if not table._fits():
            raise ValueError("the subgroups of its calibration rows don't fit together")
        return data[: -rows * 2], table

    def check_ends(self, *, of_classes: bool) -> None:
        """Raise ValueError where ends are not those of such outcomes."""
        width = self.num_classes if of_classes else 2
        if any(ends.shape[1] != width for ends in self.ends.values()):
            raise ValueError("the ends of its subgroups are not those of its outcomes")

    def _fits(self) -> bool:
        count = len(self.cells)
        return (
            0 < count <= MOST_CELLS
            and len(self.subgroups) <= MOST_BITS
            and bool(np.all(self.cells[1:] > self.cells[:-1]))
            and int(self.cell.max()) < count
            and (self.own is None or 0 <= int(self.own.min()) <= int(self.own.max()) <= MAX_CLASSES)
            and all(
                each.ndim == 2 and len(each) == count and bool(np.all((each >= 0) & (each <= 1)))
                for each in self.ends.values()
            )
        )

    @cached_property
    def indicators(self) -> Floats:
        """Indicators of the cells, float64 [cell, 1 + subgroup]; the first is 1."""
        return self._indicators_of(self.cells)

    @cached_property
    def dimension(self) -> int:
        """Number of independent indicators, with the one of all rows: d."""
        return len(independent_columns(self.indicators))

    def named_parts(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """Return the names of subgroups and classes, and which calibration rows are in each, bool [row]."""
        inside = self.indicators[self.cell] == 1
        named = [(subgroup.name, inside[:, 1 + j]) for j, subgroup in enumerate(self.subgroups)]
        return named + [(f"class {label}", self.own == k) for k, label in enumerate(self.labels)]

    def solved(
        self, weighed: Weighed, levels: Sequence[float], before: Callable[[], None] = lambda: None
    ) -> SubgroupTable:
        """Return the table with the ends of all cells at some levels; `before` is called before each cell."""
        ends: dict[float, Floats] = {}
        for level in levels:
            rows = []
            for cell in range(len(self.cells)):
                before()
                rows.append(self._ends_of(weighed, level, self.indicators[cell]))
            ends[level] = np.array(rows)
        return replace(self, ends=ends, _others={})

    def unsolved(self, levels: Sequence[float], bits: Words) -> int:
        """Count the linear programmes that ends of levels, of rows with these subgroups, still take."""
        strange = np.setdiff1d(bits, self.cells).tolist()
        known = {*self.ends, *(level for level, cell in [*self._others] if cell == -1)}
        of_levels = [] if self._is_partition else [each for each in levels if each not in known]
        others = sum((level, each) not in self._others for level in levels for each in strange)
        return len(of_levels) * len(self.cells) + min(others, MOST_CELLS)

    def at(self, weighed: Weighed, level: float) -> CellEnds:
        """Return the ends of a level, of all cells."""
        known = self.ends.get(level)
        if known is None:
            known = self._solved_again(weighed, level)

        def find(bits: int) -> Floats:
            key = (level, bits)
            if key not in self._others:
                if len(self._others) >= MOST_CELLS:
                    return endless(known.shape[1], weighed.of_classes)
                indicators = self._indicators_of(np.array([bits], np.uint64))[0]
                self._others[key] = self._ends_of(weighed, level, indicators)
            return self._others[key]

        return CellEnds(self.subgroups, self.cells, known, weighed.of_classes, find)

    @cached_property
    def _is_partition(self) -> bool:
        return self.dimension == len(self.cells)

    @property
    def num_classes(self) -> int:
        """Number of classes that count by themselves; 1 where they don't."""
        return 1 if self.own is None else int(self.own.max()) + 1

    def _solved_again(self, weighed: Weighed, level: float) -> Floats:
        """Solve a level that is not stored, once in a process."""
        key = (level, -1)
        if key not in self._others:
            if len(self._others) >= 2 * MOST_CELLS:  # of many levels
                self._others.clear()
            self._others[key] = self.solved(weighed, [level]).ends[level]
        return self._others[key]

    def _indicators_of(self, bits: Words) -> Floats:
        each = (bits[:, None] >> np.arange(len(self.subgroups), dtype=np.uint64)) & np.uint64(1)
        return np.concatenate([np.ones((len(bits), 1)), each.astype(np.float64)], axis=1)

    def _ends_of(self, weighed: Weighed, level: float, wanted: Floats) -> Floats:
        """Return the ends of a row with these indicators."""
        scores, everything = weighed.scores, np.ones(len(weighed.scores), bool)
        if weighed.of_classes:
            parts = [everything] if self.own is None else [self.own == k for k in range(self.num_classes)]
            return np.array([self._least(weighed, level, wanted, part) for part in parts])
        if self._is_partition:  # ranks, which no scale changes
            if self.two_sided:
                share = (1 + level) / 2
                high = self._threshold(weighed, scores, wanted, share)
                low = -self._threshold(weighed, -scores, wanted, share)
                return np.array([max(low, 0.0), min(high, 1.0)])
            away = min(self._threshold(weighed, np.abs(scores - 0.5), wanted, level), 0.5)
            return np.array([0.5 - away, 0.5 + away])
        z = np.clip(ndtri(scores), -FARTHEST_Z, FARTHEST_Z)
        if self.two_sided:
            share = (1 + level) / 2
            high = self._threshold(weighed, z, wanted, share)
            low = -self._threshold(weighed, -z, wanted, share)
        else:
            size = np.log(np.maximum(np.abs(z), NEAREST))
            high = math.exp(min(self._threshold(weighed, size, wanted, level), FARTHEST_Z))
            low = -high
        return np.array(
            [
                0.0 if low <= -FARTHEST_Z else ndtr(low),
                1.0 if high >= FARTHEST_Z else ndtr(high),
            ]
        )

    def _least(self, weighed: Weighed, level: float, wanted: Floats, part: NDArray[np.bool_]) -> float:
        """Return the least probability of a class in a set, by some of the rows."""
        if self._is_partition:
            return max(-self._threshold(weighed, -weighed.scores, wanted, level, part), 0.0)
        size = -logit(np.clip(weighed.scores, LEAST_P, 1 - LEAST_P))
        most = self._threshold(weighed, size, wanted, level, part)
        return 0.0 if most >= -logit(LEAST_P) else float(expit(-most))

    def _threshold(
        self,
        weighed: Weighed,
        scores: Floats,
        wanted: Floats,
        share: float,
        part: NDArray[np.bool_] | None = None,
    ) -> float:
        rows = slice(None) if part is None else np.flatnonzero(part)
        observed, cell = np.unique(self.cell[rows], return_inverse=True)
        scored = ScoredRows(scores[rows], weighed.weights[rows], cell, self.indicators[observed])
        return threshold(scored, wanted, share, weighed.new)


@dataclass(frozen=True)
class CellEnds:
    """Ends of one level by the subgroups of a row.

    Attributes
    ----------
    subgroups
        The subgroups, or their definitions alone.
    cells
        uint64 [cell], ascending.
    ends
        float64 [cell, end], as `SubgroupTable.ends` has them.
    of_classes
        Whether they are the least probabilities in sets.
    find
        Returns the ends of a cell that was not observed, given its bits; None for infinite ones.

    """

    subgroups: tuple[Subgroup, ...]
    cells: Words
    ends: Floats
    of_classes: bool
    find: Callable[[int], Floats] | None = field(default=None, repr=False, compare=False)

    def of_rows(self, bits: Words) -> Floats:
        """Look up the ends of rows, float64 [row, end]."""
        place = np.minimum(np.searchsorted(self.cells, bits), len(self.cells) - 1)
        ends = self.ends[place]
        strange = np.flatnonzero(self.cells[place] != bits)
        for each in np.unique(bits[strange]).tolist():
            found = endless(self.ends.shape[1], self.of_classes) if self.find is None else self.find(each)
            ends[strange[bits[strange] == each]] = found
        return ends

    def to_json(self) -> dict[str, Any]:
        """Return JSON values that `from_json` reads, with the ends of the cells that were observed."""
        return {
            "subgroups": [each.to_json() for each in self.subgroups],
            "cells": self.cells.tolist(),
            "ends": self.ends.tolist(),
            "of_classes": self.of_classes,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CellEnds:
        """Read what `to_json` returned."""
        subgroups = tuple(map(Subgroup.read, values["subgroups"]))
        cells = np.array(values["cells"], np.uint64)
        return cls(subgroups, cells, np.array(values["ends"], np.float64), bool(values["of_classes"]))


def endless(count: int, of_classes: bool) -> Floats:
    """Return ends that leave nothing out."""
    return np.zeros(count) if of_classes else np.array([0.0, 1.0])
