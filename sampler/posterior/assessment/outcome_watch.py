"""A watch on outcomes: whether a model's intervals still hold, judged as often as one likes.

Every look at growing data is another chance of a false alarm. So the evidence is an e-process, a product of
likelihood ratios whose expectation is at most 1 at any time while the intervals hold; that it ever exceeds
1 / alpha then has probability at most alpha (Ville's inequality; Ramdas, Grunwald, Vovk and Shafer 2023). Of
a share p that is at least c while all is well, the ratios q^k (1 - q)^(n - k) / (c^k (1 - c)^(n - k)) are
averaged over q < c. That depends on counts alone, so outcomes may arrive, and be looked at, in any order.
Since a change may come late, the evidence is counted from each week on, the j-th with share 1 / (j (j + 1))
of alpha: weeks in which all was well don't hide the ones after them. Eras, which begin with calibrations,
share it alike.

Rows of one subject, or of neighbouring days, resemble each other: taken one by one, they would count as more
than they are. There the factor of a group, or of a span of weeks, is the mean over its rows, which is at most
1 in expectation whatever the dependence within (a bet on a bounded mean; Waudby-Smith and Ramdas 2024).

Intervals that were calibrated by few rows contain a share of outcomes that is itself random. Half of alpha is
spent on it: the limits c are shares that so few rows don't fall short of, but with that probability.

docs/maths.md#outcomes has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from sampler.array_types import Floats
from sampler.data.scalars import counted
from sampler.posterior.assessment.interval_verdict import likeness
from sampler.posterior.assessment.outcome_sums import OutcomeSums, monday_of
from sampler.storage.calibration_size import gaps_inside, rows_needed

ALPHA = 0.01  # probability of a false alarm in the whole life of a model
FEWEST_ROWS = 30
FEWEST_GROUPS = 30
FEWEST_SPANS = 8
POINTS = 24  # points of the average over shares
SPANS = (1, 2, 4, 8)  # weeks that may count once
ALIKE = 0.3  # correlation of neighbouring spans, at most
ALIKE_IN_A_DAY, ALIKE_DAYS = 0.05, 0.1  # correlations at most where rows count one by one
MARKS = ("rows", "inside_50", "inside_90", "above")  # counts of what counts once
WatchVerdict = Literal["holds", "too_few", "no_longer_hold"]
VERDICTS: tuple[WatchVerdict, ...] = ("holds", "too_few", "no_longer_hold")


BoundCode = Literal["too_narrow_90", "too_narrow_50", "above", "below", "too_wide"]


@dataclass(frozen=True)
class Bound:
    """A share of outcomes that is at least, or at most, `limit` while the intervals hold.

    `limit` leaves room for intervals that were never exact: an alarm is about a gap that matters.
    """

    code: BoundCode
    counted: str  # field of `OutcomeSums`
    limit: float
    at_least: bool
    level: float | None = None  # of the intervals; None of the median
    alarms: bool = True  # otherwise it is worth a word
    of_classes: bool = True


BOUNDS = (
    Bound("too_narrow_90", "inside_90", 0.85, at_least=True, level=0.9),
    Bound("too_narrow_50", "inside_50", 0.40, at_least=True, level=0.5),
    Bound("above", "above", 0.60, at_least=False, of_classes=False),
    Bound("below", "above", 0.40, at_least=True, of_classes=False),
    Bound("too_wide", "inside_50", 0.60, at_least=False, level=0.5, alarms=False),
)


@dataclass(frozen=True)
class WatchedIntervals:
    """The intervals, or prediction sets, that a watch is on.

    Attributes
    ----------
    of_classes
        Whether the outcomes are classes, which are neither above nor below.
    calibration_rows
        Number of rows, or of groups that count once each, by which they are calibrated; None where they are
        not.
    era
        Number of calibrations before, each of which had a watch of its own.
    noun
        Name in the plural of what calibrated them.

    """

    of_classes: bool = False
    calibration_rows: int | None = None
    era: int = 0
    noun: str = "rows"

    @property
    def alpha(self) -> float:
        """Probability of a false alarm in this era; over all eras it adds up to `ALPHA`."""
        return ALPHA / ((self.era + 1) * (self.era + 2))

    @property
    def level(self) -> float:
        """Log of the evidence at which there is an alarm."""
        # Where calibration rows chose the intervals, the other half of alpha is that of the limits.
        return float(-np.log(self.alpha if self.calibration_rows is None else self.alpha / 2))

    def bounds(self) -> list[Bound]:
        """Return the bounds on their outcomes, with the room that few calibration rows leave."""
        bounds = [each for each in BOUNDS if each.of_classes or not self.of_classes]
        if not self.calibration_rows:
            return bounds
        share = self.alpha / 2 / sum(each.alarms for each in bounds)
        return [replace(each, limit=self._limit(each, self.calibration_rows, share)) for each in bounds]

    def _limit(self, bound: Bound, rows: int, share: float) -> float:
        """Return a bound's limit: the usual one, or what calibrated intervals break with that probability."""
        if bound.level is None:  # an outcome is above the scores' median, whose rank is this or between two
            gaps = (rows + 1) // 2
            room = float(betaincinv(gaps, rows + 1 - gaps, share))
            return min(bound.limit, room) if bound.at_least else max(bound.limit, 1 - room)
        if rows < rows_needed(bound.level):  # too few for calibrated intervals: predictive ones are judged
            return bound.limit
        gaps = gaps_inside(rows, bound.level, of_classes=self.of_classes)
        if bound.at_least:
            return min(bound.limit, float(betaincinv(gaps, rows + 1 - gaps, share)))
        return max(bound.limit, float(betaincinv(gaps, rows + 1 - gaps, 1 - share)))


