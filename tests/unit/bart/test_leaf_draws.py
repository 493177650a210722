"""Draws of a leaf value: those of unchanged trees are over-relaxed, and keep the conditional."""

import numpy as np
import pytest

from sampler.bart.kernels.leaf_models import normal

SIGMA2, TAU2 = 900.0, 250.0


def model():
    """Return parameters of normal leaves without rows."""
    none = np.zeros(0, np.int32)
    noise = np.array([SIGMA2, 1.0, 1.0])
    return normal.Normal(np.array([TAU2]), noise, none, none, np.zeros(2, int), np.zeros(0, int))


def conditional(size, total):
    """Return mean and variance of a leaf value given the rest (docs/maths.md#leaf-prior)."""
    spread = SIGMA2 + size * TAU2
    return TAU2 * total / spread, SIGMA2 * TAU2 / spread


@pytest.mark.parametrize(("size", "total"), [(0.0, 0.0), (3.0, -40.0), (400.0, 9000.0)])
def test_over_relaxed_values(size, total):
    """They are linear in the present value with slope -r, and as spread as the conditional."""
    mean, variance = conditional(size, total)
    share = 1 - variance / TAU2
    random = np.random.SeedSequence(5).generate_state(4, np.uint64)
    news = {}
    for old in (-1000, 0, 1000):
        again = random.copy()
        news[old] = np.array(
            [normal.redraw_leaf(model(), size, total, np.int32(old), again) for _ in range(4000)]
        )
        fresh = random.copy()
        drawn = np.array([normal.draw_leaf(model(), size, total, fresh) for _ in range(4000)])
        np.testing.assert_allclose(
            news[old] - mean + share * (old - mean), (drawn - mean) * np.sqrt(1 - share**2), atol=1e-9
        )
    np.testing.assert_allclose(news[1000] - news[-1000], -2000 * share, rtol=1e-12, atol=1e-9)
    # Var(-r (old - m) + rest) with old from the conditional is the conditional's
    assert share**2 * variance + (1 - share**2) * drawn.var() == pytest.approx(variance, rel=0.1)


def test_without_data_values_are_drawn_afresh():
    """The present value is forgotten where no row counts."""
    random = np.random.SeedSequence(6).generate_state(4, np.uint64)
    values = [
        normal.redraw_leaf(model(), 0.0, 0.0, np.int32(old), random.copy()) for old in (-(10**6), 0, 10**6)
    ]
    assert values[0] == values[1] == values[2]
