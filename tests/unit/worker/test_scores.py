"""Scores on held-out rows."""

import pytest
from scipy.stats import binomtest

from worker.scores import _coverage


@pytest.mark.parametrize(("inside", "rows"), [(0, 7), (7, 7), (85, 99), (1, 2)])
def test_a_coverage_carries_its_own_binomial_interval(inside, rows):
    """The interval beside a measured coverage is the exact binomial one, also at its ends."""
    found = _coverage(0.9, inside, rows)

    exact = binomtest(inside, rows).proportion_ci(0.95, method="exact")
    assert (exact.low, exact.high) == pytest.approx((found["lower"], found["upper"]))
    assert found["lower"] <= found["coverage"] <= found["upper"]
