"""Exact copies of rows are found, told from rows that are equal by chance, and kept together in splits."""

import numpy as np
import pandas as pd
import pytest

from sampler import fit
from sampler.data.rows import Rows
from sampler.data.splits.copies import copied_rows
from sampler.data.splits.split_plan import SplitPlan
from sampler.definitions.new_rows import LIKE_TRAINING
from sampler.errors import DataWarning

SHORT = {"num_trees": 10, "num_chains": 1, "num_burnin": 20, "num_draws": 20, "thin": 1, "progress": False}


def table_of(rng, n):
    X = pd.DataFrame({"a": rng.uniform(size=n), "b": rng.integers(0, 4, n), "c": rng.choice(list("xyz"), n)})
    return X, 3 * X.a + X.b + rng.standard_normal(n)


def repeat(X, y, rng, times, share=1.0):
    rows = np.concatenate(
        [np.arange(len(X)), *(rng.permutation(len(X))[: int(share * len(X))] for _ in range(times - 1))]
    )
    rows = rng.permutation(rows)
    return X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True), rows


@pytest.mark.parametrize(("times", "share"), [(2, 1.0), (3, 1.0), (2, 0.2)])
@pytest.mark.parametrize("classes", [False, True])
def test_copies_have_one_number(times, share, classes):
    rng = np.random.default_rng(times)
    X, y = table_of(rng, 200)
    X.loc[::40, "a"] = np.nan
    X, y, rows = repeat(X, (y > 2) if classes else y, rng, times, share)
    units = copied_rows(Rows.read(X, y))
    assert units is not None
    _, expected = np.unique(rows, return_inverse=True)
    assert len(np.unique(units)) == 200
    assert len({*zip(units, expected, strict=True)}) == 200
    assert units[0] == 0


def test_rows_that_are_equal_by_chance_are_no_copies():
    """Tables of few values: none of 200 is suspected, though most rows have an equal one."""
    rng, suspected, equal = np.random.default_rng(0), 0, []
    for _ in range(200):
        n = int(rng.integers(100, 1500))
        X = pd.DataFrame({f"x{j}": rng.integers(0, rng.integers(2, 5), n) for j in range(3)})
        y = X.sum(axis=1) + rng.integers(0, 4, n)
        equal.append(X.assign(y=y).duplicated().mean())
        suspected += copied_rows(Rows.read(X, y)) is not None
    size = np.arange(120) % 17.0  # its label follows from it
    suspected += copied_rows(Rows.read({"size": size}, size > 8)) is not None
    assert suspected == 0
    assert np.mean(equal) > 0.5


def test_copies_are_held_out_together_and_tested_once():
    rng = np.random.default_rng(3)
    X, y, _ = repeat(*table_of(rng, 150), rng, 3)
    rows = Rows.read(X, y)
    units = copied_rows(rows)
    plan = SplitPlan.of(LIKE_TRAINING, rows.table.column, rows.num_rows, 5, units)
    assert len(plan.holdout(0.2).test) == 30
    folds = plan.folds(5)
    assert sorted(units[np.concatenate([each.test for each in folds])]) == list(range(150))
    for train, test in [plan.holdout(0.2), *folds]:
        assert not {*units[train]} & {*units[test]}


def test_a_fit_says_how_many_copies_there_are():
    rng = np.random.default_rng(4)
    X, y, _ = repeat(*table_of(rng, 100), rng, 3)
    with pytest.warns(DataWarning, match="200 of 300 rows are exact copies of another row"):
        posterior = fit(X, y, seed=1, **SHORT)
    assert any("200 of 300" in each for each in posterior.warnings)


@pytest.mark.slow
def test_calibrated_intervals_hold_for_fresh_rows_beside_copies():
    """Copies on both sides would calibrate by rows that the fit has seen: half of fresh ones were inside."""
    rng = np.random.default_rng(8)
    A, T = rng.uniform(size=(200, 3)), rng.uniform(size=(2000, 3))
    z = 3 * np.sin(6 * A[:, 0]) + 0.5 * rng.standard_normal(200)
    fresh = 3 * np.sin(6 * T[:, 0]) + 0.5 * rng.standard_normal(2000)
    rows = rng.permutation(np.repeat(np.arange(200), 3))
    long = SHORT | {"num_trees": 50, "num_burnin": 100, "num_draws": 100}
    with pytest.warns(DataWarning, match="400 of 600"):
        posterior = fit(A[rows], z[rows], seed=1, calibrate="folds", **long)
    interval = posterior.predict(T, level=0.9, interval="calibrated").intervals[0]
    assert np.mean((interval.lower <= fresh) & (fresh <= interval.upper)) > 0.84
