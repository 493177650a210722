"""Covering set of small models with absolute constants, sampled by the twins and fitted by the engine."""

from dataclasses import dataclass, field

import numpy as np
from scipy import stats
from scipy.special import log_ndtr

from sampler.bart.log_linear import GRID, SPAN
from sampler.bart.prior import law_of_number
from sampler.data.linear_terms import LinearTerms
from sampler.training import LinearTraining
from tests.reference.enumerator import MISSING
from tests.reference.prior import Sampled, SampledForest, draw_forest, draw_sigma2, draw_tree
from tests.support.chain_driver import STEP, training


@dataclass(frozen=True)
class Model:
    """A gaussian model on fixed codes; the last `num_new` rows are never used for training."""

    name: str
    num_rows: int
    num_trees: int
    beta: float = 1.0
    nu: float = 8.0
    levels: tuple[int, ...] = (6, 2, 250)
    missing: float = 0.0
    weighted: bool = False
    num_new: int = 2
    alpha: float = 0.95
    lambda_: float = 0.5
    offset: float = 0.25
    moves: str | dict[str, float] = "default"
    family: str = "gaussian"
    number: str = ""  # the prior of the number of trees, up to num_trees, where it is drawn
    codes: np.ndarray = field(init=False)
    weights: np.ndarray | None = field(init=False)

    def __post_init__(self):
        rng = np.random.default_rng(2024)
        total = self.num_rows + self.num_new
        codes = np.array([rng.integers(0, levels, total) for levels in self.levels], np.uint8)
        codes[rng.uniform(size=codes.shape) < self.missing] = MISSING
        object.__setattr__(self, "codes", codes)
        weights = rng.choice([0.25, 0.5, 1.0, 2.0, 4.0], self.num_rows) if self.weighted else None
        object.__setattr__(self, "weights", weights)

    @property
    def leaf_sd(self):
        """Leaf sd at which the sd of f resembles that of the noise, so that neither dominates."""
        return 0.8 / np.sqrt(self.num_trees)

    def draw(self, rng):
        """Draw (forest at all rows, sigma^2) from the prior; absent trees have no leaves."""
        number, absent = self.num_trees, []
        if self.number:
            number = rng.choice(number + 1, p=law_of_number(self.number, number / 2, number))
            absent = [Sampled((), np.zeros(self.codes.shape[1], int), [], [])] * (self.num_trees - number)
        forest = draw_forest(
            self.codes,
            number,
            self.alpha,
            self.beta,
            self.leaf_sd,
            rng,
            self.offset,
            self.num_rows,
            STEP,
        )
        if absent:
            trees, values = [*forest.trees, *absent], [*forest.values, *[np.zeros(0)] * len(absent)]
            places = rng.permutation(self.num_trees)
            forest = SampledForest(forest.f, [trees[k] for k in places], [values[k] for k in places])
        return forest, 1.0 if self.family == "probit" else draw_sigma2(self.nu, self.lambda_, rng)

    def draw_tree_sum(self, num_trees, leaf_values, rng):
        """Draw a sum of trees, `leaf_values(leaves)` in their leaves: its values at the rows, its leaves."""
        total, leaves = np.zeros(self.num_rows), []
        for _ in range(num_trees):
            tree = draw_tree(self.codes[:, : self.num_rows], self.alpha, self.beta, rng)
            total += leaf_values(tree.num_leaves)[tree.leaf]
            leaves.append(tree.num_leaves)
        return total, leaves

    def linear_terms(self, slope_scale):
        """Make three terms of the training rows, two of them all but equal."""
        z = np.random.default_rng(5).normal(size=(3, self.num_rows))
        z[2] = z[0] + 0.1 * z[2]
        same = {"mean": (0.0,) * 3, "scale": (1.0,) * 3, "low": (-9.0,) * 3, "high": (9.0,) * 3}
        terms = LinearTerms(column=(0, 1, 2), missing=(False,) * 3, **same, slope_scale=slope_scale)
        return LinearTraining(terms, z)

    def outcome(self, f, sigma2, rng):
        """Draw y at the training rows."""
        if self.family == "probit":
            return (f[: self.num_rows] + rng.normal(size=self.num_rows) > 0).astype(float)
        sd = np.sqrt(sigma2 / (1.0 if self.weights is None else self.weights))
        return f[: self.num_rows] + sd * rng.normal(size=self.num_rows)

    def log_likelihood(self, y, f, sigma2):
        """Return log p(y | f, sigma2) up to a constant; f [.., all rows]."""
        if self.family == "probit":
            return log_ndtr((2 * y - 1) * f[..., : self.num_rows]).sum(-1)
        w = 1.0 if self.weights is None else self.weights
        squares = (w * (y - f[..., : self.num_rows]) ** 2).sum(-1)
        return -0.5 * self.num_rows * np.log(sigma2) - 0.5 * squares / sigma2

    def training(self, y, **settings):
        """Return the training data for the engine."""
        prior = {
            "offset": self.offset, "leaf_sd": self.leaf_sd, "alpha": self.alpha, "beta": self.beta,
        }  # fmt: skip
        if self.family == "gaussian":
            prior |= {"nu": self.nu, "lambda": self.lambda_, "sigma_start": self.lambda_**0.5}
        if self.number:
            prior["num_trees"] = self.number
        return training(
            self.codes[:, : self.num_rows], y, weights=self.weights, prior=prior,
            num_trees=self.num_trees, moves=self.moves, family=self.family, **settings,
        )  # fmt: skip


def draw_leaf_sd(first, num_trees, rng):
    """Draw the sd of a leaf's logarithm from its prior: k = 3 chi(4), and `first` is the sd where k is 2."""
    log_sd = np.geomspace(*SPAN, GRID)
    k = 2.0 * first * np.sqrt(num_trees) / log_sd
    mass = k * stats.chi(4, scale=3).pdf(k)
    return first * 2.0 / rng.choice(k, p=mass / mass.sum())


# together: one, few and many trees; trees beyond the 8 leaves of the vector path; rows below, at and beyond
# the padding; two codes and 250; missing values; a heavy-tailed noise; weights; two classes
COVERING: list[dict] = [
    {"name": "few trees", "num_rows": 24, "num_trees": 3},
    {"name": "one deep tree", "num_rows": 70, "num_trees": 1, "beta": 0.35, "levels": (40, 3, 250, 9)},
    {"name": "many trees", "num_rows": 64, "num_trees": 20, "beta": 2.0, "nu": 3.0},
    {"name": "weights", "num_rows": 40, "num_trees": 3, "weighted": True, "missing": 0.1},
    {"name": "probit", "num_rows": 50, "num_trees": 4, "family": "probit", "missing": 0.1},
    {"name": "number drawn", "num_rows": 30, "num_trees": 4, "weighted": True, "number": "poisson"},
    {"name": "missing values", "num_rows": 30, "num_trees": 3, "missing": 0.3, "levels": (5, 2, 40)},
]
