"""Sets of rows, of which totals, means and quantiles are asked: by columns, and two that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.columns import sort_levels
from sampler.data.convert import Labels, to_floats, to_labels
from sampler.data.encode import Coded
from sampler.data.rows import named_column
from sampler.data.scalars import in_zone, text_to_days
from sampler.data.table import RawColumn, Table, read_column
from sampler.data.target import check_length, read_weights, reject_rows
from sampler.errors import DataError, DataProblem, SettingsError, unknown_feature
from sampler.posterior.core.intervals import CALIBRATED, IntervalKind, Request
from sampler.posterior.laws.law import Law
from sampler.posterior.refusals import check

FigureOfSet = Literal["sum", "mean", "quantile"]
MOST_SETS = 100_000
MOST_COLUMNS = 4


@dataclass(frozen=True)
class AggregateRequest:
    """Request for a figure of sets of rows.

    Attributes
    ----------
    by
        Names of the columns whose values make the sets; none for one set of all rows.
    of, q
        The figure, and the level of a quantile.
    level
        Probability of the intervals.
    interval
        "predictive" and "calibrated": of outcomes that will be observed; "credible": of what is expected.
    compare
        Column and the two values whose rows are compared; None for figures of all rows of a set.
    population
        Whether a mean is of the population that the rows of a set are a sample of.

    """

    by: tuple[str, ...]
    of: FigureOfSet
    q: float | None
    level: float
    interval: IntervalKind
    compare: tuple[str, tuple[Any, Any]] | None
    population: bool = False

    @classmethod
    def check(
        cls,
        by: str | Sequence[str] | None,
        of: str,
        q: Any,
        level: float,
        interval: str,
        compare: Mapping[str, Sequence[Any]] | None,
        population: Any = False,
    ) -> AggregateRequest:
        """Check what is asked of a posterior; see `Posterior.aggregate`. Raises SettingsError."""
        names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
        if len(names) > MOST_COLUMNS or len(set(names)) < len(names):
            raise SettingsError(
                f"by takes up to {MOST_COLUMNS} different columns, not {list(names)!r}",
                field="by",
                code="not_accepted",
            )
        if of not in get_args(FigureOfSet):
            raise SettingsError(
                f"of must be sum, mean or quantile, not {of!r}", field="of", code="not_accepted"
            )
        if (of == "quantile") != (q is not None):
            message = "q belongs to of quantile, and only to that: 0.5 is the median"
            raise SettingsError(message, field="q", code="contradiction")
        if q is not None and not (isinstance(q, int | float) and 0 < q < 1):
            message = f"q must be between 0 and 1 (0.5 for the median), not {q!r}"
            raise SettingsError(message, field="q", code="out_of_range")
        level = Request.check_level(level)
        kind = CALIBRATED if interval == CALIBRATED else Request.check(level, interval, None).kind
        if of == "quantile" and kind != "predictive":
            raise SettingsError(
                "a quantile is of outcomes that will be observed: interval must be predictive",
                field="interval",
                code="not_applicable",
            )
        if population not in (False, True) or (population and (of != "mean" or kind != "credible")):
            raise SettingsError(
                "population is of means of what is expected: true with of mean and interval credible",
                field="population",
                code="not_applicable",
            )
        return cls(names, of, q, level, kind, _compared(compare, names), bool(population))  # type: ignore[arg-type]

    @property
    def predictive(self) -> bool:
        """Whether intervals are of the outcomes that will be observed."""
        return self.interval != "credible"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that say to which set a row belongs."""
        return self.by if self.compare is None else (*self.by, self.compare[0])


def _compared(
    compare: Mapping[str, Sequence[Any]] | None, by: tuple[str, ...]
) -> tuple[str, tuple[Any, Any]] | None:
    if compare is None:
        return None
    ((name, values),) = compare.items() if len(compare) == 1 else [("", ())]
    if not isinstance(values, list | tuple) or len(values) != 2 or name in by:
        raise SettingsError(
            "compare names one column, which is not in by, and two of its values: "
            f'{{"region": ["North", "South"]}}, not {compare!r}',
            field="compare",
            code="not_accepted",
        )
    return name, (values[0], values[1])


