"""Passes over the draws of each row equal numpy's results."""

import numpy as np
import pytest

from sampler.posterior.kernels.moments import moments, turn


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1000, 33), (31, 1024)])
def test_moments_and_turning_agree_with_numpy(shape):
    """Totals are exact even where squares exceed int64; the transpose moves every value to its place."""
    generator = np.random.default_rng(3)
    sums = generator.integers(-(2**31), 2**31, size=shape).astype(np.int32)
    total, mean, squares = np.empty(shape[1], np.int64), np.empty(shape[1]), np.empty(shape[1])
    moments(sums, total, mean, squares)
    steps = np.empty(shape[::-1], np.int32)
    turn(sums, steps)

    np.testing.assert_array_equal(total, sums.sum(axis=0, dtype=np.int64))
    np.testing.assert_allclose(mean, sums.mean(axis=0), rtol=1e-12, atol=1e-3)
    np.testing.assert_allclose(squares, ((sums - sums.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(steps, sums.T)
