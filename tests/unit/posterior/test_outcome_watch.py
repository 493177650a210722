"""The watch on outcomes: how often it gives a false alarm, what it finds, and how soon."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from scipy import stats
from scipy.special import bdtr, ndtr, xlog1py, xlogy

from sampler.posterior.assessment.outcome_scores import OutcomeScores
from sampler.posterior.assessment.outcome_sums import OutcomeSums, monday_of, week_of
from sampler.posterior.assessment.outcome_watch import (
    ALPHA,
    BOUNDS,
    CountedOnce,
    WatchedIntervals,
    _evidence,
    evidence_from,
    log_factors,
    span_of_weeks,
    starts_of,
    total_of,
    unit_log_factors,
    watch,
)
from sampler.storage.calibration_size import gaps_inside, rows_needed
from sampler.storage.conformal_table import ConformalTable

FIRST = 2900


def sums_of(pit):
    """Outcomes with this PIT, of predictive intervals."""
    marks = [(tail <= pit) & (pit <= 1 - tail) for tail in (0.25, 0.05)]
    return OutcomeSums.of(OutcomeScores(pit, pit, np.log(pit), pit**2, *marks, pit > 0.5))


def pit_of(z):
    """PIT of outcomes that are z standard deviations from their means."""
    return np.clip(ndtr(z), 1e-12, 1 - 1e-12)


def counts(rng, rows, inside_50, inside_90, above):
    """Sums of independent outcomes with such probabilities."""
    drawn = (int(rng.binomial(rows, p)) for p in (inside_50, inside_90, above))
    return OutcomeSums(rows, *drawn)


def alarms(weekly, runs, weeks):
    """Share of runs with an alarm at any of the weekly looks."""
    alarmed = 0
    for run in range(runs):
        rng, seen = np.random.default_rng(run), {}
        for week in range(FIRST, FIRST + weeks):
            seen[week] = weekly(rng)
            if watch(seen, FIRST).verdict == "no_longer_hold":
                alarmed += 1
                break
    return alarmed / runs


def test_intervals_that_hold_raise_no_alarm():
    """With PITs that are uniform, 30 weekly looks at 40 models give none."""
    assert alarms(lambda rng: sums_of(rng.uniform(size=25)), runs=40, weeks=30) == 0


def naive_alarms(runs, weeks):
    """Share of runs in which a weekly test at level alpha of all outcomes so far rejects."""
    rng = np.random.default_rng(0)
    inside = np.cumsum(rng.binomial(20, 0.85, (runs, weeks)), axis=1)
    return np.any(bdtr(inside, 20 * np.arange(1, weeks + 1), 0.85) < ALPHA, axis=1).mean()


@pytest.mark.parametrize("shares", [(0.4, 0.85, 0.6), (0.4, 0.85, 0.4), (0.4, 0.9, 0.5)])
@pytest.mark.slow
@pytest.mark.sampled(slow=1)
def test_repeated_looks_raise_few_false_alarms(shares):
    """Alarms in 60 looks are rarer than alpha in the worst case, shares exactly at their limits.

    A test of level alpha, repeated each week, would raise one in about twenty runs.
    """
    runs = 150
    share = alarms(lambda rng: counts(rng, 20, *shares), runs=runs, weeks=60)
    assert share <= ALPHA + 3 * np.sqrt(ALPHA / runs)
    assert naive_alarms(2000, 60) > 4 * ALPHA


def test_the_evidence_has_expectation_one_at_most():
    """At a limit, over all counts of three weeks, its mean is 1 less the share that later weeks keep."""
    rows, p = 3, 0.85
    k = np.arange(rows + 1)
    log_p = np.array([0.0, np.log(3), np.log(3), 0.0]) + xlogy(k, p) + xlog1py(rows - k, -p)
    total = 0.0
    for a in k:
        for b in k:
            for c in k:
                seen = {FIRST + i: OutcomeSums(rows, 2, int(x), 0) for i, x in enumerate((a, b, c))}
                evidence = _of_one_bound(seen)
                total += np.exp(log_p[a] + log_p[b] + log_p[c] + evidence)
    assert total == pytest.approx(1 - 1 / 4, abs=1e-12)


def _of_one_bound(seen):
    present = sorted(seen)
    return np.logaddexp.reduce(_evidence(BOUNDS[0], seen, present, starts_of(present, FIRST)))


def alarmed(marks, rows, intervals):
    """Tell which lives [run] have an alarm in one of four looks; `marks` are counts [run, week] by name."""
    runs, weeks = next(iter(marks.values())).shape
    bounds = [each for each in intervals.bounds() if each.alarms]
    factors = []
    for bound in bounds:
        wanted = marks[bound.counted] if bound.at_least else rows - marks[bound.counted]
        limit = bound.limit if bound.at_least else 1 - bound.limit
        factors.append(log_factors(limit, wanted, np.full(wanted.shape, rows)))
    found = np.zeros(runs, bool)
    for look in np.linspace(0, weeks, 5).astype(int)[1:]:
        starts = starts_of(list(range(look)), 0)
        each = [np.logaddexp.reduce(evidence_from(own[:, :look], starts), axis=1) for own in factors]
        found |= np.logaddexp.reduce(each, axis=0) - np.log(len(bounds)) >= intervals.level
    return found


def lives(rng, table_rows, runs, shift=0.0, weeks=32, rows=40):
    """Marks [run, week] of outcomes beside intervals that each run calibrates by rows of its own."""
    marks = {name: np.zeros((runs, weeks)) for name in ("inside_90", "inside_50", "above")}
    for run in range(runs):
        table = ConformalTable.of("outcomes", 1, rng.uniform(size=table_rows), of_classes=False)
        pit = pit_of(shift + rng.normal(size=(weeks, rows)))
        for level in (0.5, 0.9):
            low, high = table.at(level).ends
            marks[f"inside_{100 * level:.0f}"][run] = np.sum((low <= pit) & (pit <= high), axis=1)
        marks["above"][run] = np.sum(pit > np.median(table.scores), axis=1)
    return marks


@pytest.mark.parametrize("table_rows", [9, 24, 41, 80, 300])
@pytest.mark.sampled(quick=2)
def test_few_calibration_rows_raise_few_false_alarms(table_rows):
    """Right intervals contain any share where few rows calibrate; without room for that 7 to 60% alarm."""
    runs = 300
    marks = lives(np.random.default_rng(table_rows), table_rows, runs)
    share = alarmed(marks, 40, WatchedIntervals(calibration_rows=table_rows)).mean()
    assert share <= ALPHA + 3 * np.sqrt(ALPHA / runs)
    naive = alarmed(marks, 40, WatchedIntervals()).mean()
    assert table_rows > 41 or naive > 3 * ALPHA


@pytest.mark.parametrize(("table_rows", "shift"), [(41, 1.5), (80, -1.0), (300, 1.0)])
def test_changes_are_found_beside_few_calibration_rows(table_rows, shift):
    """A shift is found in 1,280 outcomes, in nearly all lives."""
    marks = lives(np.random.default_rng(1), table_rows, 60, shift)
    assert alarmed(marks, 40, WatchedIntervals(calibration_rows=table_rows)).mean() > 0.95


@pytest.mark.parametrize("rows", [3, 9, 19, 40, 199, 200, 2000])
@pytest.mark.parametrize("of_classes", [False, True])
def test_limits_leave_room_for_the_calibration_rows(rows, of_classes):
    """Tables fall short of the limits with half of alpha at most, and no limit is stricter than usual."""
    intervals, short = WatchedIntervals(of_classes, rows, era=2), 0.0
    for bound, usual in zip(intervals.bounds(), WatchedIntervals(of_classes).bounds(), strict=True):
        assert (bound.limit <= usual.limit) if bound.at_least else (bound.limit >= usual.limit)
        if bound.level is not None and rows < rows_needed(bound.level):
            assert bound.limit == usual.limit  # no such calibrated intervals
        elif bound.alarms and bound.level is not None:
            gaps = gaps_inside(rows, bound.level, of_classes=of_classes)
            short += stats.beta(gaps, rows + 1 - gaps).cdf(bound.limit)
        elif bound.alarms:  # the middle score, of an even number the one beyond
            middle = stats.beta(rows // 2 + 1, (rows + 1) // 2)
            short += middle.sf(1 - bound.limit if bound.at_least else bound.limit)
    assert short <= intervals.alpha / 2 * (1 + 1e-9)


def test_eras_share_alpha():
    """However many calibrations there are, false alarms in all eras add up to `ALPHA` at most."""
    eras = [WatchedIntervals(era=era) for era in range(5_000)]
    assert sum(each.alpha for each in eras) == pytest.approx(ALPHA, rel=1e-3)
    assert sum(np.exp(-each.level) for each in eras) <= ALPHA
    assert eras[0].level == pytest.approx(np.log(200))
    sums = {FIRST: OutcomeSums(40, 20, 22, 20)}
    first, later = (watch(sums, FIRST, WatchedIntervals(era=era)) for era in (0, 30))
    assert first.evidence == later.evidence
    assert [first.verdict, later.verdict] == ["no_longer_hold", "holds"]


@pytest.mark.parametrize(
    ("shift", "scale", "codes", "rows"),
    [
        (1.0, 1.0, {"above", "too_narrow_90"}, 250),
        (-1.0, 1.0, {"below"}, 250),
        (0.0, 2.0, {"too_narrow_90"}, 250),
    ],
)
def test_changes_are_found_and_dated(shift, scale, codes, rows):
    """After 30 good weeks, a shift by one sd or twice the noise is found within 250 outcomes, and when."""
    rng, seen = np.random.default_rng(7), {}
    for week in range(30):
        seen[FIRST + week] = sums_of(pit_of(rng.normal(size=50)))
    assert watch(seen, FIRST).verdict == "holds"
    changed = FIRST + 30
    for week in range(changed, changed + rows // 50):
        seen[week] = sums_of(pit_of(shift + scale * rng.normal(size=50)))
        report = watch(seen, FIRST)
        if report.verdict == "no_longer_hold":
            break
    assert report.verdict == "no_longer_hold"
    assert {each.code for each in report.reasons} & codes
    assert changed - 1 <= report.since <= changed + 1
    assert str(monday_of(report.since)) in report.text
    assert report.reasons[0].rows <= 50 * (week - changed + 2)


def test_intervals_too_wide_are_named_but_hold():
    """Half the noise is no alarm, since outcomes are inside; the sentence says that intervals are wide."""
    rng = np.random.default_rng(1)
    report = watch({FIRST: sums_of(pit_of(0.5 * rng.normal(size=300)))}, FIRST)
    assert report.verdict == "holds"
    assert [each.code for each in report.reasons] == ["too_wide"]
    assert "wider than they need be" in report.text
    assert report.since is None


def test_few_outcomes_tell_nothing_unless_they_are_all_outside():
    """Below 30 there is no verdict but an alarm; without any, the sentence says so."""
    rng = np.random.default_rng(2)
    assert watch({}, FIRST).text.startswith("There are no outcomes yet")
    assert watch({FIRST: sums_of(rng.uniform(size=29))}, FIRST).verdict == "too_few"
    assert watch({FIRST: sums_of(rng.uniform(size=30))}, FIRST).verdict == "holds"
    assert watch({FIRST: sums_of(np.full(15, 0.999))}, FIRST).verdict == "no_longer_hold"


def test_classes_are_neither_above_nor_below():
    """Outcomes of classes, none of which is above, are no shift."""
    rng = np.random.default_rng(3)
    sums = sums_of(rng.uniform(size=200))
    none_above = OutcomeSums(**vars(sums) | {"above": 0})
    assert watch({FIRST: none_above}, FIRST).verdict == "no_longer_hold"
    assert watch({FIRST: none_above}, FIRST, WatchedIntervals(of_classes=True)).verdict == "holds"


def test_evidence_does_not_depend_on_gaps_or_on_early_weeks():
    """Weeks without outcomes lend their share to the next; weeks before the first count as the first."""
    rng = np.random.default_rng(4)
    sums = [sums_of(rng.uniform(size=40)) for _ in range(3)]
    gap = watch({FIRST: sums[0], FIRST + 9: sums[1]}, FIRST).evidence
    filled = {FIRST + i: OutcomeSums() for i in range(10)} | {FIRST: sums[0], FIRST + 9: sums[1]}
    assert watch(filled, FIRST).evidence == gap
    early = {FIRST - 9: sums[0], FIRST - 3: sums[1], FIRST + 1: sums[2]}
    together = {FIRST: sums[0].plus(sums[1]), FIRST + 1: sums[2]}
    assert watch(early, FIRST).evidence == pytest.approx(watch(together, FIRST).evidence)


def test_sums_add_and_subtract():
    """Sums of parts are the sums of the whole, and come back from JSON."""
    pit = np.random.default_rng(5).uniform(size=20)
    whole, first, last = sums_of(pit), sums_of(pit[:7]), sums_of(pit[7:])
    for sums, expected in ((first.plus(last), whole), (whole.plus(last, -1), first)):
        assert (sums.bins, sums.steps) == (expected.bins, expected.steps)
        apart = {"bins": 0, "steps": 0}
        assert vars(sums) | apart == pytest.approx(vars(expected) | apart)
    assert OutcomeSums.from_json(whole.to_json()) == whole
    assert total_of({1: first, 2: last}).rows == 20


def test_weekly_figures_have_their_chance_ranges():
    """Ranges are central: of 400 outcomes 90% intervals contain .87 to .93, the mean PIT is .47 to .53."""
    sums = sums_of((np.arange(400) + 0.5) / 400)
    assert sums.coverage(0.9) == {"level": 0.9, "observed": 0.9, "lower": 0.87, "upper": 0.9275}
    assert sums.pit_mean()["observed"] == pytest.approx(0.5)
    assert sums.pit_mean()["upper"] == pytest.approx(0.5283, abs=1e-4)
    assert [each["observed"] for each in sums.histogram()] == [0.1] * 10


def test_weeks_begin_on_mondays_in_utc():
    """A Monday is in the week it begins, the Sunday before in the one that ends; zones are converted."""
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    assert monday_of(week_of(monday)) == monday.date()
    assert week_of(monday - timedelta(seconds=1)) == week_of(monday) - 1
    east = timezone(timedelta(hours=2))
    assert week_of(datetime(2026, 11, 23, 1, tzinfo=east)) == week_of(monday) - 1


def test_a_group_of_one_row_counts_as_a_row():
    """Factors of groups with one row each are those of the rows, to rounding."""
    marks = np.array([1.0, 0.0, 1.0])
    of_units = unit_log_factors(0.85, marks, np.ones(3)).sum(axis=0)
    np.testing.assert_allclose(of_units, log_factors(0.85, np.array(2.0), np.array(3.0)), rtol=1e-12)


def test_the_factor_of_a_group_is_a_fair_bet_whatever_the_dependence_within():
    """Its expectation is 1 where a share of exactly c is expected: of rows all alike, and of free ones."""
    c, rows = 0.85, np.full(20, 20.0)
    alike = np.exp(unit_log_factors(c, rows * (np.arange(20) < 17), rows)).mean(axis=0)
    k = np.arange(21.0)
    free = stats.binom.pmf(k, 20, c) @ np.exp(unit_log_factors(c, k, np.full(21, 20.0)))
    np.testing.assert_allclose(alike, 1, rtol=1e-12)
    np.testing.assert_allclose(free, 1, rtol=1e-12)


def grouped(rng, groups, rows, correlation):
    """PITs of groups whose rows correlate, uniform each, int64 [group, mark] and float64 [group, row]."""
    shared, own = rng.normal(size=(groups, 1)), rng.normal(size=(groups, rows))
    pit = pit_of(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own)
    marks = [(tail <= pit) & (pit <= 1 - tail) for tail in (0.25, 0.05)] + [pit > 0.5]
    return np.stack([np.full(groups, rows), *(mark.sum(axis=1) for mark in marks)], axis=1), pit


def alarms_of_groups(runs, *, once, correlation=0.8):
    """Share of runs with an alarm at any of 30 weekly looks at two groups of 20 rows."""
    alarmed = 0
    for run in range(runs):
        rng, weeks, counts = np.random.default_rng(run), {}, {}
        for week in range(FIRST, FIRST + 30):
            counts[week], pit = grouped(rng, 2, 20, correlation)
            weeks[week] = sums_of(pit.ravel())
            units = CountedOnce("group", counts, 30) if once else None
            if watch(weeks, FIRST, None, units).verdict == "no_longer_hold":
                alarmed += 1
                break
    return alarmed / runs


def test_groups_counted_once_raise_no_alarm():
    """Counted one by one, rows that correlate by .8 within groups would have false alarms in most runs."""
    assert alarms_of_groups(20, once=False) > 0.5
    assert alarms_of_groups(20, once=True) == 0


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_groups_keep_the_promise_in_long_runs(correlation):
    """Alarms are rarer than alpha, to its error in as many runs."""
    runs = 100
    assert alarms_of_groups(runs, once=True, correlation=correlation) <= ALPHA + 3 * np.sqrt(ALPHA / runs)


def test_groups_find_a_change():
    """Twice the noise is found by 60 groups; the text says what counts."""
    rng, weeks, counts = np.random.default_rng(1), {}, {}
    for week in range(FIRST, FIRST + 30):
        pit = pit_of(2 * (np.sqrt(0.5) * rng.normal(size=(2, 1)) + np.sqrt(0.5) * rng.normal(size=(2, 20))))
        marks = [(tail <= pit) & (pit <= 1 - tail) for tail in (0.25, 0.05)] + [pit > 0.5]
        counts[week] = np.stack([np.full(2, 20), *(mark.sum(axis=1) for mark in marks)], axis=1)
        weeks[week] = sums_of(pit.ravel())
    report = watch(weeks, FIRST, None, CountedOnce("group of site", counts, 30, waiting=3))
    assert report.verdict == "no_longer_hold"
    assert "Each of 60 groups of site counts once. 3 outcomes are not counted yet." in report.text
    few = {week: counts[week] for week in range(FIRST, FIRST + 4)}
    assert watch(weeks, FIRST, None, CountedOnce("group of site", few, 30)).verdict != "holds"


def test_spans_of_weeks_count_when_they_have_ended():
    """Four weeks add up to one, which waits until its last one is over."""
    weeks = {week: counts(np.random.default_rng(week), 20, 0.5, 0.9, 0.5) for week in range(2900, 2910)}
    once = CountedOnce.by_spans(weeks, 4, before=2909)
    assert once.number == 2
    assert [*once.counts] == [2900, 2904]
    total = total_of({week: weeks[week] for week in range(2900, 2904)})
    assert once.counts[2900].tolist() == [[80, total.inside_50, total.inside_90, total.above]]
    assert once.waiting == 40
    assert "too few" in watch(weeks, 2900, None, once).text


@pytest.mark.parametrize(("correlation", "span"), [(0.0, {0}), (0.4, {1}), (0.9, {1, 2, 4}), (0.995, {4, 8})])
def test_the_span_grows_with_the_correlation_of_days(correlation, span):
    """Independent days count by rows, others by weeks; of slow series several weeks count once."""
    rng = np.random.default_rng(0)
    z = np.zeros(1500)
    for day in range(1, len(z)):
        z[day] = correlation * z[day - 1] + np.sqrt(1 - correlation**2) * rng.normal()
    assert span_of_weeks(np.arange(20_000.0, 21_500.0), pit_of(z)) in span


def by_day(rng, days, rows, correlation, alike):
    """Days and normal scores: those of a day correlate by `alike`, and what they share from day to day."""
    shared = rng.normal(size=days)
    for day in range(1, days):
        shared[day] = correlation * shared[day - 1] + np.sqrt(1 - correlation**2) * shared[day]
    z = np.sqrt(alike) * np.repeat(shared, rows) + np.sqrt(1 - alike) * rng.normal(size=days * rows)
    return np.repeat(np.arange(20_000.0, 20_000.0 + days), rows), z


@pytest.mark.parametrize(
    ("rows", "correlation", "alike", "shares"),
    [(1, 0.0, 1.0, (0.7, 1)), (1, 0.3, 1.0, (0, 0.1)), (10, 0.0, 0.02, (0.7, 1)), (10, 0.9, 0.1, (0, 0.1))],
)
def test_rows_count_where_neither_a_day_nor_its_neighbours_resemble(rows, correlation, alike, shares):
    """Rows of 200 held-out days count one by one where they may; in the year after, none alarms."""
    rng, by_rows = np.random.default_rng(1), 0
    for _ in range(20):
        days, z = by_day(rng, 200, rows, correlation, alike)
        if span_of_weeks(days, pit_of(z)):
            continue
        by_rows += 1
        days, z = by_day(rng, 365, rows, correlation, alike)
        weeks = ((days - 4) // 7).astype(int)
        outcomes = {int(week): sums_of(pit_of(z[weeks == week])) for week in np.unique(weeks)}
        assert watch(outcomes, int(weeks[0])).verdict == "holds"
    assert shares[0] <= by_rows / 20 <= shares[1]


def test_too_few_weeks_take_the_longest_span():
    """Nothing is known of the correlation of three weeks."""
    assert span_of_weeks(np.arange(20.0), np.full(20, 0.4)) == 8


def test_one_is_in_the_singular():
    """One group, span or outcome is named in the singular, several in the plural."""
    one = CountedOnce.by_spans({FIRST: OutcomeSums(rows=1)}, 1, FIRST + 1)
    assert "Outcomes of 1 week are too few" in watch({FIRST: OutcomeSums(rows=1)}, FIRST, None, one).text
    span = CountedOnce("span of 105 weeks", {FIRST: np.zeros((1, 4), np.int64)}, 8)
    assert span.in_words == "1 span of 105 weeks"
    assert replace(span, counts={FIRST: np.zeros((2, 4), np.int64)}).in_words == "2 spans of 105 weeks"
    assert "1 outcome is too few" in watch({FIRST: OutcomeSums(rows=1)}, FIRST, None, None).text
