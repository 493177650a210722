"""Long runs of the engine against the exact law of enumerated problems, within Monte Carlo error."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from sampler.moves import MOVE_NAMES
from tests.reference.enumerator import Forest, Toy, normalised
from tests.reference.moves import TRAPS, stationary, transition
from tests.support.chain_driver import draws_of, fits, mixes, of_toy, partition_counts, tree_counts
from tests.support.reports.p_values import ALARM, chi_square, holds, mean_is
from tests.support.toy_problems import (
    FORGETS,
    PARTICLES_FORGET,
    every_second,
    gapped,
    golden,
    missing,
    weighted,
)

PROBLEMS = {"golden": golden, "gapped": gapped, "missing": missing, "weighted": weighted}
SHORT, LONG = 8_000, 100_000


@cache
def forest_of(name, num_trees):
    """Return the exact posterior of a problem."""
    toy = PROBLEMS[name](leaf_variance=0.0625 / num_trees)
    return Forest(toy, num_trees)


def run(name, num_trees, moves, num_draws, **more):
    """Return draws of one long thinned chain, and f at the rows."""
    toy = forest_of(name, num_trees).toy
    data = of_toy(
        toy,
        num_trees=num_trees,
        num_draws=num_draws,
        num_burnin=1000,
        thin=PARTICLES_FORGET if moves == "pg" else FORGETS[name],
        moves=moves,
        seed=7,
        **more,
    )
    draws = draws_of(data)
    return draws, fits(draws, toy.codes, data.constants)


def check_one_tree(name, moves, num_draws):
    """Check a forest of one tree: the frequency of every tree, E[f]."""
    forest = forest_of(name, 1)
    toy = forest.toy
    draws, f = run(name, 1, moves, num_draws)
    verdict = chi_square(tree_counts(toy, draws), np.append(toy.posterior, 0.0))
    mean = mean_is(f, forest.mean())
    print(f"\n{name}, {moves}, one tree, {num_draws} draws: {verdict}; E[f] p {mean:.3g}")
    holds(verdict.p)
    holds(mean)


def check_two_trees(name, moves, num_draws):
    """Check a forest of two trees: the frequency of every pair of partitions, total leaves, E[f]."""
    forest = forest_of(name, 2)
    draws, f = run(name, 2, moves, num_draws)
    verdict = chi_square(partition_counts(forest, draws), np.append(forest.posterior(), 0.0))
    total = np.bincount(draws.leaf_counts.sum(1), minlength=2 * forest.toy.num_rows + 1)[2:]
    sizes = chi_square(total, forest.total_leaves())
    mean = mean_is(f, forest.mean())
    print(
        f"\n{name}, {moves}, two trees, {num_draws} draws: {verdict};"
        f" leaves p {sizes.p:.3g}; E[f] p {mean:.3g}"
    )
    holds(verdict.p)
    holds(sizes.p)
    holds(mean)


def check_unknown_noise(name, num_trees, moves, num_draws):
    """Check sigma, drawn too, against its exact marginal law with the forest summed out."""
    forest, nu, lambda_ = forest_of(name, num_trees), 3.0, 0.05
    prior = {"nu": nu, "lambda": lambda_, "sigma_start": 0.3}
    draws, _ = run(name, num_trees, moves, num_draws, prior=prior)
    log_grid = np.linspace(np.log(1e-4), np.log(1e4), 4000)
    # density of log sigma2, on a grid so fine that the width of its cells has no effect
    cdf = np.cumsum(forest.sigma_law(nu, lambda_, np.exp(log_grid)))
    u = np.interp(2 * np.log(draws.sigma), log_grid + 0.5 * (log_grid[1] - log_grid[0]), cdf)
    p = stats.kstest(u, "uniform").pvalue
    print(f"\n{name}, {moves}, {num_trees} trees, sigma unknown, {num_draws} draws: p {p:.3g}")
    holds(p)


@pytest.mark.parametrize(("name", "moves"), every_second(PROBLEMS, mixes()), ids=str)
@pytest.mark.sampled(quick=1, slow=4)
def test_one_tree(name, moves):
    """Every move set has the enumerated posterior of one tree, on every second problem."""
    check_one_tree(name, moves, SHORT)


@pytest.mark.slow
def test_uneven_moves():
    """Moves of unequal probabilities together have the exact posterior: their ratios enter the acceptance."""
    moves = {"grow": 0.35, "prune": 0.15, "change_nog": 0.15, "change": 0.2, "swap": 0.1, "restructure": 0.05}
    assert {*moves, "rule", "pg"} == set(MOVE_NAMES)
    check_one_tree("missing", moves | {"rule": 0.3}, SHORT)


@pytest.mark.parametrize("moves", mixes(), ids=str)
@pytest.mark.sampled(quick=1, slow=3)
def test_two_trees(moves):
    """Backfitting of two trees has the enumerated posterior."""
    check_two_trees("golden", moves, SHORT)


@pytest.mark.parametrize("name", ["golden", "weighted"])
@pytest.mark.slow
def test_unknown_noise(name):
    """The noise, drawn with the trees, has its exact posterior."""
    check_unknown_noise(name, 1, "default", SHORT)


def check_probit(num_trees, moves, num_draws):
    """Check partitions of two classes against orthant probabilities of the latent normal, m = 1 or 2."""
    labels, offset = np.array([0, 1, 0, 0, 1]), -0.3
    toy = golden(leaf_variance=0.8 / num_trees, sigma2=1.0)
    forest = Forest(toy, num_trees)
    signs = np.where(labels, 1.0, -1.0)
    covariance = (forest.kernel + np.eye(toy.num_rows)) * np.outer(signs, signs)
    keys, where = np.unique(covariance.reshape(len(covariance), -1), axis=0, return_inverse=True)
    orthants = [
        stats.multivariate_normal.cdf(
            signs * offset, cov=key.reshape(len(signs), -1), rng=1, abseps=1e-7, releps=1e-7
        )
        for key in keys
    ]
    law = normalised(forest.log_prior + np.log(orthants)[where])
    prior = {"offset": offset}
    draws = draws_of(
        of_toy(
            replaced_outcome(toy, labels), prior, family="probit", num_trees=num_trees, num_draws=num_draws,
            num_burnin=1000, thin=FORGETS["golden"], moves=moves, seed=9,
        )
    )  # fmt: skip
    verdict = chi_square(partition_counts(forest, draws), np.append(law, 0.0))
    print(f"\nprobit, {moves}, {num_trees} trees, {num_draws} draws: {verdict}")
    holds(verdict.p)
    np.testing.assert_array_equal(draws.sigma, 1.0)


@pytest.mark.parametrize("trap", [name for name, trap in TRAPS.items() if trap[3] in ("golden", "gapped")])
@pytest.mark.sampled(quick=1, slow=3)
def test_power(trap):
    """The test rejects the law of a published mistake at the same number of draws."""
    mix, options, forced, name = TRAPS[trap]
    toy = forest_of(name, 1).toy
    wrong = np.maximum(stationary(transition(toy, mix, options, forced)), 1e-12)
    verdict = chi_square(engine_counts(name), np.append(wrong, 0.0))
    print(f"\n{trap}: {verdict}")
    assert verdict.p < ALARM


@cache
def engine_counts(name):
    """Return the engine's counts of each tree of a problem in a short run."""
    return tree_counts(forest_of(name, 1).toy, run(name, 1, "growprune", SHORT)[0])


