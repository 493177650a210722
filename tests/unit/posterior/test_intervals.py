"""Intervals are exact quantiles: of the draws for f, of their normal mixture for a new outcome."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from sampler.data.transform import IDENTITY, Transform
from sampler.errors import SettingsError
from sampler.posterior.core.intervals import (
    FARTHEST_PLACE,
    FINER,
    AlikeNoise,
    IntervalFigures,
    Lines,
    Request,
)
from tests.support.models.random_posteriors import make_posterior

STEP = 2.0**-18


def answer(steps, sigma, level=0.9, interval="credible", quantiles=None):
    figures = IntervalFigures(steps.shape[1:], Request.check(level, interval, quantiles))
    figures.fill(slice(0, steps.shape[1]), steps, 3.0, STEP, sigma)
    return figures


def draws(seed, num_draws=200, num_rows=4, spread=0.5):
    rng = np.random.default_rng(seed)
    steps = (rng.normal(size=(num_draws, num_rows)) * spread / STEP).astype(np.int32)
    return steps, rng.uniform(0.8, 1.2, num_draws)


@pytest.mark.parametrize("num_draws", [1, 2, 3, 100, 101])
def test_credible_intervals_are_sample_quantiles(num_draws):
    """Mean, sd and every quantile equal numpy's on the draws of f."""
    steps, sigma = draws(1, num_draws)
    figures = answer(steps, sigma, [0.5, 0.9], quantiles=[0.01, 0.5, 0.999])
    f = 3.0 + STEP * steps
    np.testing.assert_allclose(figures.mean, f.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(figures.sd, f.std(axis=0, ddof=1) if num_draws > 1 else 0, rtol=1e-12)
    for level, lower, upper in figures.intervals:
        np.testing.assert_allclose(lower, np.quantile(f, (1 - level) / 2, axis=0), rtol=1e-13)
        np.testing.assert_allclose(upper, np.quantile(f, (1 + level) / 2, axis=0), rtol=1e-13)
    for q, values in figures.quantiles:
        np.testing.assert_allclose(values, np.quantile(f, q, axis=0), rtol=1e-13)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.0, 1e-3, 0.3, 2.0, 50.0]),
    q=st.one_of(st.floats(1e-6, 1 - 1e-6), st.sampled_from([0.05, 0.5, 0.95, 1e-9])),
)
def test_predictive_quantiles_solve_the_mixture(seed, spread, q):
    """The mixture's distribution function at the quantile is the level, as scipy finds it, to 1e-10."""
    steps, sigma = draws(seed, 60, 1, spread)
    f = 3.0 + STEP * steps[:, 0]
    ((_, (quantiles,)),) = answer(steps, sigma, None, "predictive", q).quantiles
    ends = (f - 12 * sigma).min(), (f + 12 * sigma).max()
    if q <= 0.5:
        exact = brentq(lambda x: ndtr((x - f) / sigma).mean() - q, *ends, xtol=1e-13, rtol=1e-15)
    else:
        exact = brentq(lambda x: (1 - q) - ndtr((f - x) / sigma).mean(), *ends, xtol=1e-13, rtol=1e-15)
    density = np.mean(np.exp(-0.5 * ((exact - f) / sigma) ** 2) / sigma) / np.sqrt(2 * np.pi)
    # the error of evaluating the distribution function moves the root by this much where it is flat
    assert abs(quantiles - exact) < 1e-10 * np.hypot(f.std(), 1) + 1e-15 / density


def test_predictive_of_clusters_far_apart():
    """Quantiles of a mixture with gaps, where Newton's method alone fails, are found."""
    steps = (np.repeat([0, 1000, 5000], 20)[:, None] / STEP / 10).astype(np.int32)
    sigma = np.full(60, 1e-3)
    for q in (0.1, 0.3, 0.5, 0.9, 0.999):
        ((_, (quantiles,)),) = answer(steps, sigma, None, "predictive", q).quantiles
        assert abs(ndtr((quantiles - 3.0 - STEP * steps[:, 0]) / sigma).mean() - q) < 1e-9


def test_predictive_mean_and_sd():
    """The predictive mean is f's, and the noise variance is added to f's."""
    steps, sigma = draws(2)
    f = STEP * steps
    figures = answer(steps, sigma, interval="predictive")
    np.testing.assert_allclose(figures.mean, 3 + f.mean(axis=0))
    np.testing.assert_allclose(figures.sd**2, f.var(axis=0, ddof=1) + np.mean(sigma**2))


def test_predictive_contains_credible():
    """Predictive intervals contain the credible ones."""
    steps, sigma = draws(3)
    (inner,) = answer(steps, sigma).intervals
    (outer,) = answer(steps, sigma, interval="predictive").intervals
    assert np.all(outer.lower < inner.lower)
    assert np.all(inner.upper < outer.upper)