@dataclass(frozen=True)
class CountedOnce:
    """Groups, or spans of weeks, of which each counts once for the verdict, however many rows it has.

    Attributes
    ----------
    what
        The name of one in words, such as "group of subject", "week".
    counts
        By the week in which they count, int64 [group or span, 4]: rows, those inside 50% and 90% intervals,
        and those above the median.
    fewest
        Number of them that a verdict takes.
    waiting
        Outcomes that don't count yet, or never do.

    """

    what: str
    counts: Mapping[int, NDArray[np.int64]]
    fewest: int
    waiting: int = 0

    @classmethod
    def by_spans(cls, weeks: Mapping[int, OutcomeSums], span: int, before: int) -> CountedOnce:
        """Count spans of weeks that ended before week `before`, each in its first week."""
        spans: dict[int, OutcomeSums] = {}
        for week, sums in weeks.items():
            begin = week // span * span
            spans[begin] = spans.get(begin, OutcomeSums()).plus(sums)
        counts = {
            begin: np.array([[getattr(sums, mark) for mark in MARKS]], np.int64)
            for begin, sums in spans.items()
            if sums.rows and begin + span <= before
        }
        waiting = sum(sums.rows for begin, sums in spans.items() if begin + span > before)
        return cls("week" if span == 1 else f"span of {span} weeks", counts, FEWEST_SPANS, waiting)

    @property
    def number(self) -> int:
        """Number of groups or spans that count."""
        return sum(len(counts) for counts in self.counts.values())

    @property
    def in_words(self) -> str:
        """Their number, with their name."""
        noun, *of = self.what.split(" ", 1)
        return " ".join([counted(self.number, noun), *of])

    def wanted(self, bound: Bound, week: int) -> tuple[Floats, Floats]:
        """Return of those of a week the rows that a bound wants at least a share of, and all rows."""
        counts = self.counts[week].astype(np.float64)
        marked, rows = counts[:, MARKS.index(bound.counted)], counts[:, 0]
        return marked if bound.at_least else rows - marked, rows


