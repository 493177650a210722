"""Simulation-based calibration of the methods of one tree of sharp splits.

As in `test_calibration`, the truth is drawn from the prior by the twins, y from the model, posterior draws by
the engine from its own start, and leaves are found by walking trees in plain Python. The weighted draws of a
particle filter are resampled by their weights; with this many particles the remaining bias is not detectable.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from sampler.chains import start_chain
from sampler.settings import Settings
from sampler.training import Training
from sampler.trees.cart.prior import TreeConstants
from tests.reference.enumerator import LEAF, MISSING
from tests.reference.prior import draw_sigma2, draw_tree
from tests.support.chain_driver import STEP, decode, leaf_places, tree_keys
from tests.support.reports.p_values import ALARM, all_above, rank_of, uniform_by_name

DRAWS = 63
SHORT, LONG = 96, 320
ROWS, NEW = 30, 2
PARTICLES = 300


@dataclass(frozen=True)
class Case:
    """A method with a leaf model, and whether rows have weights or values are missing."""

    method: str
    model: str = "shift"
    weighted: bool = False
    missing: float = 0.0
    moves: str = "default"

    def __str__(self):
        more = [self.model, *(["weights"] if self.weighted else []), *(["missing"] if self.missing else [])]
        return f"{self.method} {self.moves}, {' '.join(more)}"


CASES = [
    Case("bcart", weighted=True, missing=0.2),
    Case("bcart-mean-variance", "variance", weighted=True),
    Case("bcart-wu", "classes", missing=0.2),
    Case("smc", weighted=True),
]
LONG_CASES = [
    *CASES,
    Case("bcart"),
    Case("bcart", "classes"),
    Case("bcart-wu"),
    Case("smc", "classes", missing=0.2),
    Case("bcart", moves="growprune"),
    Case("bcart", "classes", moves="growprune", missing=0.2),
    Case("bcart-mean-variance", "variance", moves="growprune", missing=0.2),
    Case("smc", moves="prior"),
]


class Simulated:
    """A case's fixed rows, prior and likelihood."""

    def __init__(self, case):
        rng = np.random.default_rng(2025)
        self.case = case
        self.codes = np.array([rng.integers(0, levels, ROWS + NEW) for levels in (7, 2, 40)], np.uint8)
        self.codes[rng.uniform(size=self.codes.shape) < case.missing] = MISSING
        self.w = rng.choice([0.25, 1.0, 4.0], ROWS) if case.weighted else np.ones(ROWS)
        classes = 3 if case.model == "classes" else 0
        self.prior = TreeConstants(
            offset=0.0 if classes else 0.25, step=1.0 if classes else STEP, leaf_sd=1.0, nu=8.0, lambda_=0.5,
            sigma_start=1.0, sigma_fixed=False, alpha=0.95, beta=1.0, precision=0.6, concentration=0.8,
            classes=classes,
        )  # fmt: skip

    def draw(self, rng):
        """Draw (leaves, parameters of every row's leaf [row, k]) from the prior."""
        prior = self.prior
        tree = draw_tree(self.codes, prior.alpha, prior.beta, rng, ROWS)
        leaves = tree.num_leaves
        if self.case.model == "classes":
            values = rng.dirichlet(np.full(prior.classes, prior.concentration), leaves)
        else:
            own = leaves if self.case.model == "variance" else 1
            sd = np.sqrt([draw_sigma2(prior.nu, prior.lambda_, rng) for _ in range(own)]) * np.ones(leaves)
            mean = prior.offset + sd / np.sqrt(prior.precision) * rng.normal(size=leaves)
            values = np.stack([mean, sd], axis=1)
        return leaves, values[tree.leaf]

    def outcome(self, values, rng):
        """Draw y at the training rows."""
        if self.case.model == "classes":
            return (rng.uniform(size=(ROWS, 1)) > np.cumsum(values[:ROWS, :-1], axis=1)).sum(1).astype(float)
        return values[:ROWS, 0] + values[:ROWS, 1] / np.sqrt(self.w) * rng.normal(size=ROWS)

    def log_likelihood(self, y, values):
        """Return log p(y | parameters at all rows) up to a constant; values [.., row, k]."""
        if self.case.model == "classes":
            return np.log(values[..., np.arange(ROWS), y.astype(int)]).sum(-1)
        mean, sd = values[..., :ROWS, 0], values[..., :ROWS, 1] / np.sqrt(self.w)
        return stats.norm.logpdf(y, mean, sd).sum(-1)

    def fit(self, y, seed, thin, num_burnin):
        """Return `DRAWS` equally weighted draws after a number of iterations."""
        method = self.case.method
        family = "categorical" if self.case.model == "classes" else "gaussian"
        counts = {"num_draws": DRAWS, "thin": thin, "num_burnin": num_burnin}
        counts = {"num_draws": PARTICLES} if method == "smc" else counts
        settings = Settings.resolve(
            method=method, family=family, moves=self.case.moves, seed=seed, num_chains=1, **counts
        )
        codes = np.ascontiguousarray(self.codes[:, :ROWS])
        many = np.array([int(column[column != MISSING].max()) + 1 for column in codes])
        weights = self.w if self.case.weighted else None
        chain = start_chain(Training(codes, many, y, weights, self.prior, settings), 0)
        while not chain.done:
            chain.run(100_000)
        return chain.take()


