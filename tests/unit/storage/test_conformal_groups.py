"""Calibration by whole groups: ends by weighted ranks, and what they promise."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.definitions.new_rows import NewRows
from sampler.errors import SettingsError
from sampler.storage.calibration_size import kept_rows_of
from sampler.storage.conformal_table import ConformalTable

GROUPS = NewRows(groups="subject")


def table_of(scores, unit, kind="holdout", new_rows=GROUPS, *, of_classes=False):
    return ConformalTable.of(
        kind,
        100,
        np.asarray(scores),
        of_classes=of_classes,
        new_rows=new_rows,
        unit=np.asarray(unit, np.int32),
    )


@pytest.mark.parametrize("rows", [9, 37, 199, 200, 500])
@pytest.mark.parametrize("of_classes", [False, True])
def test_groups_of_one_row_are_rows(rows, of_classes):
    scores = np.random.default_rng(rows).uniform(size=rows)
    plain = ConformalTable.of("holdout", 100, scores, of_classes=of_classes)
    grouped = table_of(scores, np.random.default_rng(1).permutation(rows), of_classes=of_classes)
    for level in (0.5, 0.8, 0.9):
        one, other = plain.at(level), grouped.at(level)
        assert (one.ends, one.least_probability) == (other.ends, other.least_probability)


def brute_force(scores, unit, level, *, two_sided):
    """Take the ends from their definition, by sums over every candidate."""
    groups = np.unique(unit)
    share = lambda mark: sum(np.mean(mark[unit == each]) for each in groups)  # noqa: E731
    if not two_sided:
        distance = np.abs(scores - 0.5)
        enough = [t for t in distance if share(distance <= t) >= level * (len(groups) + 1) - 1e-9]
        return (0.5 - min(enough), 0.5 + min(enough)) if enough else (0.0, 1.0)
    most = (len(groups) + 1) * (1 - level) / 2 + 1e-9
    low = [u for u in scores if 1 + share(scores < u) <= most]
    high = [u for u in scores if 1 + share(scores > u) <= most]
    return max(low, default=0.0), min(high, default=1.0)


@pytest.mark.parametrize(("groups", "level"), [(12, 0.5), (12, 0.9), (40, 0.8), (201, 0.95)])
def test_ends_are_those_of_the_definition(groups, level):
    rng = np.random.default_rng(groups)
    unit = np.repeat(np.arange(groups), rng.integers(1, 5, groups))
    scores = np.round(rng.uniform(size=len(unit)), 2)  # with ties
    ends = table_of(scores, unit).at(level).ends
    assert ends == pytest.approx(brute_force(scores, unit, level, two_sided=groups >= 200), abs=1e-15)


@pytest.mark.parametrize(("groups", "covered"), [(9, 0.985), (20, 0.936), (60, 0.917)])
@pytest.mark.sampled(quick=1)
def test_a_row_of_a_new_group_is_inside_as_often_as_the_formula_says(groups, covered):
    """Hierarchical conformal prediction, rows with correlation .5 within groups of 1 to 20 rows."""
    rng, runs = np.random.default_rng(groups), 1500
    inside = 0
    for _ in range(runs):
        sizes = rng.integers(1, 21, groups + 1)
        unit = np.repeat(np.arange(groups + 1), sizes)
        z = np.sqrt(0.5) * rng.standard_normal(groups + 1)[unit] + np.sqrt(0.5) * rng.standard_normal(
            len(unit)
        )
        scores = 1 / (1 + np.exp(-1.7 * z))  # any increasing function of z
        new = scores[unit == groups]
        low, high = table_of(scores[unit < groups], unit[unit < groups]).at(0.9).ends
        inside += low <= rng.choice(new) <= high
    assert inside / runs == pytest.approx(covered, abs=0.022)


def test_words_and_levels_are_of_groups():
    rng = np.random.default_rng(0)
    table = table_of(rng.uniform(size=120), np.repeat(np.arange(12), 10))
    level = table.at(0.9)
    assert level.at_least == 0.9
    assert "rows of a new value of subject" in level.text
    assert "the 12 held out" in level.text
    with pytest.raises(SettingsError, match="takes at least 19 values of subject, and there are 12"):
        table.at(0.95)
    folds = replace(table, kind="folds").at(0.9)
    assert folds.at_least is None
    assert "Estimated" in folds.text
    later = replace(table, kind="folds", new_rows=NewRows(later="day")).at(0.9)
    assert later.at_least is None
    assert "in 12 rehearsals" in later.text
    assert replace(table, new_rows=NewRows(later="day"), unit=None).at(0.9).at_least is None


def test_counted_by_row_the_largest_group_is_kept_free():
    rng = np.random.default_rng(2)
    unit = np.repeat(np.arange(30), rng.integers(1, 30, 30))
    scores = rng.uniform(size=len(unit))
    by_row = table_of(scores, unit, new_rows=NewRows(groups="subject", count="rows")).at(0.9)
    low, high = by_row.ends
    largest = np.bincount(unit).max()
    assert np.sum((scores >= low) & (scores <= high)) >= 0.9 * (len(unit) + largest) - 1e-9


def test_large_tables_keep_as_many_rows_of_each_group():
    unit = np.repeat(np.arange(40, dtype=np.int32), 1000)
    kept = kept_rows_of(unit)
    assert len(kept) == 10_000
    assert {*np.bincount(unit[kept])} == {250}
    assert len(np.unique(kept_rows_of(np.arange(30_000, dtype=np.int32)))) == 10_000