def span_of_weeks(days: Floats, pit: Floats) -> int:
    """Choose how many weeks count once, by rows in the order of time that a fit has not seen.

    Rows count one by one where those of a day are hardly alike, and neighbouring days neither.

    Parameters
    ----------
    days
        Float64 [row], days since 1970.
    pit
        Float64 [row], the rows' probability integral transforms.

    Returns
    -------
    int
        0 for rows: normal scores of rows of a day have an intra-class correlation of at most
        `ALIKE_IN_A_DAY`, and means of neighbouring ones of 30 days or more correlate by at most
        `ALIKE_DAYS`, one over their number added. Else the shortest of `SPANS` for which those of
        neighbouring spans correlate by at most `ALIKE`; the longest where none is.

    """
    z = ndtri(np.clip(pit, 1e-12, 1 - 1e-12))
    _, day = np.unique(np.floor(days), return_inverse=True)
    if _neighbours(z, day, FEWEST_ROWS) <= ALIKE_DAYS and likeness(z, day) <= ALIKE_IN_A_DAY:
        return 0
    for span in SPANS:
        _, part = np.unique(np.floor((days - 4) / 7 / span), return_inverse=True)  # as `week_of`
        if _neighbours(z, part, FEWEST_SPANS) <= ALIKE:
            return span
    return SPANS[-1]


def _neighbours(z: Floats, part: NDArray[np.intp], fewest: int) -> float:
    """Correlate means of neighbouring parts, one over their number added; 1 for fewer than that."""
    means = np.bincount(part, z) / np.bincount(part)
    if len(means) < fewest:
        return 1.0
    apart = means - means.mean()
    return float(apart[1:] @ apart[:-1] / max(apart @ apart, 1e-300)) + 1 / len(means)


@dataclass(frozen=True)
class BrokenBound:
    """A bound that the outcomes break; `since` is the number of the week."""

    code: BoundCode
    since: int
    observed: Annotated[float, "The share since then."]
    rows: Annotated[int, "Outcomes since then."]
    limit: Annotated[float, "The share at which the bound is."]


@dataclass(frozen=True)
class WatchReport:
    """A verdict on a model's intervals by outcomes.

    Attributes
    ----------
    verdict
        "no_longer_hold" is an alarm; "too_few" outcomes to tell.
    reasons
        The broken bounds, the worst first; with verdict "holds" at most that intervals are too wide.
    evidence
        The e-process over all bounds: the alarm is at 1 / `ALPHA`. Its natural logarithm.
    text
        The verdict in a sentence.

    """

    verdict: WatchVerdict
    reasons: list[BrokenBound]
    evidence: float
    text: str

    @property
    def since(self) -> int | None:
        """The week from which the intervals most probably hold no longer; None without an alarm."""
        return min(each.since for each in self.reasons) if self.verdict == "no_longer_hold" else None


