"""Thresholds of subgroups: against every plane through calibration rows, ranks, and the plain table."""

import itertools
import math

import numpy as np
import pytest

from sampler.definitions.new_rows import NewRows
from sampler.storage.conformal_table import ConformalTable
from sampler.subgroups.declaration import Condition, Subgroup
from sampler.subgroups.membership import Membership
from sampler.subgroups.quantiles import ScoredRows, _by_programme, smallest, threshold


def scored(rows, kinds, seed, *, weighted=False, scale=1.0):
    """Rows of random overlapping subgroups."""
    rng = np.random.default_rng(seed)
    inside = rng.random((rows, kinds)) < rng.uniform(0.2, 0.6)
    plane, cell = np.unique(np.c_[np.ones(rows), inside].astype(float), axis=0, return_inverse=True)
    weights = 1 / rng.integers(1, 4, rows) if weighted else np.ones(rows)
    return ScoredRows(scale * rng.normal(size=rows), weights, cell.reshape(-1), plane)


def by_all_planes(rows, wanted, share):
    """Take the smallest value at the new row of the planes through d rows that lose least."""
    plane, found = rows.indicators[rows.cell], []
    for chosen in itertools.combinations(range(len(plane)), plane.shape[1]):
        through = plane[list(chosen)]
        if abs(np.linalg.det(through)) > 1e-9:
            fitted = np.linalg.solve(through, rows.scores[list(chosen)])
            away = rows.scores - plane @ fitted
            loss = np.sum(rows.weights * np.where(away > 0, share * away, (share - 1) * away))
            found.append((loss - share * wanted @ fitted, wanted @ fitted))
    losses, values = np.array(found).T
    return values[losses <= losses.min() + 1e-9].min()


@pytest.mark.parametrize(
    ("rows", "kinds", "weighted", "share"),
    [
        (30, 1, False, 0.8),
        (30, 2, False, 0.5),
        (31, 2, False, 0.8),
        (34, 1, True, 0.8),
        (35, 2, True, 0.8),
        (120, 1, True, 0.9),
        (130, 1, False, 0.9),
    ],
)
@pytest.mark.sampled(quick=3)
def test_the_programme_finds_the_best_plane(rows, kinds, weighted, share):
    given = scored(rows, kinds, rows, weighted=weighted)
    for wanted in given.indicators:
        found = threshold(given, wanted, share)
        assert found == pytest.approx(by_all_planes(given, wanted, share), abs=1e-9)
        assert found == threshold(given, wanted, share)


def test_the_largest_of_many_scores_is_not_enough_where_rows_are_few():
    given = scored(30, 2, 14)
    rare = np.argmin(np.bincount(given.cell))
    assert np.bincount(given.cell)[rare] < 9
    assert threshold(given, given.indicators[rare], 0.95) == math.inf
    assert threshold(given, np.array([1.0, 5.0, 5.0]), 0.9) == math.inf


@pytest.mark.parametrize("rows", [9, 10, 57, 200])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95])
def test_without_subgroups_the_programme_finds_ranks(rows, share):
    given = ScoredRows(
        np.random.default_rng(rows).normal(size=rows), np.ones(rows), np.zeros(rows, int), np.ones((1, 1))
    )
    rank = math.ceil((rows + 1) * share - 1e-9)
    expected = np.sort(given.scores)[rank - 1] if rank <= rows else math.inf
    assert _by_programme(given, np.ones(1), share, 1.0) == expected
    assert smallest(given.scores, given.weights, share) == expected


def test_a_partition_has_the_ranks_of_each_part():
    rng = np.random.default_rng(3)
    part = rng.integers(0, 3, 120)
    plane = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    given = ScoredRows(rng.normal(size=120), 1 / rng.integers(1, 4, 120), part, plane)
    for k in range(3):
        mine = part == k
        expected = smallest(given.scores[mine], given.weights[mine], 0.8)
        assert threshold(given, plane[k], 0.8) == expected
        assert _by_programme(given, plane[k], 0.8, 1.0) == pytest.approx(expected, abs=1e-12)


ALL = Subgroup("all", (Condition("x", missing=False),))
OLD = Subgroup("old", (Condition("x", at_least=65.0),))


def members(bits, subgroups=(ALL,)):
    return Membership(tuple(subgroups), np.asarray(bits, np.uint64))


@pytest.mark.parametrize("rows", [9, 57, 199, 200, 430])
@pytest.mark.parametrize("of_classes", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_one_subgroup_of_all_rows_changes_nothing(rows, of_classes, grouped):
    rng = np.random.default_rng(rows)
    more = {"of_classes": of_classes}
    if grouped:
        more |= {"new_rows": NewRows(groups="g"), "unit": np.repeat(np.arange(rows, dtype=np.int32), 2)}
    scores = np.round(rng.uniform(size=2 * rows if grouped else rows), 2)
    plain = ConformalTable.of("holdout", 100, scores, **more)
    named = ConformalTable.of("holdout", 100, scores, **more, members=members(np.ones(len(scores))))
    for level in (0.5, 0.77, 0.8, 0.9):
        expected = plain.at(level).ends or (plain.at(level).least_probability,)
        assert named.at(level).cells.ends[0] == pytest.approx(expected, abs=1e-15)
        assert named.at(level).rows == plain.at(level).rows


def test_two_parts_are_two_tables():
    rng = np.random.default_rng(5)
    scores, old = rng.beta(2, 1, 300), rng.random(300) < 0.3
    table = ConformalTable.of("holdout", 100, scores, of_classes=False, members=members(old, [OLD]))
    for bits, mine in ((0, ~old), (1, old)):
        ends = table.at(0.9).cells.of_rows(np.array([bits], np.uint64))[0]
        distance = np.sort(np.abs(scores[mine] - 0.5))[math.ceil((mine.sum() + 1) * 0.9 - 1e-9) - 1]
        assert ends == pytest.approx((0.5 - distance, 0.5 + distance), abs=1e-15)


def test_weights_of_groups_count_in_overlapping_subgroups():
    """Copies of every row, as a group of their own, change nothing."""
    rng = np.random.default_rng(6)
    bits, scores = rng.integers(0, 4, 80), rng.uniform(size=80)
    kinds = [OLD, Subgroup("F", (Condition("sex", levels=("F",)),))]
    plain = ConformalTable.of("holdout", 9, scores, of_classes=False, members=members(bits, kinds))
    copies = np.repeat(np.arange(80), rng.integers(1, 5, 80))
    grouped = ConformalTable.of(
        "holdout",
        9,
        scores[copies],
        of_classes=False,
        new_rows=NewRows(groups="g"),
        unit=copies.astype(np.int32),
        members=members(bits[copies], kinds),
    )
    np.testing.assert_allclose(grouped.at(0.8).cells.ends, plain.at(0.8).cells.ends, atol=1e-9)
    assert [each.at_least for each in grouped.at(0.8).subgroups] == [0.8, 0.8]
