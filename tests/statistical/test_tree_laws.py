"""Particle Gibbs under every prior of trees against exact enumeration: the posterior, and the prior alone."""

from functools import cache

import numpy as np
import pytest

from tests.reference.enumerator import Forest
from tests.reference.tree_laws import under
from tests.support.chain_driver import draws_of, fits, partition_counts, training, tree_counts
from tests.support.reports.p_values import ALARM, chi_square, holds, mean_is
from tests.support.toy_problems import equal_rows, golden, missing, weighted
from tests.support.tree_laws import LAWS

PROBLEMS = {"equal rows": equal_rows, "golden": golden, "missing": missing, "weighted": weighted}
# iterations after which the slowest mode decays to about a third, by particles
FORGETS = {2: 150, 3: 60, 10: 30}
SHORT, LONG = 4_000, 40_000


def engine(toy, trees, particles, num_draws, num_trees=1, **settings):
    """Return the training and draws of one long thinned chain by particles alone."""
    prior = {"leaf_sd": toy.leaf_variance**0.5, "sigma": toy.sigma2**0.5, **trees}
    if trees["trees"] in ("depth", "balanced"):
        prior |= {"alpha": toy.alpha, "beta": toy.beta}
    data = training(
        toy.codes, toy.y, weights=toy.weights, prior=prior, num_trees=num_trees, num_draws=num_draws,
        num_burnin=1000, thin=FORGETS[particles] * num_trees, moves="pg", particles=particles, seed=5,
        **settings,
    )  # fmt: skip
    return data, draws_of(data)


@cache
def counted(name, law, particles, num_draws, *, prior_only=False):
    """Return the exact problem and the draws of each of its trees, with a cell for any other."""
    toy = under(PROBLEMS[name](likelihood=not prior_only), LAWS[law])
    _, draws = engine(toy, LAWS[law], particles, num_draws, prior_only=prior_only)
    return toy, tree_counts(toy, draws)


def check_one_tree(name, law, particles, num_draws, **more):
    """Check the frequency of every tree."""
    toy, counts = counted(name, law, particles, num_draws, **more)
    verdict = chi_square(counts, np.append(toy.posterior, 0.0))
    print(f"\n{name}, {law}, {particles} particles, {num_draws} draws, {more}: {verdict}")
    holds(verdict.p)


def check_two_trees(name, law, particles, num_draws):
    """Check the frequency of every pair of partitions, and E[f]."""
    toy = under(PROBLEMS[name](leaf_variance=0.03), LAWS[law])
    forest = Forest(toy, 2)
    data, draws = engine(toy, LAWS[law], particles, num_draws, num_trees=2)
    verdict = chi_square(partition_counts(forest, draws), np.append(forest.posterior(), 0.0))
    mean = mean_is(fits(draws, toy.codes, data.constants), forest.mean())
    print(f"\n{name}, {law}, two trees, {particles} particles: {verdict}; E[f] p {mean:.3g}")
    holds(verdict.p)
    holds(mean)


def test_particles_draw_from_the_prior_of_leaves():
    """Trees have their exact posterior where some must have more leaves than rows allow."""
    check_one_tree("equal rows", "leaves", 3, SHORT // 2)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_one_tree(law):
    """Every prior has the enumerated posterior of one tree."""
    check_one_tree("golden", law, 10, SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_two_trees(law):
    """Backfitting of two trees has the enumerated posterior."""
    check_two_trees("missing", law, 10, SHORT // 2)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_the_prior_alone(law):
    """Without the likelihood every tree has its prior probability."""
    check_one_tree("golden", law, 10, SHORT, prior_only=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "mistake"),
    [
        ("leaves", LAWS["leaves"] | {"mistaken": True}),  # shares as likely in place of Catalan's
        ("pinball", LAWS["pinball"] | {"evenness": 1.0}),
        ("balanced", LAWS["balanced"] | {"tries": 1}),
    ],
)
def test_power(law, mistake):
    """The law of a near prior is rejected at the same number of draws."""
    _, counts = counted("golden", law, 10, SHORT)
    wrong = under(golden(), mistake)
    toy = under(golden(), LAWS[law])
    posterior = np.array([wrong.posterior[wrong.index[tree]] for tree in toy.trees])
    verdict = chi_square(counts, np.append(posterior, 0.0))
    print(f"\n{law}, taken for {mistake}: {verdict}")
    assert verdict.p < ALARM


@pytest.mark.long
@pytest.mark.parametrize("particles", FORGETS)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("law", LAWS)
def test_one_tree_long(law, name, particles):
    """The law of one tree is exact with few particles and more, on every problem."""
    check_one_tree(name, law, particles, LONG)


@pytest.mark.long
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("law", LAWS)
def test_the_prior_alone_long(law, name):
    """The prior is recovered on every problem, with three particles."""
    check_one_tree(name, law, 3, LONG, prior_only=True)


@pytest.mark.long
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("law", LAWS)
def test_two_trees_long(law, name):
    """The law of two trees is exact on every problem."""
    check_two_trees(name, law, 10, LONG)