def watch(
    weeks: Mapping[int, OutcomeSums],
    first: int,
    intervals: WatchedIntervals | None = None,
    once: CountedOnce | None = None,
) -> WatchReport:
    """Judge a model's intervals by the outcomes of some weeks.

    Parameters
    ----------
    weeks
        The sums of each week's outcomes, by its number.
    first
        The week in which the watch began, known before any outcome: the evidence counted from week `first` on
        includes what is earlier.
    intervals
        The intervals; None for predictive ones that were never calibrated.
    once
        Groups or spans of weeks that count once each; None where rows are independent of each other.

    Returns
    -------
    WatchReport
        The verdict, with reasons and the evidence.

    """
    intervals = intervals or WatchedIntervals()
    counting = {week: sums for week, sums in weeks.items() if sums.rows} if once is None else once.counts
    present, total = sorted(counting), total_of(weeks)
    bounds = intervals.bounds()
    if not present:
        return WatchReport("too_few", [], 0.0, _too_few(total.rows, once))
    alarms = [each for each in bounds if each.alarms]
    starts = starts_of(present, first)
    against = {each.code: _evidence(each, weeks, present, starts, once) for each in bounds}
    all_of = np.array([np.logaddexp.reduce(against[each.code]) for each in alarms]) - np.log(len(alarms))
    evidence, level = float(np.logaddexp.reduce(all_of)), intervals.level
    if evidence >= level:
        worst = alarms[int(np.argmax(all_of))]
        broken = [each for each, own in zip(alarms, all_of, strict=True) if each is worst or own >= level]
        reasons = [_reason(each, weeks, present, starts, against[each.code]) for each in broken]
        reasons.sort(key=lambda each: each.code != worst.code)
        return WatchReport("no_longer_hold", reasons, evidence, _alarm(total, reasons) + _once(once))
    if total.rows < FEWEST_ROWS or (once is not None and once.number < once.fewest):
        return WatchReport("too_few", [], evidence, _too_few(total.rows, once))
    wide = [each for each in bounds if not each.alarms and np.logaddexp.reduce(against[each.code]) >= level]
    reasons = [_reason(each, weeks, present, starts, against[each.code]) for each in wide]
    return WatchReport(
        "holds", reasons, evidence, _holds(total, reasons) + _room(intervals, bounds[0]) + _once(once)
    )


def total_of(weeks: Mapping[int, OutcomeSums]) -> OutcomeSums:
    """Add up weeks."""
    total = OutcomeSums()
    for sums in weeks.values():
        total = total.plus(sums)
    return total


def starts_of(present: list[int], first: int) -> list[tuple[int, float]]:
    """Return the places in `present` at which evidence begins to count, each with the log of its share.

    A week without outcomes adds its share to the next one that has some.
    """
    starts: list[tuple[int, float]] = []
    last = 0  # weeks of the watch up to the previous start
    for place, week in enumerate(present):
        number = max(week - first, 0) + 1
        last_before_next = present[place + 1 : place + 2]
        if last_before_next and max(last_before_next[0] - first, 0) + 1 == 1:
            continue  # all weeks before the first count as one
        # Shares 1 / (j (j + 1)) of j = last + 1 ... number telescope.
        share = 1 / (last + 1) - 1 / (number + 1)
        begins = 0 if not starts else place
        starts.append((begins, float(np.log(share))))
        last = number
    return starts


def log_factors(limit: float, wanted: Floats, rows: Floats) -> Floats:
    """Compute the log of the factors of `rows` [..] outcomes, `wanted` with the mark, float64 [.., point]."""
    q = limit * (np.arange(POINTS) + 0.5) / POINTS
    k, n = wanted[..., None], rows[..., None]
    return np.asarray(k * np.log(q / limit) + (n - k) * np.log((1 - q) / (1 - limit)))


def unit_log_factors(limit: float, wanted: Floats, rows: Floats) -> Floats:
    """Compute the log of the mean factor of the rows of each group, float64 [group, point].

    `wanted` of its `rows`, float64 [group], have the mark; of one row it is `log_factors`.
    """
    q = limit * (np.arange(POINTS) + 0.5) / POINTS
    share = (wanted / rows)[:, None]
    return np.asarray(np.log(share * (q / limit) + (1 - share) * ((1 - q) / (1 - limit))))


def evidence_from(factors: Floats, starts: list[tuple[int, float]]) -> Floats:
    """Compute the log of the evidence counted from each start, float64 [.., start].

    `factors` are the logs of those of each week, float64 [.., week, point].
    """
    onwards = np.cumsum(factors[..., ::-1, :], axis=-2)[..., ::-1, :]
    begin, shares = [place for place, _ in starts], np.array([share for _, share in starts])
    return np.asarray(np.logaddexp.reduce(onwards[..., begin, :], axis=-1) - np.log(POINTS) + shares)


