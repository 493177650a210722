"""The plan of rows: what is held out, and which fits judge which rows, by what new rows will be like."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampler.data.splits.holdout import holdout_rows
from sampler.data.splits.split_plan import SplitPlan, folds_of
from sampler.data.table import read_column
from sampler.definitions.new_rows import LIKE_TRAINING, NewRows
from sampler.errors import DataError, SettingsError


def plan_of(new_rows, columns, num_rows, seed=0):
    return SplitPlan.of(NewRows.read(new_rows), lambda name: read_column(columns[name], name), num_rows, seed)


def test_rows_like_these_are_those_of_before():
    plan = plan_of("like_these", {}, 103, seed=7)
    assert plan.holdout(0.2).test.tolist() == holdout_rows(103, 0.2, 7).tolist()
    folds = [each.test.tolist() for each in plan.folds(5)]
    assert folds == [each.test.tolist() for each in folds_of(103, 5, 7)]
    for train, test in [plan.holdout(0.2), *plan.folds(5)]:
        assert sorted([*train, *test]) == list(range(103))


@given(
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=40),
    fraction=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**40),
)
def test_groups_stay_whole_and_their_number_is_fixed(sizes, fraction, seed):
    group = np.repeat(np.arange(len(sizes)) * 7 - 3, sizes)
    group = group[np.random.default_rng(seed).permutation(len(group))]
    plan = plan_of({"groups": "g"}, {"g": group}, len(group), seed)
    test = plan.holdout(fraction).test
    assert len({*group[test]}) == min(max(round(len(sizes) * fraction), 1), len(sizes) - 1)
    folds = plan.folds(5)
    assert len(folds) == (len(sizes) if len(sizes) < 10 else 5)
    assert sorted(np.concatenate([each.test for each in folds]).tolist()) == list(range(len(group)))
    for split in [plan.holdout(fraction), *folds]:
        assert not {*group[split.train]} & {*group[split.test]}
        assert len(split.train) + len(split.test) == len(group)


@pytest.mark.parametrize("as_text", [False, True])
def test_the_choice_of_groups_does_not_depend_on_the_order_of_rows(as_text):
    group = np.repeat(np.arange(30), 4)
    group = np.array([f"subject {each}" for each in group]) if as_text else group
    order = np.random.default_rng(0).permutation(120)
    first, later = (plan_of({"groups": "g"}, {"g": each}, 120, 3) for each in (group, group[order]))
    assert {*group[first.holdout(0.2).test]} == {*group[order][later.holdout(0.2).test]}
    for one, other in zip(first.folds(5), later.folds(5), strict=True):
        assert sorted(one.test) == sorted(order[other.test])


def test_numbers_and_their_text_are_the_same_groups():
    group = np.repeat(np.arange(8, 40), 3)
    as_text = np.array([str(each) for each in group])
    assert (
        plan_of({"groups": "g"}, {"g": group}, 96).holdout(0.3).test.tolist()
        == plan_of({"groups": "g"}, {"g": as_text}, 96).holdout(0.3).test.tolist()
    )


@given(
    times=st.integers(40, 300),
    gap=st.integers(0, 3),
    fraction=st.floats(0.1, 0.5),
    seed=st.integers(0, 2**32),
)
def test_no_fit_sees_what_comes_after_its_last_known_moment(times, gap, fraction, seed):
    time = np.random.default_rng(seed).integers(0, times, 400).astype(float)
    plan = plan_of({"later": "t", "gap": gap, "horizon": 10}, {"t": time}, len(time))
    train, test = plan.holdout(fraction)
    start = time[test].min()
    assert time[train].max(initial=-1) < start - gap
    assert len(test) <= fraction * len(time) + 1e-6
    assert set(test) == set(np.flatnonzero(time >= start))  # ties are not parted
    for train, test in plan.folds(5):
        assert time[train].max() < time[test].min() - gap
        assert time[test].max() < time[test].min() + 10


def test_rehearsals_begin_where_four_to_nine_tenths_are_past():
    plan = plan_of({"later": "t", "horizon": 100}, {"t": np.arange(1000.0)}, 1000)
    assert [(len(each.train), len(each.test)) for each in plan.folds(5)] == [
        (400, 100), (500, 100), (600, 100), (700, 100), (800, 100), (900, 100)
    ]  # fmt: skip


@pytest.mark.parametrize("groups", [{}, {"groups": "g"}])
def test_a_horizon_that_the_rows_can_not_rehearse_is_refused(groups):
    """It names the largest, which is taken; a sentence on held-out rows claims no more than these span."""
    columns = {"t": np.repeat(np.arange(100.0), 4), "g": np.arange(400) % 40}
    declared = groups | {"later": "t", "horizon": 400}
    with pytest.raises(SettingsError, match=r"span 99 of t.* declare at most 49") as refused:
        plan_of(declared, columns, 400).folds(5)
    assert refused.value.field == "new_rows.horizon"
    for horizon in (49, 50):  # of 50 days each
        assert len(plan_of(declared | {"horizon": horizon}, columns, 400).folds(5)) == 6
    with pytest.raises(SettingsError, match="at most 49"):
        plan_of(declared | {"horizon": 51}, columns, 400).folds(5)
    plan = plan_of(declared, columns, 400)
    assert "up to 9 of t later" in plan.judged_by(plan.holdout(0.1).test)


@pytest.mark.parametrize(
    ("times", "form"),
    [
        ([20240130, 20240131, 20240201], "yyyymmdd"),
        ([202311, 202312, 202401], "yyyymm"),
        ([20240101, 20240102, 20240131], ""),  # of one month: no day is counted twice
        ([202401, 202412], ""),
        ([20240130, 20240132, 20240201], ""),
        ([2023, 2024, 2025], ""),
        ([19000, 19001.5, 19002], ""),
    ],
)
def test_dates_written_as_numbers_are_no_times(times, form):
    """From 20240131 to 20240201 a number goes up by 70."""
    column = {"t": np.repeat(np.array(times, float), 20)}
    if not form:
        plan_of({"later": "t"}, column, 20 * len(times))
        return
    with pytest.raises(DataError, match=rf"{times[0]} to {times[-1]} look like dates written as {form}"):
        plan_of({"later": "t"}, column, 20 * len(times))


def test_new_groups_later_are_judged_by_neither_their_own_nor_later_rows():
    rng = np.random.default_rng(1)
    group, time = rng.integers(0, 40, 2000), rng.uniform(0, 100, 2000)
    plan = plan_of({"groups": "g", "later": "t", "gap": 2}, {"g": group, "t": time}, 2000)
    for train, test in [plan.holdout(0.25), *plan.folds(5)]:
        assert not {*group[train]} & {*group[test]}
        assert time[train].max() < time[test].min() - 2 + 1e-9
        assert len(train) + len(test) < 2000


def test_rows_without_a_group_or_a_time_are_refused_where_they_are():
    with pytest.raises(DataError, match=r"column 'g', row 3: the group is missing"):
        plan_of({"groups": "g"}, {"g": ["a", "b", None, "c"]}, 4)
    with pytest.raises(DataError, match=r"column 't', row 2: the time is missing"):
        plan_of({"later": "t"}, {"t": [1.0, np.nan, 3.0]}, 3)
    with pytest.raises(DataError, match="takes a column of dates or numbers"):
        plan_of({"later": "t"}, {"t": ["a", "b"]}, 2)
    with pytest.raises(SettingsError, match="has 2 values"):
        plan_of({"groups": "g"}, {"g": ["a", "b"] * 9}, 18)
    with pytest.raises(SettingsError, match="too few times"):
        plan_of({"later": "t"}, {"t": np.ones(50)}, 50).holdout(0.2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("later", "must be"),
        ({"group": "g"}, "did you mean groups"),
        ({}, "names no column"),
        ({"groups": ["school", "class"]}, "name the coarsest"),
        ({"groups": "subjct"}, "did you mean subject"),
        ({"groups": "subject", "later": "subject"}, "both groups and later"),
        ({"groups": "subject", "gap": 1}, "gap is of later"),
        ({"later": "day", "horizon": 0}, "above 0"),
        ({"later": "day", "gap": -1}, "from 0 up"),
        ({"groups": "subject", "count": "all"}, "groups or rows"),
        ({"later": "day", "count": "rows"}, "count is of groups"),
    ],
)
def test_other_declarations_are_refused(value, words):
    with pytest.raises(SettingsError, match=words):
        NewRows.read(value, ["subject", "day"])


@pytest.mark.parametrize(
    "value",
    [
        "like_these",
        {"groups": "subject"},
        {"groups": "subject", "count": "rows"},
        {"later": "day", "horizon": 28.0, "gap": 7.0},
    ],
)
def test_a_declaration_is_kept_as_it_was_given(value):
    assert NewRows.read(value).to_json() == value
    assert NewRows.read(None) == LIKE_TRAINING


def test_the_rows_that_judge_are_said_in_words():
    """The sentence says how many groups or which times judge, and for which new rows that tells."""
    day = np.arange(200.0) + 19_000
    subject = np.repeat([f"s{i}" for i in range(40)], 5)
    date = day.astype("datetime64[D]")
    quarter = [f"Q{1 + each % 4} {1970 + each // 4}" for each in range(200)]
    columns = {"day": day, "date": date, "quarter": quarter, "subject": subject}

    def words(declared, fraction=0.2):
        new_rows = NewRows.read(declared, columns)
        plan = SplitPlan.of(new_rows, lambda name: read_column(columns[name], name), 200, 0)
        return plan.judged_by(plan.holdout(fraction).test)

    assert words("like_these") == "Judged by 40 rows held out at random: for new rows like these."
    assert words({"groups": "subject"}) == (
        "Judged by 8 of 40 values of subject (40 rows) that the fit did not see: for rows of new values."
    )
    later = words({"later": "date", "horizon": 28})
    assert later.startswith("Judged by the newest 40 rows, 2022-06-")
    assert "for rows up to 28 days later, if change goes on as it did" in later
    assert "of day later" in words({"later": "day"})
    assert "40 rows, 2010-01-01 to 2019-10-01" in words(
        {"later": "quarter"}
    )  # though "Q1 .." is before "Q2 .."