@dataclass(frozen=True)
class RowSets:
    """Rows arranged by set.

    Attributes
    ----------
    names
        The value of each set, by column; None for rows without one.
    rows
        int64, positions of the rows that are in any set, set by set.
    place
        int64 [row of `rows`], the number of its set, rising.
    subtracted
        bool [row of `rows`], whether it belongs to the second of two that are compared.
    factor
        float64 [row of `rows`], by which its outcome counts.
    observed
        float64 [row of `rows`], its outcome; NaN where that is not known.
    warnings
        Sentences about sets that are left out.

    """

    names: dict[str, list[str | None]]
    rows: NDArray[np.int64]
    place: NDArray[np.int64]
    subtracted: NDArray[np.bool_]
    factor: Floats
    observed: Floats
    warnings: list[str]

    @property
    def count(self) -> int:
        """Number of sets."""
        return int(self.place[-1]) + 1 if len(self.place) else 0

    @classmethod
    def of_groups(cls, unit: NDArray[np.int32], rows: NDArray[np.int64]) -> RowSets:
        """Arrange some of the rows by their groups, int32 [row]."""
        rows = rows[np.argsort(unit[rows], kind="stable")]
        nothing = np.full(len(rows), np.nan)
        place = np.unique(unit[rows], return_inverse=True)[1].astype(np.int64)
        return cls({}, rows, place, np.zeros(len(rows), bool), np.ones(len(rows)), nothing, [])

    @classmethod
    def read(
        cls,
        law: Law,
        coded: Coded,
        table: Table | None,
        request: AggregateRequest,
        weights: Any,
        observed: Any,
    ) -> RowSets:
        """Arrange rows by a request; raise DataError and SettingsError.

        `table` has the request's columns (None where there are none); `weights` and `observed` are as people
        give them.
        """
        number = coded.num_rows
        if not number:
            raise SettingsError("X: there must be at least one row", field="X", code="not_accepted")
        if isinstance(weights, str) and table is not None:
            weights = named_column(table, "weights", weights)
        factor = np.ones(number) if weights is None else read_weights(weights, number)
        known = _outcomes(law, observed, number)
        place, names = np.zeros(number, np.int64), dict[str, list[str | None]]()
        side, warnings = np.zeros(number, np.int64), list[str]()
        if table is not None:
            if unknown := [name for name in request.columns if name not in table.names]:
                field = "by" if unknown[0] in request.by else "compare"
                raise unknown_feature(field, unknown[0], [*table.names])
            place, names = _sets_by([table.column(name) for name in request.by], number)
            if request.compare is not None:
                side = _sides(table.column(request.compare[0]), request.compare[1])
                place, names, left_out = _with_both(place, side, names)
                warnings += [left_out] * bool(left_out)
        rows = np.lexsort((side, place))
        rows = rows[(place[rows] >= 0) & (side[rows] >= 0)]
        if len(rows) and place[rows[-1]] >= MOST_SETS:
            raise SettingsError(
                f"by makes {place[rows[-1]] + 1:,} sets of rows, more than {MOST_SETS:,}",
                field="by",
                code="too_large",
            )
        _reject_informed(law, coded.part(rows), ~np.isnan(known[rows]))
        return cls(names, rows, place[rows], side[rows] == 1, factor[rows], known[rows], warnings)


def _outcomes(law: Law, observed: Any, number: int) -> Floats:
    """Read the outcomes that are known, float64 [row], NaN for others; raise DataError, SettingsError."""
    if observed is None:
        return np.full(number, np.nan)
    check("known outcomes of sets", law)
    raw, problems = read_column(observed, "observed"), list[DataProblem]()
    check_length(raw, number)
    known = to_floats(raw, "number", problems, read_text=False)
    if problems:
        raise DataError(problems)
    reject_rows("observed", np.isinf(known), "an outcome must be finite, or missing where it is not known")
    return known