def values_at(draws, codes, model, chosen):
    """Return the parameters of the leaf that each row reaches, [chosen draw, row, k]."""
    first, by_draw = 0, {}
    for draw, ((key,), (start, end)) in enumerate(
        zip(tree_keys(draws), pairwise(draws.tree_start), strict=True)
    ):
        is_leaf = draws.feature[start:end] < 0
        if draw in chosen:
            number = np.cumsum(is_leaf) - 1  # position among the leaves of a position in pre-order
            tree = decode(key)
            at = np.zeros(codes.shape[1], int) if tree == LEAF else number[leaf_places(tree, codes)]
            by_draw[draw] = draws.value[first + at]
        first += int(is_leaf.sum())
    values = np.array([by_draw[draw] for draw in chosen])
    if model == "shift":
        sigma = np.broadcast_to(draws.sigma[chosen][:, None, None], values.shape)
        return np.concatenate([values, sigma], axis=2)
    return values


def ranks_of(simulated, seed, rng, thin, num_burnin):
    """Return the ranks of one replication, by name."""
    leaves, truth = simulated.draw(rng)
    y = simulated.outcome(truth, rng)
    draws = simulated.fit(y, seed, thin, num_burnin)
    share = np.exp(draws.log_weight - draws.log_weight.max())
    weighted = simulated.case.method == "smc"
    chosen = rng.choice(len(share), DRAWS, p=share / share.sum()) if weighted else np.arange(DRAWS)
    values = values_at(draws, simulated.codes, simulated.case.model, chosen)
    ranks = {
        "f at a row": rank_of(truth[0, 0], values[:, 0, 0], rng),
        "f at a new row": rank_of(truth[ROWS, 0], values[:, ROWS, 0], rng),
        "mean of f": rank_of(truth[:ROWS, 0].mean(), values[:, :ROWS, 0].mean(1), rng),
        "noise or chance at a row": rank_of(truth[1, 1], values[:, 1, 1], rng),
        "leaves": rank_of(leaves, draws.leaf_counts[chosen, 0], rng),
    }
    likely = simulated.log_likelihood
    return ranks | {"log likelihood": rank_of(likely(y, truth), likely(y, values), rng)}


def calibrate(case, replications, thin, num_burnin):
    """Return p-values of uniform ranks, by name."""
    rng = np.random.default_rng(77)
    simulated = Simulated(case)
    bins = 8 if replications < 200 else 16
    ranks = [ranks_of(simulated, seed, rng, thin, num_burnin) for seed in range(replications)]
    return uniform_by_name(ranks, DRAWS, bins)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_calibrated(case):
    """Ranks are uniform for every method and leaf model with its default moves."""
    all_above(calibrate(case, SHORT, thin=40, num_burnin=2000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("case", LONG_CASES, ids=str)
def test_calibrated_long(case):
    """Ranks are uniform with other moves too; growing and pruning alone forget a start slowly."""
    length = (
        {"thin": 1000, "num_burnin": 200_000}
        if case.moves == "growprune"
        else {"thin": 200, "num_burnin": 10_000}
    )
    all_above(calibrate(case, LONG, **length), ALARM)
