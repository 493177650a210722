"""Table by which intervals and prediction sets are calibrated: the scores of rows the fit has not seen.

It is stored in a model's header; docs/maths.md#calibrated-intervals has the formulas and what they promise.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.definitions.new_rows import LIKE_TRAINING, NewRows
from sampler.errors import SettingsError
from sampler.storage.calibration_size import (
    MAX_ROWS,
    TWO_SIDED_ROWS,
    USUAL_LEVEL,
    kept_rows,
    kept_rows_of,
    rank_of,
    ranks_of_ends,
    rows_needed,
)
from sampler.storage.coverage_claims import (
    ABOUT_SUBGROUPS,
    IN_SUBGROUPS,
    Basis,
    SubgroupClaim,
    claim_of,
    claim_of_subgroup,
    claim_of_totals,
)
from sampler.subgroups.membership import Membership, check_sizes, parts_of
from sampler.subgroups.table import MAX_ROWS as MAX_ROWS_OF_SUBGROUPS
from sampler.subgroups.table import CellEnds, SubgroupTable, Weighed

Tails = Mapping[float, tuple[float, float]]

CalibrationKind = Literal["holdout", "folds", "outcomes"]
KINDS: tuple[CalibrationKind, ...] = ("holdout", "folds", "outcomes")
MAX_TOTALS = 2_000  # kept of totals of groups
SUMMARY_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class CalibratedLevel:
    """Intervals or prediction sets of one level: how they are made, and what may be claimed of them.

    Attributes
    ----------
    level
        The level asked for.
    rows
        Number of calibration rows.
    at_least
        Expected share of new outcomes inside, at least; None where there is an estimate only.
    text
        The same in words.
    ends
        Numbers: probabilities of the predictive quantiles that are the ends, 0 and 1 for infinite ones.
    least_probability
        Classes: the smallest probability of a class in a set.
    cells
        In place of these two, of a calibration in named subgroups: the same by the subgroups of a row.
    subgroups
        What may be claimed of each subgroup.

    """

    level: float
    rows: int
    at_least: float | None
    text: str
    ends: tuple[float, float] | None = None
    least_probability: float | None = None
    cells: CellEnds | None = field(default=None, repr=False, compare=False)
    subgroups: tuple[SubgroupClaim, ...] = ()

    @property
    def claim(self) -> dict[str, Any]:
        """The claim as JSON values."""
        claim = {"level": self.level, "rows": self.rows, "at_least": self.at_least, "text": self.text}
        return claim | ({"subgroups": [each._asdict() for each in self.subgroups]} if self.subgroups else {})

    def to_json(self) -> dict[str, Any]:
        """Return JSON values that `from_json` reads."""
        ends = {"ends": None if self.ends is None else list(self.ends)}
        cells = {} if self.cells is None else {"cells": self.cells.to_json()}
        return self.claim | ends | {"least_probability": self.least_probability} | cells

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CalibratedLevel:
        """Read what `to_json` returned."""
        ends, cells = values["ends"], values.get("cells")
        read = {
            "ends": None if ends is None else (float(ends[0]), float(ends[1])),
            "cells": None if cells is None else CellEnds.from_json(cells),
            "subgroups": tuple(SubgroupClaim(**each) for each in values.get("subgroups", ())),
        }
        return cls(**dict(values) | read)


@dataclass(frozen=True)
class ConformalTable:
    """Scores of calibration rows (Vovk, Gammerman and Shafer 2005).

    Attributes
    ----------
    kind
        Origin of the rows: held out from the fit ("holdout"), the training rows, each scored by a fit to the
        other folds ("folds"), or rows whose outcomes became known after the fit ("outcomes").
    draws
        Draws per chain of the model whose predictions are calibrated.
    scores
        float64 [row], ascending: the predictive probability of values below the outcome; of classes the
        probability of the row's own class.
    of_classes
        Whether the outcomes are classes.
    since_change
        Whether the rows are outcomes since a week that outcomes themselves chose, in an alarm: no claim is
        exact then.
    new_rows
        How new rows were declared to differ.
    unit
        int32 [row], the group of each score, or its period where new rows are later; None for rows like the
        training rows. Groups count once each, whatever their rows (hierarchical conformal prediction: Lee,
        Barber and Willett 2023, arXiv 2306.06342).
    subgroups
        Named subgroups in each of which intervals hold; None without any.
    totals
        Ascending probabilities, one for each of up to `MAX_TOTALS` groups, of totals of its rows' outcomes
        below the one observed; empty where new rows aren't of other groups, or outcomes have no total.
    tails
        Shares of the lower and upper tail by level, as reported outcomes moved them: only these levels are
        answered then. At most 0 is no end. None: half of what a level leaves out, of any level.

    """

    kind: CalibrationKind
    draws: int
    scores: Floats
    of_classes: bool
    since_change: bool = False
    new_rows: NewRows = LIKE_TRAINING
    unit: NDArray[np.int32] | None = None
    subgroups: SubgroupTable | None = None
    totals: tuple[float, ...] = ()
    tails: Tails | None = None

    @classmethod
    def of(
        cls,
        kind: CalibrationKind,
        draws: int,
        scores: Floats,
        *,
        of_classes: bool,
        since_change: bool = False,
        new_rows: NewRows = LIKE_TRAINING,
        unit: NDArray[np.int32] | None = None,
        members: Membership | None = None,
        totals: Floats | None = None,
        levels: Sequence[float] = SUMMARY_LEVELS,
        before: Callable[[], None] = lambda: None,
    ) -> ConformalTable:
        """Make a table of at most `MAX_ROWS` of the scores, evenly spaced in the order of the rows.

        Of groups that are as many rows of each. With `members`, the subgroups of the rows, fewer are kept,
        and the ends of some levels are found at once, which may take seconds; `before` is called before each.

        Returns
        -------
        ConformalTable
            The table.

        Raises
        ------
        SettingsError
            For no rows, and for subgroups with too few.

        """
        if not len(scores):
            raise SettingsError("there are no rows to calibrate by", field="calibrate", code="out_of_range")
        scores = np.asarray(scores, np.float64)
        most = MAX_ROWS if members is None else MAX_ROWS_OF_SUBGROUPS
        kept = kept_rows(len(scores), most) if unit is None else kept_rows_of(unit, most)
        order = kept[np.argsort(scores[kept], kind="stable")]
        units = None if unit is None else np.unique(unit[order], return_inverse=True)[1].astype(np.int32)
        of_totals = np.zeros(0) if totals is None else np.sort(totals[kept_rows(len(totals), MAX_TOTALS)])
        table = cls(
            kind,
            draws,
            scores[order],
            of_classes,
            since_change,
            new_rows,
            units,
            totals=tuple(of_totals.tolist()),
        )
        return table if members is None else table._in_subgroups(members.take(order), levels, before)

    def _in_subgroups(
        self, members: Membership, levels: Sequence[float], before: Callable[[], None]
    ) -> ConformalTable:
        """Return the table with the subgroups of its rows, and the ends of some levels."""
        unit = self.unit if self._weights is not None else None
        check_sizes(members, rows_needed(USUAL_LEVEL), unit)
        sizes = [self._count_of(inside) for inside in parts_of(members)]
        sizes += [self.count - size for size in sizes if size < self.count]
        two_sided = not self.of_classes and min([self.count, *sizes]) >= TWO_SIDED_ROWS
        grouped = SubgroupTable.of(members, two_sided=two_sided)
        possible = [level for level in levels if rows_needed(level) <= self.count]
        return replace(self, subgroups=grouped.solved(self._weighed, possible, before))

    def _count_of(self, inside: NDArray[np.bool_]) -> int:
        """Count the rows, or the groups with rows, among some."""
        if self._weights is None or self.unit is None:
            return int(np.count_nonzero(inside))
        return len(np.unique(self.unit[inside]))

    @property
    def _weighed(self) -> Weighed:
        weights, new = self._weights, 1.0
        if weights is not None and self.new_rows.count == "rows":
            weights, new = None, float(self.unit_sizes.max())
        return Weighed(self.scores, np.ones(self.rows) if weights is None else weights, new, self.of_classes)

    @property
    def rows(self) -> int:
        """Number of calibration rows."""
        return len(self.scores)

    @property
    def count(self) -> int:
        """Number of what counts once: rows, or groups where new rows are of other ones."""
        return self.rows if self._weights is None else int(self.unit_sizes.size)

    @property
    def noun(self) -> str:
        """Name of the things that count once, in the plural."""
        return "calibration rows" if self._weights is None else f"values of {self.new_rows.groups}"

    @property
    def unit_sizes(self) -> NDArray[np.int64]:
        """Number of calibration rows of each group or period, int64 [unit]."""
        assert self.unit is not None
        return np.bincount(self.unit)

    @property
    def _weights(self) -> Floats | None:
        """Weight of each score where groups count once each, float64 [row]; None where rows do."""
        if self.unit is None or self.new_rows.groups is None:
            return None
        return 1.0 / self.unit_sizes[self.unit]

    def num_programmes(self, levels: Sequence[float], bits: NDArray[np.uint64] | None = None) -> int:
        """Count the linear programmes that these levels, of rows with these subgroups, still take."""
        rows = np.zeros(0, np.uint64) if bits is None else bits
        return 0 if self.subgroups is None else self.subgroups.unsolved(levels, rows)

    def at(self, level: float) -> CalibratedLevel:
        """Return how intervals or sets of a level are made, and their claim.

        Raises
        ------
        SettingsError
            For a level that needs more calibration rows, or that isn't adapted to outcomes where some are.

        """
        if self.tails is not None and level not in self.tails:
            raise SettingsError(
                f"level {level:g} is not among those adapted to outcomes each week: use one of "
                f"{', '.join(f'{each:g}' for each in self.tails)}",
                field="level",
                code="out_of_range",
            )
        if self.tails is None and rank_of(self.count, level) > self.count:
            raise SettingsError(
                f"level {level:g} takes at least {rows_needed(level)} {self.noun}, and there are "
                f"{self.count}",
                field="level",
                code="out_of_range",
            )
        exact = self.kind != "folds" and not self.since_change and self.new_rows.later is None
        made, cells, inside = self._made(level)
        basis = Basis(
            kind=self.kind,
            rows=self.rows,
            count=self.count,
            of_classes=self.of_classes,
            since_change=self.since_change,
            new_rows=self.new_rows,
            unit=self.unit,
        )
        if self.tails is not None:
            once = (
                "" if self._weights is None else f" (each value of {self.new_rows.groups} counts once a week)"
            )
            text = (
                f"Adapted each week to reported outcomes, the newest {self.rows} scores: over a long time at "
                f"most {1 - level:.3g} of reported outcomes are outside{once}, whatever the data."
            )
            return CalibratedLevel(level, self.rows, None, text, *made)
        text = claim_of(basis, level, inside)
        of_all = CalibratedLevel(level, self.rows, level if exact else None, text, *made)
        if self.subgroups is None:
            return of_all
        text += f" {IN_SUBGROUPS if exact else ABOUT_SUBGROUPS}"
        claims = self._claims_of_subgroups(self.subgroups, basis, level, exact=exact)
        return replace(of_all, text=text, cells=cells, subgroups=claims)

    def of_totals(self, level: float) -> tuple[tuple[float, float], str]:
        """Return the probabilities of the ends of intervals of totals of a group, and their claim.

        Raises
        ------
        SettingsError
            For a level that needs more groups.

        """
        alone = ConformalTable(self.kind, self.draws, np.array(self.totals), of_classes=False)
        if rank_of(alone.rows, level) > alone.rows:
            raise SettingsError(
                f"level {level:g} of totals takes at least {rows_needed(level)} values of "
                f"{self.new_rows.groups}, and there are {alone.rows}",
                field="level",
                code="out_of_range",
            )
        ends, _ = alone._ends_of_rows(level)
        assert ends is not None
        exact = self.kind == "holdout"
        return ends, claim_of_totals(str(self.new_rows.groups), alone.rows, level, exact=exact)

    def _made(
        self, level: float
    ) -> tuple[tuple[tuple[float, float] | None, float | None], CellEnds | None, NDArray[np.bool_]]:
        """Return the ends, those by subgroup in their place, and which calibration rows are inside."""
        if self.subgroups is not None:
            cells = self.subgroups.at(self._weighed, level)
            ends = cells.ends[self.subgroups.cell]
            if not self.of_classes:
                return (None, None), cells, (self.scores >= ends[:, 0]) & (self.scores <= ends[:, 1])
            own = np.zeros(self.rows, np.int32) if self.subgroups.own is None else self.subgroups.own
            return (None, None), cells, self.scores >= ends[np.arange(self.rows), own]
        by_weights = self._ends_of_rows if self._weights is None else self._ends_of_groups
        made = by_weights(level) if self.tails is None else (self._moved_ends(*self.tails[level]), None)
        return made, None, self._inside(*made)

    def _moved_ends(self, below: float, above: float) -> tuple[float, float]:
        """Return the ends that leave out shares of the tails, of at most one half; at most 0 for no end."""
        weights = np.ones(self.rows) if self._weights is None else self._weights
        first, last = (
            int(np.count_nonzero(np.cumsum(each) <= (self.count + 1) * min(share, 0.5) + 1e-9))
            for each, share in ((weights, below), (weights[::-1], above))
        )
        return (
            float(self.scores[first - 1]) if first else 0.0,
            float(self.scores[self.rows - last]) if last else 1.0,
        )

    def _claims_of_subgroups(
        self, grouped: SubgroupTable, basis: Basis, level: float, *, exact: bool
    ) -> tuple[SubgroupClaim, ...]:
        sides = 2 if grouped.two_sided else grouped.num_classes
        claims = []
        for name, inside in grouped.named_parts():
            count = self._count_of(inside)
            alone = exact and (self._weights is None or self._is_of_whole_units(inside))
            excess = sides * grouped.dimension * self.count / ((self.count + 1) * count) if count else 1.0
            claims.append(
                claim_of_subgroup(
                    basis, level, name, int(np.count_nonzero(inside)), count, excess, exact=alone
                )
            )
        return tuple(claims)

    def _is_of_whole_units(self, inside: NDArray[np.bool_]) -> bool:
        sizes = np.bincount(self.unit[inside], minlength=self.count) if self.unit is not None else None
        return sizes is not None and bool(np.all((sizes == 0) | (sizes == self.unit_sizes)))

    def _ends_of_rows(self, level: float) -> tuple[tuple[float, float] | None, float | None]:
        """Return the ends, or of classes the least probability."""
        rank = rank_of(self.rows, level)
        if self.of_classes:
            return None, float(self.scores[self.rows - rank])
        return self._ends(level, rank), None

    def _ends_of_groups(self, level: float) -> tuple[tuple[float, float] | None, float | None]:
        """Return the ends, or of classes the least probability, where groups count once each.

        With rows counted, no new group may have more rows than the largest of these.
        """
        weights, whole = self._weights, float(self.count + 1)
        assert weights is not None
        if self.new_rows.count == "rows":
            weights, whole = np.ones(self.rows), float(self.rows + self.unit_sizes.max())
        if self.of_classes:
            enough = np.cumsum(weights[::-1]) >= level * whole - 1e-9
            return None, float(self.scores[::-1][np.argmax(enough)]) if enough[-1] else 0.0
        if self.count < TWO_SIDED_ROWS:
            distance = np.abs(self.scores - 0.5)
            order = np.argsort(distance, kind="stable")
            enough = np.cumsum(weights[order]) >= level * whole - 1e-9
            farthest = float(distance[order][np.argmax(enough)]) if enough[-1] else 0.5
            return (0.5 - farthest, 0.5 + farthest), None
        share, new = whole * (1 - level) / 2 + 1e-9, whole - weights.sum()
        below = np.concatenate([[0.0], np.cumsum(weights)])[np.searchsorted(self.scores, self.scores)]
        first = np.count_nonzero(new + below <= share)
        last = np.count_nonzero(new + _above(self.scores, weights) <= share)
        return (
            float(self.scores[first - 1]) if first else 0.0,
            float(self.scores[self.rows - last]) if last else 1.0,
        ), None

    def _inside(self, ends: tuple[float, float] | None, least: float | None) -> NDArray[np.bool_]:
        """Tell which calibration rows are inside, bool [row]."""
        if ends is None:
            return self.scores >= (least or 0.0)
        return (self.scores >= ends[0]) & (self.scores <= ends[1])

    def _ends(self, level: float, rank: int) -> tuple[float, float]:
        if self.rows < TWO_SIDED_ROWS:
            distance = float(np.sort(np.abs(self.scores - 0.5))[rank - 1])
            return 0.5 - distance, 0.5 + distance
        first, last = ranks_of_ends(self.rows, level)
        return (
            float(self.scores[first - 1]) if first > 0 else 0.0,
            float(self.scores[last - 1]) if last <= self.rows else 1.0,
        )

    @property
    def checksum(self) -> str:
        """Beginning of the SHA-256 of the scores, hexadecimal: another one after another calibration."""
        units = b"" if self.unit is None else self.unit.astype("<i4").tobytes()
        if self.subgroups is not None:
            named = json.dumps(self.subgroups.to_json()["groups"], sort_keys=True).encode()
            units += b"".join(self.subgroups.arrays) + named
        if self.tails is not None:
            units += json.dumps(_of_tails(self.tails)).encode()
        return hashlib.sha256(self.scores.astype("<f8").tobytes() + units).hexdigest()[:16]

    def summary(self) -> dict[str, Any]:
        """Return kind, numbers of draws, rows and what counts once, checksum, and usual claims, as JSON."""
        possible = (level for level in SUMMARY_LEVELS if self.tails or rows_needed(level) <= self.count)
        claims = [self.at(level).claim for level in possible]
        plain = replace(self, subgroups=None, totals=()).to_json()
        return plain | {"checksum": self.checksum, "claims": claims, "counted": self.count}

    def to_json(self) -> dict[str, Any]:
        """Return the table without its scores as JSON values."""
        chosen: dict[str, Any] = {"since_change": True} if self.since_change else {}
        if not self.new_rows.are_like_these:
            chosen |= {"new_rows": self.new_rows.to_json(), "units": self.unit is not None}
        if self.subgroups is not None:
            chosen["subgroups"] = self.subgroups.to_json()
        if self.totals:
            chosen["totals"] = list(self.totals)
        if self.tails is not None:
            chosen["tails"] = _of_tails(self.tails)
        return {"kind": self.kind, "draws": self.draws, "rows": self.rows, **chosen}

    @classmethod
    def from_json(
        cls,
        values: Mapping[str, Any],
        scores: Floats,
        unit: NDArray[np.int32] | None = None,
        *,
        of_classes: bool,
        subgroups: SubgroupTable | None = None,
    ) -> ConformalTable:
        """Read what `to_json` returned, with the scores; raise ValueError for anything else."""
        kind, draws = values["kind"], values["draws"]
        if kind not in KINDS or type(draws) is not int or draws < 1:
            raise ValueError("the kind of its calibration is unknown")
        if np.any(np.diff(scores) < 0) or not (np.all(scores >= 0) and np.all(scores <= 1)):
            raise ValueError("the scores of its calibration are not ascending probabilities")
        new_rows = NewRows.read(values.get("new_rows"))
        if unit is not None and (unit.min() < 0 or len(np.unique(unit)) != unit.max() + 1):
            raise ValueError("the groups of its calibration rows are not numbered from 0 on")
        since_change = values.get("since_change") is True
        if subgroups is not None:
            subgroups.check_ends(of_classes=of_classes)
        totals = tuple(float(each) for each in values.get("totals", ()))
        if len(totals) > MAX_TOTALS or np.any(np.diff(totals) < 0) or not all(0 <= t <= 1 for t in totals):
            raise ValueError("its totals are not ascending probabilities, or too many")
        tails = _read_tails(values["tails"]) if "tails" in values else None
        return cls(kind, draws, scores, of_classes, since_change, new_rows, unit, subgroups, totals, tails)


def _of_tails(tails: Tails) -> list[list[float]]:
    return [[level, *shares] for level, shares in sorted(tails.items())]


def _read_tails(values: Sequence[Sequence[float]]) -> dict[float, tuple[float, float]]:
    if not all(len(each) == 3 and all(map(math.isfinite, each)) and 0 < each[0] < 1 for each in values):
        raise ValueError("the shares of its tails are not numbers by level")
    return {float(level): (float(lower), float(upper)) for level, lower, upper in values}


def _above(scores: Floats, weights: Floats) -> Floats:
    """Sum the weights of larger scores than each of ascending ones, the largest first."""
    sums = np.concatenate([[0.0], np.cumsum(weights[::-1])])
    return sums[np.searchsorted(-scores[::-1], -scores[::-1])]