def _reject_informed(law: Law, coded: Coded, known: NDArray[np.bool_]) -> None:
    """Raise DataError where an outcome of a new group is known: it informs the others' intercept."""
    bad = np.flatnonzero(known & ~law.known(coded))
    if len(bad):
        names = ", ".join(column.name for column in law.schema.groups)
        raise DataError(
            f"observed: {len(bad)} outcomes are of groups ({names}) that the model has not seen, and say "
            "something of the other rows of these groups: fit again with these rows, or leave them out"
        )


def _sets_by(
    columns: Sequence[RawColumn], number: int
) -> tuple[NDArray[np.int64], dict[str, list[str | None]]]:
    """Return the number of each row's set, of rows with equal values, and these values by column."""
    place, names = np.zeros(number, np.int64), dict[str, list[str | None]]()
    for column in columns:
        problems: list[DataProblem] = []
        labels = _labels(column, problems)
        if problems:
            raise DataError(problems)
        levels: list[str | None] = [*sort_levels(labels.names), None]
        order = {level: k for k, level in enumerate(levels)}
        index = np.array([*(order[name] for name in labels.names), len(levels) - 1], np.int64)[labels.index]
        distinct, place = np.unique(place * len(levels) + index, return_inverse=True)
        place = place.reshape(-1)
        names = {name: [own[k] for k in distinct // len(levels)] for name, own in names.items()}
        names[column.name] = [levels[k] for k in distinct % len(levels)]
    return place, names


def _labels(column: RawColumn, problems: list[DataProblem]) -> Labels:
    """Read a column's values as text: times with a zone in it, as people there write them."""
    labels = to_labels(column, problems)
    if column.type != "date" or not column.zone:
        return labels
    return replace(labels, names=[in_zone(text_to_days(name), column.zone) for name in labels.names])


def _sides(column: RawColumn, values: tuple[Any, Any]) -> NDArray[np.int64]:
    """Tell which rows have the first value (0) or the second (1), -1 for others; raise SettingsError."""
    problems: list[DataProblem] = []
    labels = _labels(column, problems)
    asked = [read_column([value], column.name) for value in values]
    wanted = [_labels(replace(raw, zone=raw.zone and column.zone), problems).names for raw in asked]
    if problems:
        raise DataError(problems)
    side = np.full(len(labels.index), -1, np.int64)
    for k, name in enumerate(wanted):
        rows = labels.index == (labels.names.index(name[0]) if name and name[0] in labels.names else -2)
        if not rows.any() or np.any(side[rows] >= 0):
            raise SettingsError(
                f"compare: {values[k]!r} must be a value of {column.name!r} in these rows, and another than "
                "the one it is compared with",
                field="compare",
                code="unknown",
            )
        side[rows] = k
    return side


def _with_both(
    place: NDArray[np.int64], side: NDArray[np.int64], names: dict[str, list[str | None]]
) -> tuple[NDArray[np.int64], dict[str, list[str | None]], str]:
    """Leave out sets that lack one of the two that are compared; say how many, if any."""
    count = int(place.max()) + 1
    both = np.isin(np.arange(count), place[side == 0]) & np.isin(np.arange(count), place[side == 1])
    numbers = np.where(both, np.cumsum(both) - 1, -1)
    kept = {
        name: [value for value, keep in zip(own, both, strict=True) if keep] for name, own in names.items()
    }
    if not both.any():
        message = "compare: no set has rows of both values; leave by out, or compare others"
        raise SettingsError(message, field="compare", code="contradiction")
    lacking = count - int(both.sum())
    sentence = f"{lacking} of {count} sets have rows of one of the two values alone and are left out"
    return numbers[place], kept, sentence if lacking else ""