def _evidence(
    bound: Bound,
    weeks: Mapping[int, OutcomeSums],
    present: list[int],
    starts: list[tuple[int, float]],
    once: CountedOnce | None = None,
) -> Floats:
    """Compute the log of the evidence against a bound, counted from each start; float64 [start]."""
    if once is not None:
        of_units = bound.limit if bound.at_least else 1 - bound.limit
        factors = [unit_log_factors(of_units, *once.wanted(bound, week)).sum(axis=0) for week in present]
        return evidence_from(np.array(factors), starts)
    rows = np.array([weeks[week].rows for week in present])
    wanted = np.array([_count_wanted(bound, weeks[week]) for week in present])
    limit = bound.limit if bound.at_least else 1 - bound.limit
    return evidence_from(log_factors(limit, wanted, rows), starts)


def _count_wanted(bound: Bound, sums: OutcomeSums) -> int:
    """Count the outcomes that a bound wants at least a share of."""
    counted: int = getattr(sums, bound.counted)
    return counted if bound.at_least else sums.rows - counted


def _reason(
    bound: Bound,
    weeks: Mapping[int, OutcomeSums],
    present: list[int],
    starts: list[tuple[int, float]],
    evidence: Floats,
) -> BrokenBound:
    place = starts[int(np.argmax(evidence))][0]
    after = total_of({week: sums for week, sums in weeks.items() if week >= present[place]})
    observed = getattr(after, bound.counted) / after.rows
    return BrokenBound(bound.code, present[place], observed, after.rows, bound.limit)


def _too_few(rows: int, once: CountedOnce | None = None) -> str:
    if once is not None and rows:
        return (
            f"Outcomes of {once.in_words} are too few to check the intervals: "
            f"{once.fewest} are needed.{_waiting(once)}"
        )
    are = "is" if rows == 1 else "are"
    reason = f"{counted(rows, 'outcome')} {are} too few to check the intervals"
    reason = reason if rows else "There are no outcomes yet"
    return f"{reason}: {FEWEST_ROWS} are needed."


def _holds(total: OutcomeSums, wide: list[BrokenBound]) -> str:
    verdict = (
        f"The intervals hold: of {total.rows} outcomes {total.inside_90 / total.rows:.1%} are inside 90% "
        f"intervals, and {total.inside_50 / total.rows:.1%} inside 50% ones."
    )
    return f"{verdict} They are wider than they need be: recalibrate by these outcomes." if wide else verdict


def _room(intervals: WatchedIntervals, bound: Bound) -> str:
    """Say how much room few calibration rows leave; nothing where it is the usual one."""
    if bound.limit == BOUNDS[0].limit:
        return ""
    return (
        f" Calibrated by {intervals.calibration_rows} {intervals.noun}, 90% intervals may contain as few as "
        f"{bound.limit:.0%} of outcomes by chance alone, and an alarm takes fewer."
    )


def _once(once: CountedOnce | None) -> str:
    """Say what counts once."""
    return "" if once is None else f" Each of {once.in_words} counts once.{_waiting(once)}"


def _waiting(once: CountedOnce) -> str:
    waiting = once.waiting
    return (
        f" {waiting} {'outcome is' if waiting == 1 else 'outcomes are'} not counted yet." if waiting else ""
    )


def _alarm(total: OutcomeSums, reasons: list[BrokenBound]) -> str:
    worst = reasons[0]
    many = f"{worst.rows} outcomes" if worst.rows < total.rows else f"all {worst.rows} outcomes"
    since = f"since the week of {monday_of(worst.since)}"
    if worst.code in {"above", "below"}:
        share = worst.observed if worst.code == "above" else 1 - worst.observed
        what = f"{share:.0%} of {many} lie {worst.code} the predicted median"
    else:
        level = "90%" if worst.code == "too_narrow_90" else "50%"
        what = f"only {worst.observed:.0%} of {many} are inside {level} intervals"
    advice = "Recalibrate by these outcomes, or fit again with them."
    return f"The intervals no longer hold: {since}, {what}. {advice}"
