"""Simulation-based calibration of the chains that jump between trees of soft splits.

Truth from the prior and outcomes from the model in plain numpy, draws by each method from its own start, the
function at rows by the slow form. Numbers only: the likelihood of classes counts fractions of rows, so no law
of outcomes has it (its own tests are integrals).
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from sampler.chains import start_chain
from sampler.problem import prepare
from tests.statistical.evidence import ALARM, all_above, rank_of, uniform_ranks
from tests.unit.sampler.soft_trees import make_shape, memberships

DRAWS = 63
ROWS, NEW, COLUMNS = 14, 2, 2
ALPHA, BETA, WIDTH = 0.5, 1.0, 0.1
PRIOR = {
    "alpha": ALPHA, "beta": BETA, "sharpness": WIDTH, "sharpness_start": WIDTH, "mean": 0.3, "leaf_sd": 1.5,
    "sigma_shape": 3.0, "sigma_scale": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A method and its chain's length; rows have weights."""

    method: str
    thin: int = 20
    num_burnin: int = 500
    weighted: bool = False

    def __str__(self):
        return self.method + (", weights" if self.weighted else "")


class Simulated:
    """Fixed rows whose columns go from 0 to 1."""

    def __init__(self, case):
        rng = np.random.default_rng(2026)
        self.case = case
        self.x = rng.uniform(size=(ROWS + NEW, COLUMNS))
        self.x[:2] = [[0, 1], [1, 0]]
        self.w = rng.choice([0.25, 1.0, 4.0], ROWS) if case.weighted else np.ones(ROWS)

    def draw(self, rng):
        """(leaves, f at all rows, sigma) from the prior: a tree of at least one split."""
        bits = self.bits(rng)
        splits = sum(bits)
        direction = rng.dirichlet(np.ones(COLUMNS), splits)
        if self.case.method == "rjhmc-df":
            direction = np.eye(COLUMNS)[rng.integers(0, COLUMNS, splits)]
        mean = PRIOR["mean"] + PRIOR["leaf_sd"] * rng.normal(size=splits + 1)
        sigma = stats.invgamma.rvs(PRIOR["sigma_shape"], scale=PRIOR["sigma_scale"], random_state=rng)
        return splits + 1, self.f(bits, rng.uniform(size=splits), direction, mean), sigma

    @staticmethod
    def bits(rng):
        """A topology in pre-order; the root splits."""
        found, depths = [1], [1, 1]
        while depths:
            depth = depths.pop()
            found.append(int(rng.uniform() < ALPHA * (1 + depth) ** -BETA))
            depths += [depth + 1] * (2 * found[-1])
        return found

    def f(self, bits, threshold, direction, mean):
        """The function at all rows."""
        return memberships(self.x, make_shape(bits), threshold, direction, WIDTH) @ mean

    def outcome(self, f, sigma, rng):
        """Y at the training rows."""
        return f[:ROWS] + sigma / np.sqrt(self.w) * rng.normal(size=ROWS)

    def log_likelihood(self, y, f, sigma):
        """Log p(y | f, sigma)."""
        return stats.norm.logpdf(y, f[:ROWS], sigma / np.sqrt(self.w)).sum()

    def fit(self, y, seed):
        """Draws of one chain."""
        case = self.case
        training = prepare(
            self.x[:ROWS], y, weights=self.w if case.weighted else None, method=case.method, seed=seed,
            prior=PRIOR, num_chains=1, num_burnin=case.num_burnin, num_draws=DRAWS, thin=case.thin,
        ).training  # fmt: skip
        chain = start_chain(training, 0)
        chain.run(10**9)
        return chain.take()

    def states(self, draws):
        """(leaves, f at all rows, sigma) of the draws."""
        splits = np.concatenate([[0], np.cumsum(draws.is_split)])[draws.tree_start]
        for k in range(DRAWS):
            bits = draws.is_split[draws.tree_start[k] : draws.tree_start[k + 1]].astype(int)
            own, first = slice(splits[k], splits[k + 1]), draws.tree_start[k] - splits[k]
            mean = draws.value[first : first + sum(bits) + 1, 0]
            f = self.f(bits, draws.threshold[own], draws.direction[own], mean)
            yield sum(bits) + 1, f, draws.sigma[k]


def ranks_of(simulated, seed, rng):
    """The ranks of one replication, by name."""
    truth = simulated.draw(rng)
    y = simulated.outcome(*truth[1:], rng)
    draws = simulated.fit(y, seed)

    def figures(leaves, f, sigma):
        likely = simulated.log_likelihood(y, f, sigma)
        return leaves, f[0], f[ROWS], f[:ROWS].mean(), sigma, likely

    names = ("leaves", "f at a row", "f at a new row", "mean of f", "sigma", "log likelihood")
    drawn = np.array([figures(*state) for state in simulated.states(draws)])
    return {
        name: rank_of(value, drawn[:, k], rng)
        for k, (name, value) in enumerate(zip(names, figures(*truth), strict=True))
    }


def calibrate(case, replications):
    """p of uniform ranks, by name."""
    rng = np.random.default_rng(78)
    simulated = Simulated(case)
    ranks = [ranks_of(simulated, seed, rng) for seed in range(replications)]
    bins = 8 if replications < 200 else 16
    return {name: uniform_ranks([r[name] for r in ranks], DRAWS, bins) for name in ranks[0]}


@pytest.mark.long
@pytest.mark.parametrize("case", [Case("rjhmc-df"), Case("rjhmc-dfi", weighted=True)], ids=str)
def test_calibrated(case):
    """Splits by one column, and by all with rows of several weights."""
    all_above(calibrate(case, 120), ALARM)
