"""Weights of draws: both representations agree when weights are equal."""

import numpy as np
import pytest

from sampler.posterior.weighting.draw_weights import EqualWeights, ImportanceWeights

RUNS, DRAWS = 3, 50
EQUAL, GIVEN = EqualWeights(RUNS), ImportanceWeights(np.full((RUNS, DRAWS + 9), -4.0))
F = np.random.default_rng(5).normal(size=(4, RUNS, DRAWS))


def test_equal_weights_are_weights():
    """Equal explicit weights give the means, shares and draws of unweighted ones."""
    np.testing.assert_allclose(GIVEN.mean_of(F, DRAWS), EQUAL.mean_of(F, DRAWS), rtol=1e-12)
    np.testing.assert_allclose(GIVEN.shares(DRAWS), EQUAL.shares(DRAWS), rtol=1e-12)
    every = RUNS * DRAWS
    assert GIVEN.spaced(DRAWS, every).tolist() == EQUAL.spaced(DRAWS, every).tolist() == list(range(every))
    assert EQUAL.unequal(DRAWS) is None
    assert GIVEN.unequal(DRAWS).shape == (RUNS, DRAWS)
    assert EqualWeights(RUNS, as_weighted=True).mean_of(F, DRAWS) == pytest.approx(F.mean(axis=(1, 2)))


def test_a_heavy_draw_is_chosen_often():
    """Draws resampled by weight repeat the heavy ones, and quantiles follow the weights."""
    log = np.zeros((2, 10))
    log[1, 3] = np.log(81.0)  # 81 of 100
    weights = ImportanceWeights(log)
    assert np.count_nonzero(weights.spaced(10, 100) == 13) == 81
    values = np.arange(20.0)[None]
    assert weights.quantiles(values, np.array([0.5]), 10).tolist() == [[13.0]]
    assert EqualWeights(2).quantiles(values, np.array([0.5]), 10).tolist() == [[9.5]]