def test_sums_past_32_bits():
    """Sums beyond int32 give the intervals of their values."""
    steps, sigma = draws(4)
    wide = steps.astype(np.int64) * 2**16
    (interval,) = answer(wide, sigma * 2**16, interval="predictive").intervals
    (plain,) = answer(steps, sigma, interval="predictive").intervals
    np.testing.assert_allclose((interval.lower - 3) / 2**16, plain.lower - 3, rtol=1e-6)


def mixture(f, sigma, alike, transform=IDENTITY):
    """Bounds of f [row, draw] with noise of one size, by the search for any noise or by the fast one."""
    figures = IntervalFigures((len(f),), Request.check([0.5, 0.9], "predictive", [0.01, 0.5]))
    noise = np.broadcast_to(sigma, f.shape)
    noise_law = AlikeNoise(sigma, 3.0, STEP) if alike else None
    figures.fill_mixtures(slice(0, len(f)), f, noise, None, transform, noise_law)
    return figures


@pytest.mark.parametrize("transform", [IDENTITY, Transform("log")])
def test_draws_off_the_grid_have_the_quantiles_of_any_noise(transform):
    """Within a grid's step, the same moments; a row is the same alone; one too far away is found slowly."""
    rng = np.random.default_rng(2)
    f, sigma = 3.0 + rng.normal(size=(6, 150)) * rng.uniform(0.01, 1, size=(6, 1)), rng.uniform(0.3, 0.4, 150)
    fast, slow = (mixture(f, sigma, alike, transform) for alike in (True, False))
    for one, other in zip(
        (*fast.intervals, *fast.quantiles), (*slow.intervals, *slow.quantiles), strict=True
    ):
        np.testing.assert_allclose(
            np.array(one[1:]), np.array(other[1:]), rtol=STEP / FINER, atol=STEP / FINER
        )
    np.testing.assert_array_equal(fast.mean, slow.mean)
    alone = mixture(f[2:3], sigma, alike=True, transform=transform)
    assert alone.quantiles[0].values[0] == fast.quantiles[0].values[2]
    if not transform:
        far = np.array([f[0], f[0] + 2 * FARTHEST_PLACE * STEP / FINER])
        both, only = mixture(far, sigma, alike=True), mixture(far[1:], sigma, alike=False)
        assert both.quantiles[0].values[1] == only.quantiles[0].values[0]


def test_lines_beside_sums_have_the_figures_of_their_draws():
    """Figures of lines and sums equal those of their draws off the grid, within a fraction of its step."""
    steps, sigma = draws(6, 150, 5)
    generator = np.random.default_rng(6)
    lines = Lines(generator.normal(size=(150, 3)), generator.normal(size=(3, 5)))
    noise = AlikeNoise(sigma, 3.0, STEP)
    fast, slow = (
        IntervalFigures((5,), Request.check([0.5, 0.9], "predictive", [0.01, 0.5])) for _ in range(2)
    )
    fast.fill_lines(slice(0, 5), steps, lines, noise)
    f = 3.0 + STEP * steps.T + (lines.slopes @ lines.terms).T
    slow.fill_mixtures(slice(0, 5), f, np.broadcast_to(sigma, f.shape))
    for one, other in zip(
        (*fast.intervals, *fast.quantiles), (*slow.intervals, *slow.quantiles), strict=True
    ):
        np.testing.assert_allclose(np.array(one[1:]), np.array(other[1:]), rtol=1e-8, atol=STEP / FINER)
    np.testing.assert_allclose(fast.mean, slow.mean, rtol=1e-12)
    np.testing.assert_allclose(fast.sd, slow.sd, rtol=1e-12)


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, 90, "high", float("nan"), True, [0.9, 95], [None]])
def test_bad_levels(level):
    """A level that is no probability, such as a percentage, is refused."""
    with pytest.raises(SettingsError, match=r"between 0 and 1 \(0.9 for 90%\)"):
        Request.check(level, "credible", None)


def test_bad_kind():
    """Only credible and predictive intervals are accepted."""
    with pytest.raises(SettingsError, match="credible, predictive"):
        Request.check(0.9, "confidence", None)


@pytest.mark.parametrize("level", [[0.5, 0.9], [], None])
def test_figures_with_one_interval_take_one_level(level):
    """Several levels, or none, are refused by name where there is one interval."""
    posterior, X, _ = make_posterior()
    for use in (posterior.inclusion, lambda level: posterior.shap(X, level=level)):
        with pytest.raises(SettingsError, match="level must be one number") as refused:
            use(level=level)
        assert refused.value.field == "level"
