"""The number of trees, where it is drawn: its prior without data, enumerated forests, and Geweke's test."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from sampler.bart.kernels.leaf_models.normal import TAU2, UNIT2
from sampler.bart.prior import law_of_number
from tests.reference.enumerator import Forest
from tests.support.chain_driver import check_resuming, decode, draws_of, fits, of_toy, training, tree_keys
from tests.support.reports.p_values import ALARM, all_above, chi_square, holds, mean_is
from tests.support.toy_problems import FORGETS, golden, missing, weighted

PLACES = 2
PROBLEMS = {"golden": golden, "missing": missing, "weighted": weighted}


class Places(Forest):
    """The exact posterior of two places, each with a tree or none: partition 0 stands for an absent tree."""

    def __init__(self, toy, kind, mean):
        super().__init__(toy, PLACES)
        prior = np.concatenate([[1.0], self.partition_prior])
        self.grams = np.concatenate([np.zeros((1, toy.num_rows, toy.num_rows)), self.grams])
        self.tuples = np.array(list(product(range(len(self.grams)), repeat=PLACES)))
        self.numbers = (self.tuples > 0).sum(1)
        ways = np.array([1, 2, 1])  # sets of so many of the places
        of_number = np.log(law_of_number(kind, mean, PLACES) / ways)[self.numbers]
        self.log_prior = np.log(prior)[self.tuples].sum(1) + of_number
        self.kernel = toy.leaf_variance * self.grams[self.tuples].sum(1)

    def counts(self, draws):
        """Count the draws of each pair of places; an absent tree is kept as a leaf of value 0."""
        counts = np.zeros(len(self.tuples) + 1)
        values = draws.leaf[draws.tree_start[:-1]].reshape(-1, PLACES)
        shape = (len(self.grams),) * PLACES
        for keys, value, number in zip(tree_keys(draws), values, draws.scalars["num_trees"], strict=True):
            trees = [self.toy.canonical(decode(key)) for key in keys]
            absent = [tree == () and each == 0 for tree, each in zip(trees, value, strict=True)]
            assert PLACES - sum(absent) == number
            places = [
                0 if gone else 1 + self.partition[self.toy.index[tree]]
                for tree, gone in zip(trees, absent, strict=True)
            ]
            counts[np.ravel_multi_index(places, shape)] += 1
        return counts


def check_enumerated(name, moves, kind, num_draws):
    """Check the law of both places, of the number of trees, and E[f]."""
    toy = PROBLEMS[name](leaf_variance=0.04)
    exact = Places(toy, kind, 1.5)
    entries = {"num_trees": kind} | ({} if kind == "uniform" else {"num_trees_mean": 1.5})
    prior = {"sigma": toy.sigma2**0.5, **entries}
    prior |= {"leaf_sd": toy.leaf_variance**0.5, "alpha": toy.alpha, "beta": toy.beta}
    data = of_toy(
        toy, prior, num_trees=PLACES, num_draws=num_draws, num_burnin=500, thin=FORGETS[name] // 3,
        moves=moves, seed=7,
    )  # fmt: skip
    draws = draws_of(data)
    verdict = chi_square(exact.counts(draws), np.append(exact.posterior(), 0.0))
    law = np.bincount(exact.numbers, exact.posterior())
    number = chi_square(np.bincount(draws.scalars["num_trees"].astype(int), minlength=3), law)
    mean = mean_is(fits(draws, toy.codes, data.constants), exact.mean())
    print(f"\n{name}, {moves}, {kind}: {verdict}; number {law.round(3)} {number}; E[f] p {mean:.3g}")
    for p in (verdict.p, number.p, mean):
        holds(p)


@pytest.mark.parametrize(("name", "moves", "kind"), [
    ("golden", "default", "poisson"), ("missing", "cgm", "uniform"), ("weighted", "default", "geometric"),
])  # fmt: skip
@pytest.mark.sampled(quick=1, slow=3)
def test_two_places(name, moves, kind):
    """No, one and two trees have the enumerated posterior, each with its partitions of the rows."""
    check_enumerated(name, moves, kind, 6_000)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["poisson", "geometric", "uniform"])
@pytest.mark.parametrize("moves", ["default", "growprune", "cgm", "growprunechange"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_two_places_long(name, moves, kind):
    """The enumerated posterior has its law under every prior and set of moves, with ten times the draws."""
    check_enumerated(name, moves, kind, 60_000)


K_DF, K_SCALE, LEVELS = 4.0, 1.2, (2, 3, 30, 4)


def check_prior(kind, family, num_draws, **more):
    """Check the number and k of a chain without likelihood, drawn far apart."""
    rng = np.random.default_rng(3)
    codes = np.array([rng.integers(0, levels, 40) for levels in LEVELS], np.uint8)
    prior = {"k_df": K_DF, "k_scale": K_SCALE, "num_trees": kind, "leaf_sd": 0.5} | more
    prior |= {} if kind == "uniform" else {"num_trees_mean": 4.0}
    outcome = rng.integers(0, 2, 40).astype(float)
    data = training(
        codes, outcome, prior=prior, family=family, num_trees=10, num_draws=num_draws, num_burnin=500,
        thin=30, prior_only=True,
    )  # fmt: skip
    chain = Chain.start(data, 0)
    numbers, k2 = [], []
    for _ in range(num_draws):
        chain.run(data.settings.thin)
        numbers.append(int(chain._likelihood.scalars[chain._likelihood.scalar_names.index("num_trees")]))
        assert numbers[-1] == np.sum(chain._forests[0].num_leaves > 0)
        variance = chain._models[0].variance
        k2.append(variance[UNIT2] / variance[TAU2] / K_SCALE**2)
    number = chi_square(np.bincount(numbers, minlength=11), law_of_number(kind, 4.0, 10))
    p = {"number": number.p, "k": stats.kstest(k2, stats.chi2(K_DF).cdf).pvalue}
    print(f"\n{kind}, {family}: {number}")
    all_above(p, ALARM)


@pytest.mark.parametrize(("kind", "family"), [("geometric", "gaussian"), ("uniform", "probit")])
@pytest.mark.sampled(quick=1, slow=2)
def test_prior_recovered(kind, family):
    """Without the likelihood the number of trees has its prior, and so has k, which leaves alone tell of."""
    check_prior(kind, family, 3_000)


@pytest.mark.long
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "probit"])
@pytest.mark.parametrize("kind", ["poisson", "geometric", "uniform"])
def test_prior_recovered_long(kind, family, sparse):
    """The prior is recovered in ten times the draws, with shares of columns drawn too."""
    check_prior(kind, family, 30_000, sparse=sparse)


def test_resuming_is_exact():
    """Checkpoints tell which trees are present: a resumed chain equals an uninterrupted one."""
    toy = golden(leaf_variance=0.04)
    prior = {"num_trees": "poisson", "num_trees_mean": 3.0, "k_df": 3.0, "sparse": True}
    check_resuming(of_toy(toy, prior, num_trees=6, num_draws=30, seed=4))
