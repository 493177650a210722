"""Simulation-based calibration of the methods of soft splits: chains that jump between trees, and the search.

The truth is drawn from the prior and outcomes from the model in plain numpy, posterior draws by each method
from its own start, and f at rows is computed by the plain formula. The search's weighted draws are resampled
by their weights.

The likelihood of classes uses fractional counts: a leaf's probabilities enter a row's likelihood to the power
of the row's share in the leaf, and these products sum to less than one over the classes. So it is the law of
outcomes given that no row drew an extra class with the remaining probability; that law is sampled by
rejection.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from sampler.chains import start_chain
from sampler.preparation import prepare
from tests.reference.soft_trees import make_shape, memberships
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

DRAWS = 63
CHAINS = 400  # replications; a chain prevented from growing too large trees passes at 200 and fails at 400
NEW, COLUMNS, CLASSES = 2, 2, 3
WIDTH = 0.1
COMMON = {"alpha": 0.5, "sharpness": WIDTH, "sharpness_start": WIDTH}
NUMBERS = {"mean": 0.3, "leaf_sd": 1.5, "sigma_shape": 3.0, "sigma_scale": 1.0}
# every topology drawn from the prior or proposed once: all but a hundredth of the posterior
SEARCH = {"iterations": 10, "first": 100, "proposals": 1, "chains": 4, "draws": 60, "samples": 5}


@dataclass(frozen=True)
class Case:
    """A method with its settings, and whether rows have weights or classes."""

    method: str
    weighted: bool = False
    classes: bool = False
    rows: int = 14
    beta: float = 1.0

    def __str__(self):
        more = [*(["weights"] if self.weighted else []), *(["classes"] if self.classes else [])]
        return ", ".join([self.method, *more])

    @property
    def prior(self):
        """Return the prior's entries."""
        return COMMON | {"beta": self.beta} | ({"concentration": 1.0} if self.classes else NUMBERS)

    @property
    def settings(self):
        """Return the settings of a method's run."""
        if self.method == "dcc-tree":
            return {"num_burnin": 100, "num_draws": 200, "search": SEARCH}
        return {"num_burnin": 500, "num_draws": DRAWS, "thin": 20}


@dataclass(frozen=True)
class State:
    """A tree at the rows: each leaf's share [row, leaf], the leaves' values [leaf, k], sigma."""

    share: np.ndarray
    value: np.ndarray
    sigma: float

    @property
    def f(self):
        """Return the function at all rows, or the probability of the last class."""
        return self.share @ self.value[:, -1]


