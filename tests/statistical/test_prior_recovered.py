"""Without the likelihood the chain samples the prior (trees, leaves, noise) at any scale of features."""

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from sampler.preparation import prepare
from tests.reference.prior import draw_tree
from tests.support.chain_driver import RESTRUCTURED, draws_of, mixes, move_sets, of_toy, tree_counts
from tests.support.reports.p_values import chi_square, holds
from tests.support.toy_problems import FORGETS, PARTICLES_FORGET, gapped, golden, missing

CGM10 = [
    0.0500,
    0.5523,
    0.2753,
    0.0918,
    0.0306,
]  # P(1, 2, 3, 4, 5+ leaves), alpha .95, beta 2, every split valid


def check_toy(make, moves):
    """Check the frequencies of every tree, leaf values and sigma of a chain without likelihood."""
    toy = make(likelihood=False)
    prior = {"nu": 4.0, "lambda": 0.3, "sigma_start": 0.3}
    data = of_toy(
        toy,
        prior,
        num_trees=1,
        num_draws=8_000,
        num_burnin=500,
        thin=PARTICLES_FORGET if moves == "pg" else FORGETS[make.__name__],
        moves=moves,
        prior_only=True,
        seed=3,
    )
    draws = draws_of(data)
    verdict = chi_square(tree_counts(toy, draws), np.append(toy.posterior, 0.0))
    leaves = draws.leaf[draws.feature < 0] * data.constants.step
    leaf = stats.kstest(leaves, stats.norm(0, toy.leaf_variance**0.5).cdf).pvalue
    noise = stats.kstest(4.0 * 0.3 / draws.sigma**2, stats.chi2(4.0).cdf).pvalue
    print(f"\n{make.__name__}, {moves}: {verdict}; leaf values p {leaf:.3g}; sigma p {noise:.3g}")
    holds(min(verdict.p, leaf, noise))


@pytest.mark.parametrize("moves", move_sets())
@pytest.mark.parametrize("make", [golden, gapped, missing])
@pytest.mark.sampled(quick=1, slow=4)
def test_toy(make, moves):
    """On enumerated problems every tree has its prior probability; so have leaves and noise."""
    check_toy(make, moves)


@pytest.mark.parametrize("make", [golden, missing])
@pytest.mark.slow
def test_toy_restructured(make):
    """The prior is recovered with frequent restructures."""
    check_toy(make, RESTRUCTURED)


SCALES = {
    "uniform": lambda X: X,
    "shifted": lambda X: X + 1e6,
    "negative": lambda X: -X - 3,
    "tiny": lambda X: X * 1e-9,
    "huge": lambda X: X * 1e12 - 5e11,
    "skewed": lambda X: np.exp(8 * X),
}


def check_leaf_counts(scale, moves):
    """Check leaf counts of the default prior (Chipman, George and McCulloch 2010) through `prepare`."""
    rng = np.random.default_rng(11)
    X, y = SCALES[scale](rng.uniform(size=(300, 4))), rng.normal(size=300)
    problem = prepare(
        X, y, num_trees=50, num_chains=1, num_burnin=100, num_draws=100, thin=40, prior_only=True, seed=5,
        moves=moves,
    )  # fmt: skip
    chain = Chain.start(problem.training, 0)
    chain.run(chain.iterations)
    draws = chain.take()
    counts = np.bincount(np.minimum(draws.leaf_counts.ravel(), 5), minlength=6)[1:]
    # 300 rows sometimes run out of splits: the law is simulated on the same codes
    rng = np.random.default_rng(12)
    here = [draw_tree(problem.training.codes, 0.95, 2.0, rng).num_leaves for _ in range(4000)]
    law = np.bincount(np.minimum(here, 5), minlength=6)[1:] / 4000
    np.testing.assert_allclose(law, CGM10, atol=0.03)
    p = stats.chi2_contingency([counts, law * 4000]).pvalue
    verdict = chi_square(counts, CGM10)
    print(f"\n{scale}, {moves}: against the simulated prior p {p:.3g}; against the ideal law {verdict}")
    holds(p)
    holds(verdict.p)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.sampled(quick=1, slow=3)
def test_leaf_counts(scale):
    """Leaf counts have their prior law with the default moves, however the features are scaled."""
    check_leaf_counts(scale, "default")


@pytest.mark.long
@pytest.mark.parametrize("moves", [moves for moves in mixes() if moves != "default"], ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_leaf_counts_long(scale, moves):
    """Leaf counts have their prior law with every other move set, however the features are scaled."""
    check_leaf_counts(scale, moves)


def test_columns_are_equally_likely():
    """Root splits choose every column equally often, whatever its number of cuts."""
    rng = np.random.default_rng(21)
    X = np.column_stack(
        [rng.uniform(size=400), rng.integers(0, 2, 400), rng.integers(0, 5, 400), rng.normal(size=400)]
    )
    problem = prepare(
        X, rng.normal(size=400), num_trees=50, num_chains=1, num_burnin=100, num_draws=150, thin=40,
        prior_only=True, seed=6,
    )  # fmt: skip
    chain = Chain.start(problem.training, 0)
    chain.run(chain.iterations)
    draws = chain.take()
    roots = draws.feature[draws.tree_start[:-1]]
    cut = draws.cut[draws.tree_start[:-1]]
    holds(chi_square(np.bincount(roots[roots >= 0], minlength=4), np.ones(4)).p)
    holds(chi_square(np.bincount(cut[roots == 2], minlength=4), np.ones(4)).p)
    continuous = cut[roots == 0].astype(int) * 10 // int(problem.training.num_codes[0] - 1)
    widths = np.bincount(
        np.arange(problem.training.num_codes[0] - 1) * 10 // (problem.training.num_codes[0] - 1)
    )
    holds(chi_square(np.bincount(continuous, minlength=10), widths).p)
