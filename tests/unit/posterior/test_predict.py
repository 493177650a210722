"""Prediction kernels equal a plain tree walk, bit for bit."""

import numpy as np
import pytest

from sampler.errors import PackedError
from sampler.posterior.ensemble import FEW_ROWS, Ensemble
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


def test_columns_that_do_not_exist():
    """Draws that split on a column the model lacks are refused."""
    with pytest.raises(PackedError, match="columns"):
        Ensemble([random_draws(1, num_features=7)], 5)