def replaced_outcome(toy, y):
    """Return the toy with other outcomes."""
    return Toy(toy.codes, y, toy.alpha, toy.beta, toy.sigma2, toy.leaf_variance)


@pytest.mark.slow
def test_probit():
    """The probit posterior of one tree is exact; two trees, with costly orthants, are in the long form."""
    check_probit(1, "default", SHORT)


@pytest.mark.long
@pytest.mark.parametrize("moves", mixes(), ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_one_tree_long(name, moves):
    """The law of one tree is exact at a several times smaller total variation."""
    check_one_tree(name, moves, LONG)


@pytest.mark.long
@pytest.mark.parametrize("moves", mixes(), ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_two_trees_long(name, moves):
    """The law of two trees is exact at a several times smaller total variation."""
    check_two_trees(name, moves, LONG)


@pytest.mark.long
@pytest.mark.parametrize("num_trees", [1, 2])
@pytest.mark.parametrize("moves", mixes(), ids=str)
def test_probit_long(moves, num_trees):
    """The probit posterior is exact with more draws, for every move set."""
    check_probit(num_trees, moves, LONG)


@pytest.mark.long
@pytest.mark.parametrize("num_trees", [1, 2])
@pytest.mark.parametrize("moves", mixes(), ids=str)
def test_unknown_noise_long(moves, num_trees):
    """The noise's posterior is exact with more draws, for every move set."""
    check_unknown_noise("golden", num_trees, moves, LONG)
