"""Weekly recalibration by outcomes: its bound against adversaries, and its coverage as the data change."""

import json

import numpy as np
import pytest
from scipy.special import ndtr

from sampler import prepare
from sampler.definitions.new_rows import NewRows
from sampler.errors import SettingsError
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.model_header import Header, with_calibration
from sampler.storage.weekly_tables import (
    first_tails,
    most_outside,
    most_pending,
    moved_tails,
    statement_of,
    table_of_newest,
    weekly_tables,
    weights_of,
)


def table_of(scores, **more):
    return ConformalTable.of("holdout", 100, scores, **{"of_classes": False} | more)


def outside(table, scores, level=0.9):
    low, high = table.at(level).ends
    return (scores < low) | (scores > high)


@pytest.mark.parametrize("size", [1, 20, 50])
@pytest.mark.parametrize("delay", [0, 2])
def test_no_adversary_misses_more_often_than_the_bound(size, delay):
    original = table_of(np.linspace(0.001, 0.999, 300))
    table, tails, scores, misses, waiting = original, first_tails(), np.zeros(0), 0, []
    weeks = 2_000 // size
    for _ in range(weeks):
        low, high = table.at(0.9).ends
        score = low * 0.999 if low > 0 else (high + 1e-3 * (1 - high) if high < 1 else 0.5)
        these = np.full(size, score)
        misses += np.count_nonzero(outside(table, these))
        waiting.append((table, these))
        if len(waiting) > delay:
            judge, known = waiting.pop(0)
            tails = moved_tails({0.9: tails[0.9]}, judge, known)
            scores = np.append(scores, known)[-500:]
            table = table_of_newest(original, scores, tails)
    bound = most_outside(0.9, weeks * size, size * (delay + 1))
    assert 0.1 < misses / (weeks * size) <= bound


def grouped(groups, size):
    """Return a table of groups of as many calibration rows."""
    unit = np.repeat(np.arange(groups, dtype=np.int32), size)
    scores = np.random.default_rng(4).uniform(size=groups * size)
    return table_of(scores, new_rows=NewRows(groups="subject"), unit=unit)


def test_no_adversary_misses_in_groups_more_often_than_the_bound():
    """Each group counts once by the share of its rows outside, however many rows it has."""
    original = table = grouped(30, 5)
    tails, shares, groups = first_tails(), 0.0, 0
    for week in range(400):
        low, high = table.at(0.9).ends
        score = low * 0.999 if low > 0 else (high + 1e-3 * (1 - high) if high < 1 else 0.5)
        sizes = np.array([1, 7, 40])
        these = np.full(sizes.sum(), score)
        unit = 3 * week + np.repeat(np.arange(3), sizes)
        inside = np.random.default_rng(week).uniform(size=len(these)) < 0.2
        these[inside] = 0.5
        shares += weights_of(unit, len(these))[outside(table, these)].sum()
        groups += 3
        tails = moved_tails({0.9: tails[0.9]}, table, these, unit)
        table = table_of_newest(original, np.tile(these, 4), tails, np.tile(unit, 4))
    assert 0.1 < shares / groups <= most_outside(0.9, groups, 3)


def test_groups_of_one_row_count_as_rows_do():
    scores = np.random.default_rng(2).beta(0.7, 0.8, size=600)
    weeks, ones = np.arange(600) // 30, np.arange(600)
    alone = table_of(np.linspace(0.001, 0.999, 300))
    of_groups = table_of(
        np.linspace(0.001, 0.999, 300),
        new_rows=NewRows(groups="subject"),
        unit=np.arange(300, dtype=np.int32),
    )
    by_rows = weekly_tables(alone, scores, weeks, weeks + 1)
    by_groups = weekly_tables(of_groups, scores, weeks, weeks + 1, ones)
    for week, table in by_rows.items():
        same = by_groups[week]
        assert (same.count, same.rows) == (table.rows, table.rows)
        for level in table.tails:
            assert same.tails[level] == pytest.approx(table.tails[level], abs=1e-12)
            assert same.at(level).ends == table.at(level).ends


