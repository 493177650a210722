"""Bayesian CART against exact enumeration: every tree, the leaves' parameters and the noise."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from sampler.chains import start_chain
from tests.reference import single_tree as toys
from tests.reference.enumerator import leaf_law
from tests.support.chain_driver import check_resuming
from tests.support.reports.p_values import chi_square, holds
from tests.support.toy_problems import FORGETS, every_second

SHORT, LONG = 8_000, 100_000
MODELS = ("shift", "variance", "classes")
MOVES = {
    "growprune": ("growprune", {}),
    "cgm": ("cgm", {}),
    "wu": ({"grow": 0.2, "prune": 0.1, "change": 0.3, "swap": 0.15, "restructure": 0.25}, {}),
}
PROBLEMS = {"golden": toys.golden, "missing": toys.missing, "weighted": toys.weighted}
CASES = [(name, model) for name in PROBLEMS for model in MODELS if (name, model) != ("weighted", "classes")]
# docs/maths.md#tests: evidence and P(1..5 leaves) under scheme A
GOLDEN = {
    "shift": (-2.5406264548, [0.03601592, 0.36020977, 0.32227055, 0.21319694, 0.06830682]),
    "variance": (-2.7488354241, [0.04435254, 0.40229118, 0.31551990, 0.18500335, 0.05283303]),
    "classes": (-3.6624227251, [0.03246301, 0.35080336, 0.33905325, 0.21513472, 0.06254566]),
}


@cache
def toy_of(name, model):
    """Return a problem with its exact answer."""
    return PROBLEMS[name](model)


def drawn(toy, moves, num_draws, thin, **more):
    """Return draws of one long thinned chain."""
    data = toys.training_of(
        toy, num_draws=num_draws, num_burnin=1000, thin=thin, moves=moves, seed=11, **more
    )
    chain = start_chain(data, 0)
    chain.run(chain.iterations)
    return chain.take()


def check_trees(name, model, moves, num_draws):
    """Check the frequency of every tree."""
    toy = toy_of(name, model)
    draws = drawn(toy, MOVES[moves][0], num_draws, FORGETS[name])
    places = toys.drawn_trees(toy, draws)
    assert places.min() >= 0
    verdict = chi_square(np.bincount(places, minlength=len(toy.trees)), toy.posterior)
    print(f"\n{name}, {model}, {moves}, {num_draws} draws: {verdict}")
    holds(verdict.p)
    return toy, draws


@pytest.mark.parametrize("model", MODELS)
def test_golden_evidence(model):
    """The twins give the published evidences and leaf laws, so the engine's reference is right."""
    toy = toys.golden(model, scheme="A")
    evidence, law = GOLDEN[model]
    assert toy.log_evidence == pytest.approx(evidence, abs=1e-9)
    np.testing.assert_allclose(leaf_law(toy, toy.posterior), law, atol=1e-8)


@pytest.mark.parametrize(("case", "moves"), every_second(CASES, MOVES), ids=str)
@pytest.mark.sampled(quick=1, slow=4)
def test_trees(case, moves):
    """Every move set and leaf model has the enumerated posterior, with missing values, weights or neither."""
    name, model = case
    check_trees(name, model, moves, SHORT)


@pytest.mark.long
@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize(("name", "model"), CASES)
def test_trees_long(name, model, moves):
    """The law of trees is exact at a several times smaller total variation."""
    check_trees(name, model, moves, LONG)


@pytest.mark.slow
def test_prior_only():
    """Without likelihood the trees have their prior."""
    toy = toys.golden("shift", likelihood=False)
    draws = drawn(toy, MOVES["wu"][0], SHORT, FORGETS["golden"], prior_only=True)
    places = toys.drawn_trees(toy, draws)
    holds(chi_square(np.bincount(places, minlength=len(toy.trees)), toy.posterior).p)


@pytest.mark.parametrize("name", ["golden", "weighted"])
def test_shift_leaves_and_noise(name):
    """Given the tree the noise is inverse gamma, and given both a leaf's mean is normal."""
    toy = toy_of(name, "shift")
    w = np.ones(len(toy.y)) if toy.weights is None else toy.weights
    draws = drawn(toy, "cgm", 2000, 20)
    explained, z = np.zeros(2000), []
    for draw, rows, (mean,) in toys.leaf_rows(toy, draws):
        size, total = w[rows].sum() + toys.PRECISION, (w * toy.y)[rows].sum()
        explained[draw] += total**2 / size
        z.append((mean - total / size) / (draws.sigma[draw] / np.sqrt(size)))
    scale = toys.NU * toys.LAMBDA + np.sum(w * toy.y**2) - explained
    u = stats.chi2(toys.NU + len(toy.y)).sf(scale / draws.sigma**2)
    holds(stats.kstest(u, "uniform").pvalue)
    holds(stats.kstest(z, "norm").pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["golden", "weighted"])
def test_variance_leaves(name):
    """Each leaf's noise is inverse gamma given its rows, and its mean normal given the noise."""
    toy = toy_of(name, "variance")
    w = np.ones(len(toy.y)) if toy.weights is None else toy.weights
    u, z = [], []
    for _, rows, (mean, sd) in toys.leaf_rows(toy, drawn(toy, "cgm", 2000, 20)):
        size, total = w[rows].sum() + toys.PRECISION, (w * toy.y)[rows].sum()
        scale = toys.NU * toys.LAMBDA + np.sum((w * toy.y**2)[rows]) - total**2 / size
        u.append(stats.chi2(toys.NU + len(rows)).sf(scale / sd**2))
        z.append((mean - total / size) / (sd / np.sqrt(size)))
    holds(stats.kstest(u, "uniform").pvalue)
    holds(stats.kstest(z, "norm").pvalue)


@pytest.mark.slow
def test_class_leaves():
    """The probabilities of a leaf's classes are Dirichlet given its counts."""
    toy = toy_of("golden", "classes")
    u = []
    for _, rows, chances in toys.leaf_rows(toy, drawn(toy, "cgm", 2000, 20)):
        ones = np.count_nonzero(toy.y[rows])
        u.append(stats.beta(1 + ones, 1 + len(rows) - ones).cdf(chances[1]))
        assert chances.sum() == pytest.approx(1)
    holds(stats.kstest(u, "uniform").pvalue)


@pytest.mark.parametrize("moves", MOVES)
def test_resumed_anywhere(moves):
    """A chain stopped and resumed anywhere keeps equal draws."""
    rng = np.random.default_rng(3)
    toy = toys.golden("variance")
    toy.codes = rng.integers(0, 30, (4, 300)).astype(np.uint8)
    toy.y = rng.normal(size=300) + (toy.codes[0] > 11) * 2 - (toy.codes[1] > 20)
    data = toys.training_of(toy, num_draws=60, num_burnin=50, thin=9, moves=MOVES[moves][0])
    check_resuming(data, chain=2, run=lambda chain: chain.run(int(rng.integers(1, 40))), burnin=50)
