"""Prediction kernels equal a plain tree walk, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.data.encode import Coded, Copies
from sampler.errors import PackedError
from sampler.posterior.core.ensemble import FEW_ROWS, Ensemble
from sampler.posterior.kernels.tree_sums import BLOCK
from tests.support.models.random_forests import random_codes, random_draws, walk


@pytest.mark.parametrize("grow", [0.0, 0.3, 0.45, 0.5, "prior"])
@pytest.mark.parametrize("num_rows", [0, 1, FEW_ROWS, FEW_ROWS + 1, 70])
def test_equals_the_plain_walk(grow, num_rows):
    """Predictions equal the plain walk's for trees of any size, with missing values, few and many rows."""
    chains = [random_draws(10 * seed, num_draws, 9, 5, grow) for seed, num_draws in ((1, 3), (2, 1))]
    codes = random_codes(3, 5, num_rows)
    expected = np.concatenate([walk(draws, codes) for draws in chains])
    np.testing.assert_array_equal(Ensemble(chains, 5).sums(codes), expected)


def test_blocks_of_rows():
    """Rows beyond the first block have the answers they have alone."""
    ensemble = Ensemble([random_draws(1, 3, 9, 5)], 5)
    codes = random_codes(4, 5, 2 * BLOCK + 17)
    sums = ensemble.sums(codes)
    for first in (0, BLOCK - 1, 2 * BLOCK - 5):
        np.testing.assert_array_equal(
            ensemble.sums(codes[:, first : first + 40]), sums[:, first : first + 40]
        )


def test_chosen_draws():
    """Any draws can be selected, in any order."""
    ensemble = Ensemble([random_draws(1, 4, 3, 5), random_draws(2, 3, 3, 5)], 5)
    codes = random_codes(4, 5, 30)
    chosen = np.array([5, 0, 6, 2])
    np.testing.assert_array_equal(ensemble.sums(codes, chosen), ensemble.sums(codes)[chosen])


@pytest.mark.parametrize("num_rows", [3, 40])
def test_sums_beyond_32_bits_are_exact(num_rows):
    """Leaf sums beyond int32 are exact."""
    draws = random_draws(6, 3, 12, 5, 0.4)
    draws.leaf[draws.feature < 0] = np.where(draws.leaf[draws.feature < 0] < 0, -(2**31), 2**31 - 1)
    codes = random_codes(4, 5, num_rows)
    np.testing.assert_array_equal(Ensemble([draws], 5).sums(codes), walk(draws, codes))


def copied(codes, features, seed, num_values=3, count=20):
    """Return copies of rows, in each of which each feature has one of a few columns of cells."""
    rng = np.random.default_rng(seed)
    values = rng.integers(num_values, size=(len(features), count))
    changed = np.repeat(codes[:, None], count, axis=1)
    for columns, numbers in zip(features, values, strict=True):
        cells = random_codes(seed, len(columns), num_values * codes.shape[1])
        changed[list(columns)] = cells.reshape(len(columns), num_values, -1)[:, numbers]
    return Coded(changed.reshape(len(codes), -1), [], copies=Copies(features, values))


@pytest.mark.parametrize("grow", [0.0, 0.45, 0.5, "prior"])
@pytest.mark.parametrize("features", [((1,),), ((0, 2), (4,))])
@pytest.mark.parametrize("far", [False, True])
def test_copies_of_rows(grow, features, far):
    """Rows that repeat but for some features have the same sums, bit for bit, also those over each copy."""
    draws = random_draws(6, 7, 12, 5, grow)
    if far:
        draws.leaf[draws.feature < 0] = np.where(draws.leaf[draws.feature < 0] < 0, -(2**31), 2**31 - 1)
    ensemble, chosen = Ensemble([draws], 5), np.array([3, 0, 6, 2, 1])
    assert ensemble.has_room != far
    first = copied(random_codes(3, 5, 40), features, seed=1)
    blocks = np.repeat(first.copies.values, 2, axis=1)[:, 4:35]  # the same values in another order
    again = first.codes.reshape(5, 20, 40)[:, np.repeat(np.arange(20), 2)[4:35]].reshape(5, -1)
    later = Coded(again, [], copies=replace(first.copies, values=blocks))
    for coded in (first, later):
        expected = ensemble.sums(coded.codes, chosen)
        np.testing.assert_array_equal(ensemble.sums_of(coded, chosen), expected)
        if not far:
            totals = expected.reshape(5, -1, 40).sum(axis=2, dtype=np.int64)
            np.testing.assert_array_equal(ensemble.totals_of(coded, chosen), totals)


def test_few_trees_are_evaluated_for_copies(monkeypatch):
    """Trees that don't use the feature are evaluated for one copy of the rows only."""
    ensemble = Ensemble([random_draws(6, 7, 12, 5, "prior")], 5)
    evaluated = []
    monkeypatch.setattr(
        "sampler.posterior.core.ensemble._sums",
        lambda trees, codes, draws: (
            evaluated.append((len(trees.two_rule), codes.shape[1])),
            np.zeros((len(draws), codes.shape[1]), np.int32),
        )[1],
    )
    ensemble.sums_of(copied(random_codes(3, 5, 40), ((1,),), seed=1), np.arange(7))
    (others, rows), (using, values) = evaluated
    assert (rows, values) == (40, 3 * 40)
    assert others > 2 * using > 0


def test_columns_that_do_not_exist():
    """Draws that split on a column the model lacks are refused."""
    with pytest.raises(PackedError, match="columns"):
        Ensemble([random_draws(1, num_features=7)], 5)
