"""The simulated prior has the enumerated law."""

import numpy as np
import pytest

from tests.reference.enumerator import leaf_law
from tests.reference.prior import draw_forest, draw_sigma2, draw_tree
from tests.support.reports.p_values import ALARM, chi_square
from tests.support.toy_problems import gapped, golden, missing


@pytest.mark.parametrize(
    "make", [golden, *(pytest.param(toy, marks=pytest.mark.slow) for toy in (gapped, missing))]
)
def test_leaf_law(make):
    """Leaf counts of simulated trees have the exact law, with gaps and missing values."""
    toy, rng = make(), np.random.default_rng(1)
    counts = np.zeros(toy.num_rows)
    for _ in range(4000):
        counts[draw_tree(toy.codes, toy.alpha, toy.beta, rng).num_leaves - 1] += 1
    assert chi_square(counts, leaf_law(toy, np.exp(toy.log_prior))).p > ALARM


def test_unbounded_law():
    """Leaf counts have the law of the default prior if every split is valid."""
    rng = np.random.default_rng(2)
    codes = rng.permuted(np.tile(np.arange(250), (4, 1)), axis=1).astype(np.uint8)
    sizes = [draw_tree(codes, 0.95, 2.0, rng).num_leaves for _ in range(4000)]
    counts = np.bincount(np.minimum(sizes, 5), minlength=6)[1:]
    assert chi_square(counts, [0.0500, 0.5523, 0.2753, 0.0918, 0.0306]).p > ALARM


@pytest.mark.slow
def test_variance_of_f():
    """f at a row is normal around the offset with variance m leaf_sd^2; sigma^2 has its median."""
    rng = np.random.default_rng(3)
    toy = golden()
    f = np.array([draw_forest(toy.codes, 3, 0.95, 1.0, 0.5, rng, offset=2.0).f[0] for _ in range(4000)])
    assert f.mean() == pytest.approx(2.0, abs=5 * 0.866 / 63)
    assert f.var() == pytest.approx(0.75, rel=0.12)
    sigma2 = [draw_sigma2(3.0, 0.2, rng) for _ in range(4000)]
    assert np.median(sigma2) == pytest.approx(0.6 / 2.366, rel=0.12)
