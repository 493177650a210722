"""Geweke's joint-distribution test of chains (2004): sweeps and new outcomes in turn keep the prior's law."""

import numpy as np

from tests.support.chain_driver import with_outcome
from tests.support.reports.p_values import keeps_prior

# Settings of a chain that does not end within a test; each of its sweeps is one iteration.
ENDLESS = {"num_draws": 1, "num_burnin": 0, "thin": 100_000}


def keeps_joint_law(chain, prior, observe, rounds, *, replace=with_outcome, left_out=16, batches=40):
    """Return p by name of functions of a chain's state having their prior law.

    Parameters
    ----------
    chain
        A chain with the settings `ENDLESS`.
    prior
        Independent draws of the functions from the prior, {name: value} each.
    observe
        Function (chain) that returns the functions of its state, {name: value}, and outcomes drawn given it.
    rounds
        Number of sweeps, each followed by new outcomes.
    replace
        Function (chain, outcomes) that gives the chain its new outcomes.
    left_out
        One in so many rounds, the first ones, is left out: the chain starts elsewhere than in the prior.
    batches
        Number of batches of rounds whose means are compared.

    """
    path = []
    for _ in range(rounds):
        chain.run(1)
        values, y = observe(chain)
        path.append(list(values.values()))
        replace(chain, y)
    expected = np.array([list(draw.values()) for draw in prior])
    return keeps_prior(path[rounds // left_out :], expected, values, batches)
