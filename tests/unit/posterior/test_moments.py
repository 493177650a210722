"""Passes over the draws of each row equal numpy's results."""

import numpy as np
import pytest

from sampler.posterior.kernels.moments import add_lines, lined_steps, moments, turn


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


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (1000, 65), (33, 200)])
def test_sums_with_lines_are_rounded_and_summarised_in_one_pass(shape):
    """Places and sums are numpy's, whatever rows come along."""
    generator = np.random.default_rng(5)
    sums = generator.integers(-(10**6), 10**6, size=shape).astype(np.int32)
    slopes, terms = generator.normal(size=(shape[0], 4)) * 1e5, generator.normal(size=(4, shape[1]))
    pivot = sums[0] + np.arange(float(shape[1]))

    def moments_of(rows):
        steps, figures = np.empty((rows.stop, shape[0]), np.int32), np.zeros((2, rows.stop))
        first, second = (np.ascontiguousarray(each[:, rows]) for each in (sums, terms))
        lined_steps(first, slopes, second, 16.0, pivot[rows], steps, figures)
        return steps, figures

    x = sums.astype(np.float64)
    add_lines(x, slopes, terms)
    steps, figures = moments_of(slice(0, shape[1]))
    np.testing.assert_array_equal(steps, np.rint(16 * x).T)
    away = x - pivot
    np.testing.assert_allclose(figures, [away.sum(axis=0), (away**2).sum(axis=0)], rtol=1e-9, atol=1e-3)
    alone = moments_of(slice(0, 1))
    np.testing.assert_array_equal(alone[0][0], steps[0])
    np.testing.assert_array_equal(alone[1][:, 0], figures[:, 0])
