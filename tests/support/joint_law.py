"""Tests by the joint law of a chain's state and outcomes: Geweke's (2004), and simulation-based calibration.

A test of a part states a `Law`, and how long the chains are.
"""

import numpy as np

from sampler.bart.chain import Chain
from tests.support.chain_driver import f_of, with_outcome
from tests.support.models.covering_models import Model
from tests.support.reports.p_values import keeps_prior, rank_of, uniform_by_name

# Lengths of a chain that does not end within a test; each of its sweeps is one iteration.
ENDLESS = {"num_draws": 1, "num_burnin": 0, "thin": 100_000}
RANKED = 63  # draws among which a truth is ranked


class Law:
    """A small model with its prior, its outcomes and its chains.

    A state is a tuple, which begins with f at the rows and the noise's variance where outcomes are normal.

    Attributes
    ----------
    left_out
        One in so many rounds of Geweke's test, the first ones, is left out: a chain starts elsewhere than in
        the prior.
    batches
        Number of batches of rounds whose means are compared.
    seed
        Seed of the truths whose ranks are taken.
    of_outcomes
        Whether the functions compared are of the outcomes too.
    lengths
        Lengths in the settings of chains.

    """

    lengths = ENDLESS
    left_out, batches, seed, of_outcomes = 16, 40, 11, False

    def __init__(self, name, num_rows=24, num_trees=3, **options):
        self.model = Model(name, num_rows=num_rows, num_trees=num_trees, **options)

    def draw(self, rng):
        """Draw a state from the prior, by the plain twins."""
        raise NotImplementedError

    def state_of(self, chain):
        """Return the state of a chain."""
        raise NotImplementedError

    def outcome(self, state, rng):
        """Draw outcomes given a state."""
        return self.model.outcome(state[0], state[1], rng)

    def functions(self, state, y):
        """Return the functions that are compared, {name: value}; y is None unless `of_outcomes`."""
        raise NotImplementedError

    def figures(self, state):
        """Return the figures of a state whose ranks are taken, {name: value}."""
        raise NotImplementedError

    def first(self, rng):
        """Return the outcomes with which the chain of Geweke's test starts."""
        return self.model.outcome(np.zeros(self.model.num_rows), 1.0, rng)

    def training(self, y, seed):
        """Return the training of a chain."""
        return self.model.training(y, **self.lengths, seed=seed)

    def start(self, y, seed):
        """Start a chain."""
        return Chain.start(self.training(y, seed), 0)

    def replace(self, chain, y):
        """Give a chain its new outcomes."""
        with_outcome(chain, y)

    def draw_trees(self, rng):
        """Draw f of the trees at the rows, the noise's variance and the trees' numbers of leaves."""
        forest, sigma2 = self.model.draw(rng)
        return forest.f[: self.model.num_rows], sigma2, [tree.num_leaves for tree in forest.trees]

    def trees_of(self, chain):
        """Return f at the rows of a chain, its noise's variance, and the numbers of leaves of its trees."""
        sigma2 = 1.0 if self.model.family == "probit" else chain.sigma**2
        return f_of(chain), sigma2, chain._forests[0].num_leaves.copy()


def keeps_joint_law(law, rounds, draws):
    """Return p by name of functions of a chain's state having their prior law (Geweke 2004).

    Outcomes given the state and a sweep, in turn, keep the joint prior law.

    Parameters
    ----------
    law
        The `Law`.
    rounds
        Number of sweeps, each followed by new outcomes.
    draws
        Number of independent draws from the prior with which they are compared.

    """
    rng = np.random.default_rng(7)

    def compared(state):
        y = law.outcome(state, rng) if law.of_outcomes else None
        return law.functions(state, y), y

    prior = [compared(law.draw(rng))[0] for _ in range(draws)]
    chain, path = law.start(law.first(rng), 3), []
    for _ in range(rounds):
        chain.run(1)
        state = law.state_of(chain)
        values, y = compared(state)
        path.append(list(values.values()))
        law.replace(chain, y if law.of_outcomes else law.outcome(state, rng))
    expected = np.array([list(draw.values()) for draw in prior])
    return keeps_prior(path[rounds // law.left_out :], expected, values, law.batches)


def calibrated(law, count, bins, *, burnin, thin):
    """Return p by name of the truth's ranks among its posterior draws being uniform over replications."""
    rng, ranks = np.random.default_rng(law.seed), []
    law.lengths = ENDLESS | {"num_burnin": burnin}
    for seed in range(count):
        truth = law.draw(rng)
        chain, kept = law.start(law.outcome(truth, rng), seed), []
        chain.run(burnin)
        for _ in range(RANKED):
            chain.run(thin)
            kept.append(law.figures(law.state_of(chain)))
        own = law.figures(truth)
        ranks.append({name: rank_of(own[name], [each[name] for each in kept], rng) for name in own})
    return uniform_by_name(ranks, RANKED, bins)
