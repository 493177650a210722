"""Rows of declared subgroups: which subgroups there are, and to which of them each row belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Words
from sampler.data.columns import infer_kind, sort_levels
from sampler.data.convert import Labels, to_floats, to_labels
from sampler.data.scalars import days_to_text, number_to_text
from sampler.data.schema import OF_LEVELS, FeatureKind
from sampler.data.table import RawColumn, Table
from sampler.errors import DataError, DataProblem
from sampler.subgroups.declaration import Condition, Subgroup, Subgroups, out_of_range, refused, unknown

CutsByName = Callable[[str], NDArray[np.float64]]
KindByName = Mapping[str, FeatureKind]

FEWEST = 10  # calibration rows of a level, or without a value, that are a subgroup
MOST_BITS = 64
QUARTERS = (0.25, 0.5, 0.75)
COMPLETE = "complete"
TRUTHS = {"1": "true", "0": "false"}


@dataclass(frozen=True)
class Membership:
    """Rows of subgroups.

    Attributes
    ----------
    subgroups
        The subgroups.
    bits
        uint64 [row], a bit for each subgroup, the lowest for the first.
    own
        int32 [row], the class of each row, where each class counts by itself; else None.
    labels
        Names of the classes; none of numbers.

    """

    subgroups: tuple[Subgroup, ...]
    bits: Words
    own: NDArray[np.int32] | None = None
    labels: tuple[str, ...] = ()

    def take(self, rows: NDArray[np.int64]) -> Membership:
        """Select some of the rows."""
        own = None if self.own is None else self.own[rows]
        return replace(self, bits=self.bits[rows], own=own)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values that `of_parts` reads, with the classes by name."""
        own = {} if self.own is None else {"own": [self.labels[k] for k in self.own.tolist()]}
        return {"groups": [each.to_json() for each in self.subgroups], "bits": self.bits.tolist()} | own

    @classmethod
    def of_parts(cls, parts: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> Membership:
        """Join rows of the same subgroups, one part after another; classes have these numbers."""
        bits = np.array([each for part in parts for each in part["bits"]], np.uint64)
        number = {label: k for k, label in enumerate(classes)}
        own = [number[label] for part in parts for label in part.get("own", ())]
        labels = np.array(own, np.int32) if own else None
        return cls(tuple(map(Subgroup.read, parts[0]["groups"])), bits, labels, tuple(classes))


def columns_of(subgroups: Sequence[Subgroup]) -> list[str]:
    """Return the names of the columns by which rows belong to subgroups, once each."""
    return list(dict.fromkeys(each.column for subgroup in subgroups for each in subgroup.where))


def kinds_of(subgroups: Sequence[Subgroup]) -> dict[str, FeatureKind]:
    """Tell as what kind of values those columns are read, by name."""
    kinds: dict[str, FeatureKind] = {}
    for condition in (each for subgroup in subgroups for each in subgroup.where):
        if kinds.get(condition.column, "category") in OF_LEVELS:
            kinds[condition.column] = condition.kind
    return kinds


def bits_of(subgroups: Sequence[Subgroup], table: Table) -> Words:
    """Tell to which subgroups each row of a table belongs, uint64 [row].

    Raises
    ------
    DataError
        For cells that conditions can't be about, and for columns that the table doesn't have.

    """
    bits, problems = np.zeros(table.num_rows, np.uint64), list[DataProblem]()
    names = columns_of(subgroups)
    problems += [
        DataProblem(name, None, "calibrated intervals hold in subgroups by this column: send it too")
        for name in names
        if name not in table.names
    ]
    if problems:
        raise DataError(problems)
    columns = {name: _Values(table.column(name), problems) for name in names}
    for j, subgroup in enumerate(subgroups):
        inside = np.ones(table.num_rows, bool)
        for condition in subgroup.where:
            inside &= columns[condition.column].meet(condition)
        bits |= inside.astype(np.uint64) << np.uint64(j)
    if problems:
        raise DataError(list(dict.fromkeys(problems)))
    return bits


def parts_of(members: Membership) -> list[NDArray[np.bool_]]:
    """Tell which rows are in each subgroup, bool [row] each."""
    one = np.uint64(1)
    return [(members.bits >> np.uint64(j)) & one == one for j in range(len(members.subgroups))]


def check_sizes(members: Membership, least: int, unit: NDArray[np.int32] | None = None) -> None:
    """Refuse subgroups and classes with fewer calibration rows, or groups of them (`unit`), than `least`.

    What is left of a column's levels may have fewer. Raises SettingsError.
    """
    noun = "calibration rows" if unit is None else "groups with calibration rows"
    named = [
        (subgroup.name, inside)
        for subgroup, inside in zip(members.subgroups, parts_of(members), strict=True)
        if any(condition.without is None for condition in subgroup.where)
    ]
    if members.own is not None:
        named += [(f"class {label}", members.own == k) for k, label in enumerate(members.labels)]
    for name, inside in named:
        count = np.count_nonzero(inside) if unit is None else len(np.unique(unit[inside]))
        if count < least:
            raise out_of_range(
                f"{name} has {count} {noun}, and intervals of 90% take {least}: hold out more rows, join it "
                "with others, or leave it out"
            )


class _Values:
    """Values of one column, read when a condition needs them; problems are appended to `problems`."""

    def __init__(self, raw: RawColumn, problems: list[DataProblem]) -> None:
        self.raw, self.problems = raw, problems
        self._labels: Labels | None = None

    def meet(self, condition: Condition) -> NDArray[np.bool_]:
        """Tell which rows meet a condition, bool [row]."""
        inside = np.ones(len(self.raw), bool)
        if condition.missing is not None:
            inside &= self.raw.is_missing == condition.missing
        if condition.at_least is not None or condition.below is not None:
            low, high = condition.limits
            kind: FeatureKind = "date" if condition.of_dates else "number"
            numbers = to_floats(self.raw, kind, self.problems, read_text=True)
            inside &= (numbers >= low) & (numbers < high)
        if condition.levels is not None:
            inside &= self._are_among(condition.levels)
        if condition.without is not None:
            inside &= ~self._are_among(condition.without) & ~self.raw.is_missing
        return inside

    def _are_among(self, levels: Sequence[str]) -> NDArray[np.bool_]:
        if self._labels is None:
            self._labels = to_labels(self.raw, self.problems)
        of_truths = self.raw.type == "number" and {*levels} <= {*TRUTHS.values()}
        names = [TRUTHS.get(each, each) for each in self._labels.names] if of_truths else self._labels.names
        return np.array([*(name in levels for name in names), False])[self._labels.index]


def resolve(
    declared: Subgroups, judged: Table, kinds: KindByName, cuts: CutsByName, *, of_classes: bool
) -> tuple[Subgroup, ...]:
    """Say which subgroups are declared by columns, and by what rows lack.

    Parameters
    ----------
    declared
        The declaration.
    judged
        The calibration rows; of their outcomes nothing is known here.
    kinds
        KindByName of the features and of columns of groups, by name.
    cuts
        Quarter points of a column of numbers or dates, by name, among the training rows.
    of_classes
        Whether the outcomes are classes.

    Returns
    -------
    tuple
        The subgroups.

    Raises
    ------
    SettingsError
        For columns that make no subgroups, and for too many; for classes where outcomes are none.

    """
    if declared.by_class and not of_classes:
        raise refused("by_class is for outcomes that are classes: leave it out")
    found: list[Subgroup] = []
    for entry in declared.entries:
        found += [entry] if isinstance(entry, Subgroup) else _of_column(judged, entry, kinds, cuts)
    if declared.missing:
        found += _by_missing(judged, kinds)
    if len(found) > MOST_BITS:
        raise out_of_range(f"{len(found)} are too many: name fewer, or join levels by where")
    return tuple(found)


def quarter_points(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return up to three values by which numbers fall into quarters, each the least of the next quarter."""
    present = numbers[np.isfinite(numbers)]
    if not len(present):
        return np.zeros(0)
    points = np.unique(np.quantile(present, QUARTERS, method="nearest"))
    return np.asarray(points[points > present.min()])


def _of_column(judged: Table, name: str, kinds: KindByName, cuts: CutsByName) -> list[Subgroup]:
    if name not in judged.names:
        raise unknown(f"{name!r} is no column of these rows")
    raw = judged.column(name)
    kind = kinds.get(name) or infer_kind(raw)
    if kind in ("number", "date"):
        return _quarters(name, cuts(name), of_dates=kind == "date")
    if kind == "unusable":
        raise refused(f"{name!r} has no levels: {infer_kind(raw)}")
    labels = to_labels(raw, [])
    counts = np.bincount(labels.index[labels.index >= 0], minlength=len(labels.names))
    enough = [level for level, count in zip(labels.names, counts, strict=True) if count >= FEWEST]
    if not enough:
        raise out_of_range(f"{name!r} has no level with {FEWEST} calibration rows")
    if kind == "boolean":
        enough = [TRUTHS.get(level, level) for level in enough]
    of_levels = [
        Subgroup(f"{name} = {level}", (Condition(name, levels=(level,)),)) for level in sort_levels(enough)
    ]
    others = Subgroup(f"{name}: other values", (Condition(name, without=tuple(sort_levels(enough))),))
    return [*of_levels, others] if len(enough) < np.count_nonzero(counts) else of_levels


def _quarters(name: str, points: NDArray[np.float64], *, of_dates: bool) -> list[Subgroup]:
    if not len(points):
        raise out_of_range(f"{name!r} has a single value among the training rows")
    show = days_to_text if of_dates else number_to_text
    bounds = [days_to_text(point) if of_dates else float(point) for point in points.tolist()]
    words = [show(point) for point in points.tolist()]
    first = Subgroup(f"{name} below {words[0]}", (Condition(name, below=bounds[0]),))
    last = Subgroup(f"{name} from {words[-1]}", (Condition(name, at_least=bounds[-1]),))
    between = [
        Subgroup(f"{name} {words[k]} to {words[k + 1]}", (Condition(name, bounds[k], bounds[k + 1]),))
        for k in range(len(bounds) - 1)
    ]
    return [first, *between, last]


def _by_missing(judged: Table, kinds: KindByName) -> list[Subgroup]:
    often = [name for name in kinds if judged.column(name).missing >= FEWEST]
    if not often:
        raise out_of_range(f"no feature is missing in {FEWEST} calibration rows")
    found = [Subgroup(f"{name} missing", (Condition(name, missing=True),)) for name in often]
    return [*found, Subgroup(COMPLETE, tuple(Condition(name, missing=False) for name in kinds))]
