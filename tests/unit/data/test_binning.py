"""Codes determine on which side of every cut point a value lies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sampler.data.binning import Grid, cut_points, distinct_values, spread
from sampler.definitions.prior import SCHEMES

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
COLUMNS = arrays(
    np.float64,
    st.integers(1, 700),
    elements=st.one_of(NUMBERS, st.just(np.nan), st.integers(0, 9).map(float)),
)


@given(values=COLUMNS, scheme=st.sampled_from(SCHEMES))
def test_codes_agree_with_cut_points(values, scheme):
    """code <= c just when x <= cuts[c], for every value and every cut; missing is 255."""
    cuts = cut_points(values, scheme)
    codes = Grid((cuts,)).encode(0, values)
    present = ~np.isnan(values)
    assert len(cuts) <= 254
    assert np.all(np.diff(cuts) > 0)
    assert np.all(codes[~present] == 255)
    left = codes[present, None] <= np.arange(len(cuts))
    assert np.array_equal(left, values[present, None] <= cuts)


@given(values=COLUMNS, scheme=st.sampled_from(SCHEMES))
def test_every_cut_divides_the_training_rows(values, scheme):
    """Every cut point has values on both sides."""
    present = values[~np.isnan(values)]
    for cut in cut_points(values, scheme):
        assert 0 < np.sum(present <= cut) < len(present)


@given(values=arrays(np.float64, st.integers(2, 250), elements=st.integers(-(10**6), 10**6).map(float)))
def test_few_distinct_values_are_all_told_apart(values):
    """With at most 255 distinct values each has its own code, and no cut point equals a value."""
    cuts = cut_points(values)
    assert len(cuts) == len(np.unique(values)) - 1
    assert not np.isin(cuts, values).any()


def test_quantile_cuts_divide_the_rows_evenly():
    """255 codes share 100,000 skewed rows almost equally."""
    values = np.exp(np.random.default_rng(0).normal(size=100_000) * 3)
    cuts = cut_points(values)
    counts = np.bincount(Grid((cuts,)).encode(0, values), minlength=255)
    assert len(cuts) == 254
    assert counts.min() > 0.95 * 100_000 / 255
    assert counts.max() < 1.05 * 100_000 / 255


def test_uniform_cuts_are_equally_spaced():
    """254 inner points at equal distances, whatever the rows' distribution and number."""
    cuts = cut_points(np.array([0.0, 0.1, 0.15, 255.0]), "uniform")
    np.testing.assert_allclose(cuts, np.arange(1, 255))


def test_uniform_cuts_of_whole_numbers_are_midpoints():
    """Uniform cuts of equally spaced values are their midpoints."""
    np.testing.assert_array_equal(cut_points(np.array([3.0, 1, 2, 2]), "uniform"), [1.5, 2.5])


def test_mixed_cuts_reach_into_tails_and_keep_the_middle():
    """Mixed cuts cover both tails as uniform ones do; an outlier costs them at most eight cuts."""
    values = np.random.default_rng(0).normal(size=2000)
    tails = [int(np.sum(np.abs(cut_points(values, name)) > 2)) for name in ("quantile", "mixed", "uniform")]
    assert tails[1] > 0.6 * tails[2] > 4 * tails[0]
    cuts = cut_points(np.append(values, 1e6), "mixed")
    assert np.sum(np.abs(cuts) < 4) >= 240
    assert 1 <= np.sum(cuts > values.max()) <= 8


@pytest.mark.parametrize("values", [[np.nan, np.nan], [3.0, 3.0, np.nan], [7.0]])
def test_columns_without_distinct_values_have_no_cuts(values):
    """A column with fewer than two distinct values has no cut points and one code."""
    assert len(cut_points(np.array(values))) == 0


def test_neighbouring_floats_and_huge_values():
    """Values with no float between them, and values whose sum overflows, get different codes."""
    low = 1.0
    values = np.array([low, np.nextafter(low, 2), 1.7e308, 1.6e308, -1.7e308, 5e-324, 0.0])
    codes = Grid((cut_points(values),)).encode(0, values)
    np.testing.assert_array_equal(codes, np.argsort(np.argsort(values)))


def test_spread_points_divide_the_rows():
    """19 observed values: frequent ones once each, the others dividing the remaining rows evenly."""
    rng = np.random.default_rng(0)
    zeros = np.append(np.zeros(1900), rng.lognormal(size=100))
    counts = np.where(rng.random(2000) < 0.95, rng.integers(1, 11, 2000), rng.integers(11, 300, 2000)).astype(
        float
    )
    for values in (zeros, counts, rng.normal(size=500), np.arange(1.0, 30.0)):
        points = spread(*distinct_values(values), 19)
        assert len(points) == 19
        assert set(points) <= set(values)
    normal = np.sort(rng.normal(size=1000))
    assert np.searchsorted(normal, spread(*distinct_values(normal), 19)).tolist() == list(range(49, 950, 50))
    assert spread(*distinct_values(zeros), 19)[:1] == [0.0]
    assert set(range(1, 11)) <= set(spread(*distinct_values(counts), 19))
    assert spread(*distinct_values(counts[counts < 5]), 19) == [1.0, 2.0, 3.0, 4.0]
    assert spread(np.zeros(0), np.zeros(0, np.int64), 19) == []
