"""Small posteriors: a real header and random trees without a chain, or few iterations."""

import numpy as np

from sampler import Posterior, pack, prepare, warm
from sampler.running import run
from tests.support.models.random_forests import random_draws

NUM_ROWS = 80


def make_problem(seed=0, **settings):
    """Make a problem of three numbers with missing values and a category, with all constants given."""
    rng = np.random.default_rng(seed)
    X = {f"x{j}": np.round(rng.normal(size=NUM_ROWS), 6) for j in (1, 2, 3)} | {
        "c": ["a", "b", "d", "e"] * 20
    }
    X["x2"][::7] = np.nan
    y = np.round(rng.normal(size=NUM_ROWS), 6)
    prior = {"offset": 10.0, "step": 2.0**-16, "sigma_estimate": "naive"}
    return prepare(X, y, prior=prior, target_name="y", **{"num_trees": 7, "num_draws": 12} | settings), X


def fit_with_line(seed: int = 0) -> tuple[Posterior, dict]:
    """Fit a sum of trees with a linear part to the table of `make_problem`."""
    problem, X = make_problem(seed, linear=True, num_chains=2, num_burnin=30, thin=1)
    return run(problem), X


def make_draws(seed=0, num_draws=(12, 12), num_trees=7):
    """Make draws of chains for the seven coded columns of `make_problem`."""
    return [random_draws(100 * seed + c, d, num_trees, 7, "prior") for c, d in enumerate(num_draws)]


def make_posterior(seed=0, num_draws=(12, 12)):
    """Return a posterior, its table, and its draws per chain."""
    warm("prediction")  # a service starting in this process does so too
    problem, X = make_problem(seed)
    chains = make_draws(seed, num_draws)
    blocks = [[pack(draws[:5]), pack(draws[5:])] if draws.num_draws else [] for draws in chains]
    statistics = [{"moves": {"grow": {"proposed": 4, "accepted": 1}}}] * len(chains)
    return Posterior.from_blocks(problem.header(), blocks, statistics), X, chains
