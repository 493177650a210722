"""Passes over the draws of each row equal numpy's results."""

import numpy as np
import pytest

from sampler.posterior.kernels.moments import add_lines, moments, turn


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


def test_lines_are_added_term_by_term():
    """The bits of a sum in the order of the terms, whatever rows come along."""
    generator = np.random.default_rng(4)
    f, slopes, terms = (generator.normal(size=shape) for shape in ((40, 33), (40, 7), (7, 33)))
    expected = f.copy()
    for slope, term in zip(slopes.T, terms, strict=True):
        expected += np.multiply.outer(slope, term)
    alone = np.ascontiguousarray(f[:, 3:4])
    add_lines(alone, slopes, np.ascontiguousarray(terms[:, 3:4]))
    add_lines(f, slopes, terms)
    np.testing.assert_array_equal(f, expected)
    np.testing.assert_array_equal(f[:, 3], alone[:, 0])