class Simulated:
    """Fixed rows whose columns range from 0 to 1."""

    def __init__(self, case):
        rng = np.random.default_rng(2026)
        self.case = case
        self.x = rng.uniform(size=(case.rows + NEW, COLUMNS))
        self.x[:2] = [[0, 1], [1, 0]]
        self.w = rng.choice([0.25, 1.0, 4.0], case.rows) if case.weighted else np.ones(case.rows)

    def draw(self, rng):
        """Draw a state from the prior, with at least one split, and outcomes at the training rows."""
        y = None
        while y is None:
            state = self.state(rng)
            y = self.outcome(state, rng)
        return state, y

    def state(self, rng):
        """Draw a state from the prior."""
        case, bits = self.case, self.bits(rng)
        splits = sum(bits)
        direction = rng.dirichlet(np.ones(COLUMNS), splits)
        if case.method == "rjhmc-df":
            direction = np.eye(COLUMNS)[rng.integers(0, COLUMNS, splits)]
        share = memberships(self.x, make_shape(bits), rng.uniform(size=splits), direction, WIDTH)
        if case.classes:
            return State(share, rng.dirichlet(np.ones(CLASSES), splits + 1), 1.0)
        prior = case.prior
        mean = prior["mean"] + prior["leaf_sd"] * rng.normal(size=(splits + 1, 1))
        sigma = stats.invgamma.rvs(prior["sigma_shape"], scale=prior["sigma_scale"], random_state=rng)
        return State(share, mean, sigma)

    def bits(self, rng):
        """Return a topology in pre-order; the root splits."""
        shape, depths = [1], [1, 1]
        while depths:
            depth = depths.pop()
            shape.append(int(rng.uniform() < self.case.prior["alpha"] * (1 + depth) ** -self.case.beta))
            depths += [depth + 1] * (2 * shape[-1])
        return shape

    def outcome(self, state, rng):
        """Draw y at the training rows; None where a row drew no class, or a class no row.

        Rejecting states by their outcomes does not change the posterior given the accepted outcomes.
        """
        rows = self.case.rows
        if not self.case.classes:
            return state.f[:rows] + state.sigma / np.sqrt(self.w) * rng.normal(size=rows)
        chance = np.exp(state.share[:rows] @ np.log(state.value))
        y = (rng.uniform(size=(rows, 1)) > np.cumsum(chance, axis=1)).sum(axis=1)
        return y if len(np.unique(y)) == CLASSES == y.max() + 1 else None

    def log_likelihood(self, y, state):
        """Return log p(y | state), of the rows' classes up to a constant."""
        rows = self.case.rows
        if self.case.classes:
            return np.sum(state.share[:rows] * np.log(state.value)[:, y].T)
        return stats.norm.logpdf(y, state.f[:rows], state.sigma / np.sqrt(self.w)).sum()

    def fit(self, y, seed):
        """Return equally weighted states of one chain or one run."""
        case = self.case
        outcomes, family = y, "gaussian"
        if case.classes:
            outcomes, family = np.array(["a", "b", "c"])[y], "categorical"
        training = prepare(
            self.x[: case.rows], outcomes, weights=self.w if case.weighted else None, method=case.method,
            family=family, seed=seed, prior=case.prior, num_chains=1, **case.settings,
        ).training  # fmt: skip
        chain = start_chain(training, 0)
        chain.run(10**9)
        return chain.take()

    def states(self, draws, chosen):
        """Return the chosen draws."""
        splits = np.concatenate([[0], np.cumsum(draws.is_split)])[draws.tree_start]
        for k in chosen:
            bits = draws.is_split[draws.tree_start[k] : draws.tree_start[k + 1]].astype(int)
            own, first = slice(splits[k], splits[k + 1]), draws.tree_start[k] - splits[k]
            share = memberships(self.x, make_shape(bits), draws.threshold[own], draws.direction[own], WIDTH)
            yield State(share, draws.value[first : first + sum(bits) + 1], draws.sigma[k])


def ranks_of(simulated, seed, rng):
    """Return the ranks of one replication, by name."""
    truth, y = simulated.draw(rng)
    draws = simulated.fit(y, seed)
    chosen = np.arange(DRAWS)
    if simulated.case.method == "dcc-tree":
        share = np.exp(draws.log_weight - draws.log_weight.max())
        chosen = rng.choice(len(share), DRAWS, p=share / share.sum())

    def figures(state):
        f, rows = state.f, simulated.case.rows
        values = {
            "leaves": len(state.value),
            "f at a row": f[0],
            "f at a new row": f[rows],
            "mean of f": f[:rows].mean(),
            "log likelihood": simulated.log_likelihood(y, state),
        }
        return values if simulated.case.classes else values | {"sigma": state.sigma}

    drawn = [figures(state) for state in simulated.states(draws, chosen)]
    return {
        name: rank_of(value, [each[name] for each in drawn], rng) for name, value in figures(truth).items()
    }


def calibrate(case, replications):
    """Return p-values of uniform ranks, by name."""
    simulated = Simulated(case)
    ranks = [ranks_of(simulated, seed, np.random.default_rng([78, seed])) for seed in range(replications)]
    return uniform_by_name(ranks, DRAWS)


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [
        Case("rjhmc-df"),
        Case("rjhmc-dfi", weighted=True),
        Case("rjhmc-dfi", classes=True),
        Case("dcc-tree", weighted=True, rows=24, beta=2.0),
        Case("dcc-tree", classes=True, rows=24, beta=2.0),
    ],
    ids=str,
)
def test_calibrated_long(case):
    """Ranks are uniform for chains and the search, all splits, weighted numbers and classes."""
    all_above(calibrate(case, 200 if case.method == "dcc-tree" else CHAINS), ALARM)


def test_calibrated():
    """Ranks are uniform for one case in a few replications, enough to fail a chain of another law."""
    all_above(calibrate(Case("rjhmc-df"), 24), ALARM)