def test_a_large_group_moves_the_shares_as_much_as_a_small_one():
    original = grouped(30, 5)
    scores = np.concatenate([np.full(50, 0.99999), [0.5, 0.5]])
    unit = np.repeat([0, 1, 2], [50, 1, 1])
    moved = moved_tails(first_tails(), original, scores, unit)
    assert moved[0.9] == pytest.approx((0.05 + 0.005 * 0.15, 0.05 + 0.005 * (0.15 - 1)))
    table = table_of_newest(original, scores, first_tails(), unit)
    assert table.count == 33
    assert "each value of subject counts once" in table.at(0.99).text, "though 33 groups are below 99"
    kept = ConformalTable.from_json(table.to_json(), table.scores, table.unit, of_classes=False)
    assert kept.checksum == table.checksum


def covered(scores):
    """Cover shares of the adaptive and the static table, of weeks of 20 outcomes known two weeks later."""
    original = table_of(np.random.default_rng(0).uniform(size=500))
    weeks = np.arange(len(scores)) // 20
    tables = weekly_tables(original, scores, weeks, weeks + 2)
    misses = sum(
        np.count_nonzero(outside(tables.get(week, original), scores[weeks == week])) for week in set(weeks)
    )
    return 1 - misses / len(scores), 1 - outside(original, scores).mean()


def test_it_keeps_its_level_and_recovers_from_twice_the_noise():
    normal = np.random.default_rng(1).normal(size=3_000)
    assert covered(ndtr(normal))[0] == pytest.approx(0.9, abs=0.01)
    normal[500:] *= 2
    adapted, static = covered(ndtr(normal))
    assert adapted == pytest.approx(0.9, abs=0.01)
    assert static < 0.72


def test_a_week_moves_the_shares_by_its_misses_in_each_tail():
    original = table_of(np.linspace(0.001, 0.999, 300))
    moved = moved_tails(first_tails(), original, np.array([0.0005, 0.5, 0.9995, 0.9996]))
    assert moved[0.9] == pytest.approx((0.05 + 0.005 * (0.2 - 1), 0.05 + 0.005 * (0.2 - 2)))
    scores = np.full(150, 0.4)
    table = table_of_newest(original, scores, first_tails() | {0.9: (0.0, 0.7)})
    assert table.rows == 450
    assert table.at(0.9).ends == (0.0, pytest.approx(np.sort(table.scores)[450 - 225]))
    assert table_of_newest(original, np.linspace(0, 1, 600), first_tails()).scores[0] > 0.16


def test_the_table_is_kept_with_its_tails_and_refuses_other_levels():
    table = table_of_newest(table_of(np.linspace(0.01, 0.99, 300)), np.full(9, 0.2), first_tails())
    again = ConformalTable.from_json(json.loads(json.dumps(table.to_json())), table.scores, of_classes=False)
    assert again.tails == table.tails
    assert again.checksum == table.checksum
    header = prepare({"x": np.arange(30.0)}, np.arange(30.0)).header()
    kept = Header.from_bytes(with_calibration(header, table)).calibration
    assert (kept.tails, kept.checksum) == (table.tails, table.checksum)
    other = table_of_newest(table, np.zeros(0), first_tails() | {0.9: (0.04, 0.05)})
    assert other.checksum != table.checksum
    assert [each["at_least"] for each in table.summary()["claims"]] == [None] * 5
    with pytest.raises(SettingsError, match=r"level 0.85 is not among"):
        table.at(0.85)
    classes = table_of(np.linspace(0, 1, 300), of_classes=True)
    with pytest.raises(SettingsError, match="recalibrate by hand"):
        table_of_newest(classes, np.zeros(0), first_tails())


def test_the_bound_in_words():
    assert most_outside(0.9, 1_000, 60) == pytest.approx(0.24)
    assert most_outside(0.9, 10_000, 60) == pytest.approx(0.114)
    assert statement_of(0.9, 1_000, 60).startswith(
        "Of 1,000 reported outcomes, at most 24.0% can lie outside 90%"
    )
    of_groups = statement_of(0.9, 1_000, 60, "subject")
    assert "1,000 values of subject with reported outcomes, each counted once a week" in of_groups
    assert "at most 24.0% of their rows on average" in of_groups


def test_the_most_pending_counts_those_predicted_before_others_were_counted():
    assert most_pending(np.zeros(0), np.zeros(0)) == 0
    assert most_pending(np.array([0.0, 1, 2, 9]), np.array([5.0, 5, 2, 9.5])) == 3
    assert most_pending(np.array([0.0, 5]), np.array([5.0, 8])) == 2, "not yet counted at the same time"
