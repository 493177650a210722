"""A watch on the rows that a model predicts for: whether they still resemble its training rows.

Values of each feature, and predictions, are counted in cells that the training rows define: between quantiles
of them, levels, beyond their range, missing. While all is well, the share of a week's rows in a set of cells
is in expectation at most its share of the training rows with some room. A week counts once, by its share: the
factor of a bet on that is at most 1 in expectation whatever the dependence within the week, and products of
factors are evidence that may be looked at as often as one likes (`outcome_watch`, which has the bets). Where
training rows of neighbouring weeks resemble each other, as many weeks together count once as must be for them
not to. Evidence about several sets and features is averaged, which is valid under any dependence.

docs/maths.md#drift has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.row_flags import OUTSIDE_RANGE, UNSEEN_LEVEL
from sampler.data.scalars import counted, days_to_text
from sampler.data.schema import Column, FeatureKind, Schema
from sampler.posterior.assessment.outcome_sums import monday_of
from sampler.posterior.assessment.outcome_watch import (
    ALPHA,
    FEWEST_ROWS,
    SPANS,
    evidence_from,
    span_of_weeks,
    starts_of,
    unit_log_factors,
)

WEEKS = 53  # that are kept
EDGES = (0.05, 0.25, 0.5, 0.75, 0.95)  # shares of the training rows between which numbers are counted
MOST_LEVELS = 20  # of a category that have cells of their own
MOST_ROWS = 50_000  # training rows that are counted
PREDICTED_ROWS = 2000  # and of these, for which predictions are made
ODDS, ROOM = 1.5, 0.02  # an alarm is about shares whose odds are that many times as large, and so much more
LARGEST = 0.6  # share of a set of cells that may grow
MISSING_CODE = 255
DriftVerdict = Literal["resembles", "too_few", "drifted"]
DRIFT_VERDICTS: tuple[DriftVerdict, ...] = ("resembles", "too_few", "drifted")
DriftRole = Literal["feature", "prediction"]
BELOW, ABOVE, UNSEEN, MISSING = "below the range", "above the range", "unseen level", "missing"
OUTSIDE, OTHERS = "outside the range", "other levels"


@dataclass(frozen=True)
class DriftPart:
    """A feature, or the predictions of an outcome, with the cells in which its values are counted.

    Attributes
    ----------
    name, role, kind
        The column; "feature" or "prediction"; the kind of a feature, of predictions "number" or "category".
    training
        Number of training rows in each of `cells`.
    edges, ends
        Upper ends of the cells of numbers but the last, and these in words: codes of a feature, values of
        predictions.
    levels
        Of a category the levels that have cells of their own.
    span
        Number of weeks that count once.
    units
        Number of training rows, or of groups or spans of weeks of them, that count once each.

    """

    name: str
    role: DriftRole
    kind: FeatureKind
    training: list[int]
    edges: list[float]
    ends: list[str]
    levels: list[str]
    span: int = 1
    units: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**values)

    @property
    def cells(self) -> list[str]:
        """Names of the cells: of numbers upwards."""
        if self.kind == "category":
            return [*self.levels, OTHERS, UNSEEN, MISSING]
        between = [f"{low} to {high}" for low, high in pairwise(self.ends)]
        inside = [f"at most {self.ends[0]}", *between, f"above {self.ends[-1]}"] if self.ends else ["inside"]
        return [BELOW, *inside, ABOVE, UNSEEN, MISSING]

    def sets(self) -> dict[str, list[int]]:
        """Return the sets of cells whose shares may not grow, by their names."""
        share = np.array(self.training) / max(sum(self.training), 1)
        last = len(share) - 1
        if self.kind == "date":  # time goes on by itself
            return {MISSING: [last]}
        if self.kind == "category":
            found = {name: [cell] for cell, name in enumerate(self.cells)}
        else:
            above, upto = last - 2, np.cumsum(share)[1 : last - 3]
            found = {}
            for k, end in enumerate(self.ends):
                found[f"at most {end}"] = [*range(k + 2)]
                found[f"above {end}"] = [*range(k + 2, above + 1)]
            central = [k for k, below in enumerate(upto) if 0.2 < below < 0.8]
            if len(central) > 1:
                found[f"{self.ends[central[0]]} to {self.ends[central[-1]]}"] = [
                    *range(central[0] + 2, central[-1] + 2)
                ]
            if self.role == "feature":
                found |= {OUTSIDE: [0, above], MISSING: [last]}
            if self.kind == "encoded":
                found[UNSEEN] = [last - 1]
        return {name: cells for name, cells in found.items() if share[cells].sum() <= LARGEST}

    def limits(self, alpha: float) -> Floats:
        """Return the largest expected shares of the sets while all is well, float64 [set].

        The training rows' own with some room, or, where that is more, the largest that so few units exceed
        with probability `alpha` at most.
        """
        share = np.array(self.training) / max(sum(self.training), 1)
        held = np.array([share[cells].sum() for cells in self.sets().values()])
        usual = ODDS * held / (1 + (ODDS - 1) * held) + ROOM
        few = betaincinv(held * self.units + 1, np.maximum((1 - held) * self.units, 1e-9), 1 - alpha)
        return np.asarray(np.minimum(np.maximum(usual, few), 1 - 1e-9))


def cells_of_features(
    parts: Sequence[DriftPart], schema: Schema, codes: NDArray[np.uint8], marks: NDArray[np.uint8]
) -> list[NDArray[np.intp]]:
    """Return the cell of each row in the part of each of their features, intp [row]; see `Coded`."""
    places: dict[str, list[int]] = {}
    for position, (place, _) in enumerate(schema.coded):
        places.setdefault(schema.columns[place].name, []).append(position)
    marked = {column.name: marks[j] for j, column in enumerate(schema.columns)} if marks.size else {}
    usual = np.zeros(codes.shape[1], np.uint8)
    columns = {column.name: column for column in schema.columns}
    return [
        _cells_of(part, columns[part.name], codes[places[part.name]], marked.get(part.name, usual))
        for part in parts
        if part.role == "feature" and part.name in columns
    ]


def _cells_of(
    part: DriftPart, column: Column, codes: NDArray[np.uint8], marks: NDArray[np.uint8]
) -> NDArray[np.intp]:
    if column.kind == "category":
        return _cells_of_levels(part, column, codes, marks)
    cell: NDArray[np.intp] = np.searchsorted(part.edges, codes[0]).astype(np.intp) + 1
    outside = marks == OUTSIDE_RANGE
    above = len(part.edges) + 2
    cell[outside] = np.where(codes[0][outside] == 0, 0, above)
    cell[codes[0] == MISSING_CODE] = above + 2
    cell[marks == UNSEEN_LEVEL] = above + 1
    return cell


def _cells_of_levels(
    part: DriftPart, column: Column, codes: NDArray[np.uint8], marks: NDArray[np.uint8]
) -> NDArray[np.intp]:
    cell_of = {name: cell for cell, name in enumerate(part.levels)}
    others = len(part.levels)
    cells = {name: cell_of.get(name, others) for name in column.levels} | {None: others + 2}
    names = [*column.levels, *([None] if column.missing else [])]
    lacking = others + 2  # no level: missing, or unseen, which is marked
    cell = np.full(codes.shape[1], cells[names[0]] if len(column.indicators) == 1 else lacking, np.intp)
    for name, of_level in zip(column.indicators, codes, strict=True):
        cell[(of_level > 0) & (of_level != MISSING_CODE)] = cells[name]
        cell[of_level == MISSING_CODE] = lacking
    cell[marks == UNSEEN_LEVEL] = others + 1
    return cell


def cells_of_predictions(part: DriftPart, mean: Floats) -> NDArray[np.intp]:
    """Return the cell of each row by its prediction, float64 [row] or of several classes [row, class]."""
    if part.kind == "category":
        return np.asarray(np.argmax(mean, axis=1), np.intp)
    return np.asarray(np.searchsorted(part.edges, mean) + 1, np.intp)


def count_cells(part: DriftPart, cells: NDArray[np.intp]) -> NDArray[np.int64]:
    """Count rows by their cells, int64 [cell]."""
    return np.bincount(cells, minlength=len(part.training)).astype(np.int64)


@dataclass(frozen=True)
class DriftRows:
    """Rows of the same columns that were predicted for.

    Attributes
    ----------
    schema
        Columns of the model.
    codes, marks
        The rows, as in `Coded`; marks of the columns of groups may lack.
    outcome, mean
        The outcome that was predicted, and the predictions, float64 [row] or [row, class].

    """

    schema: Schema
    codes: NDArray[np.uint8]
    marks: NDArray[np.uint8]
    outcome: str
    mean: Floats

    @classmethod
    def of(cls, schema: Schema, coded: Coded, mean: Floats) -> Self:
        """Gather what is counted of rows and their predictions."""
        return cls(schema, coded.codes, coded.marks, schema.target.name, mean)


def count_rows(parts: Sequence[DriftPart], some: Sequence[DriftRows]) -> list[list[int]]:
    """Count rows in the cells of each part."""
    if not some:
        return [[0] * len(part.training) for part in parts]
    schema = some[0].schema
    other = [rows for rows in some if [*rows.schema.kinds] != [*schema.kinds]]
    if other:  # outcomes may have columns of their own
        alike = [rows for rows in some if [*rows.schema.kinds] == [*schema.kinds]]
        both = count_rows(parts, alike), count_rows(parts, other)
        return [[*map(sum, zip(*counts, strict=True))] for counts in zip(*both, strict=True)]
    codes = np.concatenate([rows.codes for rows in some], axis=1)
    width = len(schema.columns)
    marks = np.zeros((width, codes.shape[1]), np.uint8)
    at = 0
    for rows in some:
        count = rows.codes.shape[1]
        if rows.marks.size:
            marks[:, at : at + count] = rows.marks[:width]
        at += count
    features = iter(cells_of_features(parts, schema, codes, marks))
    counts = []
    for part in parts:
        if part.role == "feature" and part.name not in schema.kinds:
            counts.append([0] * len(part.training))
            continue
        if part.role == "feature":
            counts.append(count_cells(part, next(features)).tolist())
            continue
        means = [rows.mean for rows in some if rows.outcome == part.name]
        cells = [np.zeros(0, np.intp)] if not means else [cells_of_predictions(part, np.concatenate(means))]
        counts.append(count_cells(part, cells[0]).tolist())
    return counts


def training_parts(
    schema: Schema,
    cuts: Sequence[Floats],
    coded: Coded,
    predicted: Mapping[str, tuple[Floats, Sequence[str] | None]],
    few: NDArray[np.int64],
    days: Floats | None = None,
    groups: NDArray[np.int64] | None = None,
) -> list[DriftPart]:
    """Count the training rows in cells that they define.

    Parameters
    ----------
    schema, cuts
        Columns of the model, and the cut points of its coded columns.
    coded
        The training rows, encoded as new ones are.
    predicted
        By outcome the predictions of some of them, float64 [row] or [row, class], and the classes, if there
        are several.
    few
        int64, the positions of these rows.
    days
        Float64 [row], when they were (days since 1970), by which weeks that resemble each other count once.
    groups
        int64 [row], the groups that resemble themselves: these count once, and the same ones come again each
        week, so that most weeks count once.

    Returns
    -------
    list of DriftPart
        The features in order, then the predictions.

    """
    parts: list[DriftPart] = []
    first = [place for place, _ in schema.coded]
    for place, column in enumerate(schema.columns):
        position = first.index(place)
        if column.kind == "category":
            part = _of_levels(column, coded.codes[position : position + len(column.indicators)])
        else:
            part = _of_codes(column, cuts[position], coded.codes[position])
        (cells,) = cells_of_features([part], schema, coded.codes, coded.marks)
        part = replace(part, training=count_cells(part, cells).tolist())
        parts.append(_resembling(part, cells, days, groups))
    days = None if days is None else days[few]
    groups = None if groups is None else groups[few]
    for name, (mean, classes) in predicted.items():
        part = _of_predictions(name, mean, classes)
        parts.append(_resembling(part, cells_of_predictions(part, mean), days, groups))
    return parts


def _of_codes(column: Column, cuts: Floats, codes: NDArray[np.uint8]) -> DriftPart:
    counts = np.bincount(codes, minlength=256)[: len(cuts) + 1]
    upto = np.cumsum(counts) / max(counts.sum(), 1)
    edges = np.unique(np.searchsorted(upto, np.array(EDGES) - 1e-9))
    edges = edges[(edges < len(cuts)) & (upto[edges.clip(max=len(cuts))] > 0)]
    forms = {"date": days_to_text, "encoded": "{:+.3g} from the mean".format}
    as_text = forms.get(column.kind, "{:.4g}".format)
    ends = [as_text(float(cuts[edge])) for edge in edges]
    kept = [k for k, end in enumerate(ends) if end not in ends[:k]]
    edges, ends = edges[kept], [ends[k] for k in kept]
    empty = [0] * (len(edges) + 5)
    return DriftPart(column.name, "feature", column.kind, empty, [float(e) for e in edges], ends, [])


def _of_levels(column: Column, codes: NDArray[np.uint8]) -> DriftPart:
    of_level = {
        name: int(np.count_nonzero(row == 1)) for name, row in zip(column.indicators, codes, strict=True)
    }
    rest = codes.shape[1] - sum(of_level.values())
    frequent = sorted(column.levels, key=lambda name: -of_level.get(name, rest))[:MOST_LEVELS]
    levels = [name for name in column.levels if name in frequent]
    return DriftPart(column.name, "feature", column.kind, [0] * (len(levels) + 3), [], [], levels)


def _of_predictions(name: str, mean: Floats, classes: Sequence[str] | None) -> DriftPart:
    if mean.ndim == 2:
        assert classes is not None
        part = DriftPart(name, "prediction", "category", [0] * (len(classes) + 3), [], [], list(classes))
    else:
        edges = np.unique(np.quantile(mean, EDGES))
        ends = [f"{edge:.4g}" for edge in edges]
        part = DriftPart(name, "prediction", "number", [0] * (len(edges) + 5), edges.tolist(), ends, [])
    return replace(part, training=count_cells(part, cells_of_predictions(part, mean)).tolist())


def _resembling(
    part: DriftPart, cells: NDArray[np.intp], days: Floats | None, groups: NDArray[np.int64] | None
) -> DriftPart:
    """Say how many weeks count once, and how many training rows do."""
    if groups is not None:
        return replace(part, span=SPANS[-1], units=len(np.unique(groups)))
    if days is None:
        return replace(part, units=len(cells))
    upto = np.cumsum(part.training)
    rank = (upto - np.array(part.training) / 2) / max(upto[-1], 1)
    span = span_of_weeks(days, rank[cells])
    if span == 0:
        return replace(part, units=len(cells))
    return replace(part, span=span, units=len(np.unique(np.floor((days - 4) / 7 / span))))


@dataclass(frozen=True)
class DriftReason:
    """A set of values that is more frequent than in the training rows; `since` is the number of the week."""

    name: Annotated[str, "The feature, or the outcome whose predictions it is about."]
    role: DriftRole
    values: Annotated[str, "The set in words, such as above 3000, or missing."]
    since: int
    observed: Annotated[float, "Share of the rows since then."]
    rows: Annotated[int, "Rows since then."]
    training: Annotated[float, "Share of the training rows."]
    limit: Annotated[float, "The expected share at which the test is."]


@dataclass(frozen=True)
class DriftReport:
    """A verdict on rows, its reasons, the strongest first, and the natural logarithm of the evidence."""

    verdict: DriftVerdict
    reasons: list[DriftReason]
    evidence: float
    text: str

    @property
    def since(self) -> int | None:
        """The week from which rows most probably are unlike the training rows; None without an alarm."""
        return self.reasons[0].since if self.verdict == "drifted" else None


def watch_rows(
    parts: Sequence[DriftPart], weeks: Mapping[int, Sequence[Sequence[int]]], first: int, before: int
) -> DriftReport:
    """Judge whether the rows of some weeks resemble the training rows.

    Parameters
    ----------
    parts
        The features and predictions with the training rows' counts.
    weeks
        By number of the week the rows in each cell of each part; all weeks, or the last ones of the watch.
    first
        The watch's first week.
    before
        The present week: it and later ones don't count yet, since the share of an unfinished week would be
        a second look at the same bet.

    Returns
    -------
    DriftReport
        The verdict.

    """
    level = float(-np.log(ALPHA / 2))  # the other half of alpha is that of the limits
    ended = {week: counts for week, counts in weeks.items() if week < before}
    roles = {part.role for part in parts}
    against: list[tuple[float, float, DriftReason]] = []  # weighted evidence, its own, and what it is about
    for place, part in enumerate(parts):
        share = 1 / len(roles) / sum(each.role == part.role for each in parts)
        counts = {week: np.array(counts[place], np.int64) for week, counts in ended.items()}
        found = _against(part, counts, first, before, share * ALPHA / 2)
        against += [(own + float(np.log(share / len(found))), own, reason) for own, reason in found]
    against.sort(key=lambda each: -each[0])
    rows = sum(sum(counts[0]) for counts in ended.values()) if parts else 0
    evidence = float(np.logaddexp.reduce([each[0] for each in against])) if against else 0.0
    if evidence >= level:
        told: dict[tuple[str, str], DriftReason] = {}
        for _, own, reason in against:
            if own >= level or not told:
                told.setdefault((reason.role, reason.name), reason)
        reasons = [*told.values()]
        return DriftReport("drifted", reasons, evidence, _drifted(reasons))
    if not against or rows < FEWEST_ROWS:
        return DriftReport("too_few", [], evidence, _too_few(rows))
    return DriftReport("resembles", [], evidence, _resembles(rows, len(ended)))


def _against(
    part: DriftPart, weeks: Mapping[int, NDArray[np.int64]], first: int, before: int, alpha: float
) -> list[tuple[float, DriftReason]]:
    """Return the log of the evidence that a part's sets have grown, and since when; none without weeks."""
    spans: dict[int, NDArray[np.int64]] = {}
    for week, of_week in weeks.items():
        begin = week // part.span * part.span
        if begin + part.span <= before and of_week.sum():
            spans[begin] = spans[begin] + of_week if begin in spans else of_week
    sets, present = part.sets(), sorted(spans)
    if not present or not sets:
        return []
    starts = starts_of(present, first // part.span * part.span)
    number = present[0] - first // part.span * part.span + 1
    if number > 1:  # weeks before were forgotten, with the evidence from them on
        starts[0] = (0, -float(np.log(number * (number + 1))))
    counts = np.array([spans[begin] for begin in present])
    rows = counts.sum(axis=1).astype(np.float64)
    limits = part.limits(alpha / len(sets))
    found = []
    for (name, cells), limit in zip(sets.items(), limits.tolist(), strict=True):
        inside = counts[:, cells].sum(axis=1).astype(np.float64)
        own = evidence_from(unit_log_factors(1 - limit, rows - inside, rows), starts)
        place = starts[int(np.argmax(own))][0]
        since = float(rows[place:].sum())
        training = sum(part.training[cell] for cell in cells) / max(sum(part.training), 1)
        observed = float(inside[place:].sum() / since)
        reason = DriftReason(
            part.name, part.role, name, present[place], observed, int(since), training, limit
        )
        found.append((float(np.logaddexp.reduce(own)), reason))
    return found


def _too_few(rows: int) -> str:
    return (
        f"Too few rows were predicted to say whether they resemble the training rows: {rows} in weeks that "
        f"have ended, and {FEWEST_ROWS} are needed."
    )


def _resembles(rows: int, weeks: int) -> str:
    of = f"{counted(rows, 'row')} of {counted(weeks, 'week')}"
    return f"Nothing speaks against it that the {of} resemble the training rows."


def _drifted(reasons: Sequence[DriftReason]) -> str:
    each = reasons[0]
    what = each.name if each.role == "feature" else f"the prediction of {each.name}"
    more = [f"{reason.name} ({reason.values})" for reason in reasons[1:4]]
    also = f" Others: {', '.join(more)}{' and more' if len(reasons) > 4 else ''}." if more else ""
    return (
        f"The rows no longer resemble the training rows: since the week of {monday_of(each.since)}, {what} "
        f"is {each.values} in {each.observed:.0%} of {each.rows} rows, and in {each.training:.0%} of the "
        f"training rows.{also} Report outcomes, or fit again with newer rows."
    )
