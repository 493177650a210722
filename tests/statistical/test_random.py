"""The engine's random numbers have their nominal distributions."""

import numpy as np
import pytest
from scipy import stats

from tests.support.open_kernels import random as engine
from tests.support.reports.p_values import chi_square, holds

SIZE = 200_000


def words(seed):
    """Return a generator's four words."""
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


def drawn(function, *arguments, seed=0, size=SIZE):
    """Return many numbers of one kernel from one stream."""
    state = words(seed)
    return np.array([function(state, *arguments) for _ in range(size)])


def test_normal():
    """Normal numbers have their law: Kolmogorov-Smirnov, cells of equal probability, extreme tails."""
    x = drawn(engine.normal)
    holds(stats.kstest(x, "norm").pvalue)
    cells = np.bincount((stats.norm.cdf(x) * 500).astype(int), minlength=500)
    holds(chi_square(cells, np.ones(500)).p)
    for tail in (x > 3.442619855899, x < -3.442619855899, np.abs(x) > 2.5):
        share = stats.norm.sf(3.442619855899) if tail.mean() < 0.005 else 2 * stats.norm.sf(2.5)
        holds(stats.binomtest(int(tail.sum()), len(x), share).pvalue)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 4.5 / np.sqrt(len(x))


@pytest.mark.parametrize("shape", [0.3, 0.5, 1.0, 1.5, 7.0, 503.0])
def test_gamma(shape):
    """Gamma numbers of scale 1 have their law, also below shape 1."""
    x = drawn(engine.gamma, shape, size=60_000)
    holds(stats.kstest(x, stats.gamma(shape).cdf).pvalue)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 254, 1000, 2**31 + 1])
def test_below(bound):
    """Bounded integers are uniform, also for a bound at which a plain remainder would be biased."""
    x = drawn(engine.below, bound, size=50_000)
    cells = min(bound, 500)
    counts = np.bincount((x.astype(float) * cells / bound).astype(int), minlength=cells)
    width = np.bincount((np.arange(bound) * cells // bound) if bound < 5000 else np.arange(cells))
    assert x.min() >= 0
    assert x.max() < bound
    holds(chi_square(counts, width).p)


def test_uniform():
    """Uniform numbers have their law and are never 0 or 1."""
    x = drawn(engine.uniform)
    holds(stats.kstest(x, "uniform").pvalue)
    assert x.min() > 0
    assert x.max() < 1


def test_words_are_xoshiro():
    """Words equal xoshiro256++ by its definition, in Python's integers."""
    state = words(5)
    s = [int(word) for word in state]
    mask = 2**64 - 1

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & mask

    for _ in range(100):
        expected = (rotated((s[0] + s[3]) & mask, 23) + s[0]) & mask
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)
        assert int(engine.next_word(state)) == expected
