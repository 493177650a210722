"""The particle filter against exact enumeration: an unbiased evidence and the weighted law of trees."""

import numpy as np
import pytest
from scipy import stats

from sampler.chains import start_chain
from sampler.posterior.weighting.importance_weights import Weights
from tests.reference import single_tree as toys
from tests.reference.enumerator import count_leaves
from tests.support.chain_driver import check_resuming
from tests.support.reports.p_values import holds

RUNS, LONG_RUNS = 400, 10_000
PROBLEMS = {"golden": toys.golden, "missing": toys.missing, "weighted": toys.weighted}
CASES = [
    *((name, model) for name in ("golden", "missing") for model in ("shift", "classes")),
    ("weighted", "shift"),
]


def runs_of(toy, particles, runs, moves, seed=5):
    """Return the draws of independent runs."""
    data = toys.training_of(toy, method="smc", num_draws=particles, moves=moves, seed=seed, num_burnin=None)
    results = []
    for run in range(runs):
        chain = start_chain(data, run)
        while not chain.done:
            chain.run(1000)
        results.append(chain.take())
    return results


def check_filter(name, model, moves, runs):
    """Check that the evidence estimate is unbiased and weighted tree sizes have their law."""
    toy = PROBLEMS[name](model)
    results = runs_of(toy, 10, runs, moves)
    weights = Weights(np.array([draws.log_weight for draws in results]))
    ratio = np.exp(weights.log_evidence - toy.log_evidence)
    sizes = np.array([count_leaves(tree) for tree in toy.trees])
    exact = np.array([toy.posterior[sizes == k].sum() for k in range(1, sizes.max() + 1)])
    leaves = np.array([draws.leaf_counts[:, 0] for draws in results])
    share = np.exp(weights.log - toy.log_evidence)  # within a run they sum to its ratio
    law = np.array([(share * (leaves == k)).sum(axis=1) for k in range(1, sizes.max() + 1)])
    errors = law.std(axis=1, ddof=1) / np.sqrt(runs)
    z = np.append((law.mean(axis=1) - exact) / errors, (ratio.mean() - 1) / stats.sem(ratio))
    p = 2 * stats.norm.sf(np.abs(z)).min() * len(z)
    print(f"\n{name}, {model}, {moves}: ratio {ratio.mean():.4f} (se {stats.sem(ratio):.4f}), p {p:.3g}")
    holds(p)


@pytest.mark.parametrize("moves", ["optimal", "prior"])
@pytest.mark.parametrize(("name", "model"), CASES)
@pytest.mark.sampled(quick=1, slow=4)
def test_filter(name, model, moves):
    """Both proposals have the law for numbers and classes, with missing values, weights or neither."""
    check_filter(name, model, moves, RUNS)


@pytest.mark.long
@pytest.mark.parametrize("moves", ["optimal", "prior"])
@pytest.mark.parametrize(("name", "model"), CASES)
def test_filter_long(name, model, moves):
    """The filter's law holds at five times the precision."""
    check_filter(name, model, moves, LONG_RUNS)


def test_prior_only():
    """Without likelihood all particles weigh the same, and the evidence is one."""
    toy = toys.golden("shift")
    data = toys.training_of(toy, method="smc", num_draws=50, prior_only=True, num_burnin=None)
    chain = start_chain(data, 0)
    chain.run(10_000)
    np.testing.assert_allclose(chain.take().log_weight, -np.log(50), atol=1e-12)


def test_resumed_anywhere():
    """A run stopped and resumed anywhere gives equal particles and weights."""
    rng = np.random.default_rng(3)
    toy = toys.golden("shift")
    toy.codes = rng.integers(0, 30, (4, 200)).astype(np.uint8)
    toy.y = rng.normal(size=200) + (toy.codes[0] > 11) * 2 - (toy.codes[1] > 20)
    data = toys.training_of(toy, method="smc", num_draws=40, num_burnin=None)
    check_resuming(data, chain=2, run=lambda chain: chain.run(int(rng.integers(1, 200))))
