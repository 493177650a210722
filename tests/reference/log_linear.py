"""Log-linear leaves by definition: evidence, and the law of trees of a tiny problem."""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np
from scipy.special import gammaln

from tests.reference.enumerator import Toy, count_leaves, leaves


def log_evidence(size, total, shape, rate):
    """Log evidence of a leaf value ~ Gamma(shape, rate) with likelihood value^size e^(-total value)."""
    prior = gammaln(shape) - shape * np.log(rate)
    return gammaln(shape + size) - (shape + size) * np.log(rate + total) - prior


@cache
def quadrature(points):
    """Nodes and weights on (0, 1)."""
    x, w = np.polynomial.legendre.leggauss(points)
    return (x + 1) / 2, w / 2


@dataclass(eq=False)
class Precisions(Toy):
    """One tree of precisions: y ~ Normal(0, 1 / w(x)), the leaves of w Gamma(shape, rate)."""

    shape: float = 3.0
    rate: float = 0.2

    def ell(self, rows):
        """Return the log evidence of a leaf, without factors 2 pi."""
        y = self.y[self.members(rows)]
        return float(log_evidence(0.5 * len(y), 0.5 * np.sum(y**2), self.shape, self.rate))

    @property
    def log_density(self):
        """Log p(y)."""
        logs = self.log_prior + self.log_likelihood
        return float(np.logaddexp.reduce(logs) - 0.5 * self.num_rows * np.log(2 * np.pi))


class ClassTrees:
    """One tree of Gamma(2, 1.5) leaves for each class, of rows with codes 0, 1, 2 and equal shares.

    P(y) is the integral over the rows' latent rates of a product over leaves of all classes; by quadrature.
    """

    def __init__(self, y, classes, shape=2.0, rate=1.5):
        self.y, self.classes, self.shape, self.rate = np.asarray(y), classes, shape, rate
        self.toy = Toy([[0, 1, 2]], np.zeros(3))
        x, w = quadrature(48)
        self.nodes = np.meshgrid(*[x / (1 - x)] * 3, indexing="ij")
        each = w / (1 - x) ** 2
        self.measure = each[:, None, None] * each[:, None] * each

    @cached_property
    def evidences(self):
        """Log P(y, trees) by tuple of trees, one tree for each class."""
        log_leaf = [
            [
                sum(
                    log_evidence(
                        np.count_nonzero(self.y[self.toy.members(rows)] == k),
                        sum(self.nodes[i] for i in self.toy.members(rows)),
                        self.shape,
                        self.rate,
                    )
                    for rows in leaves(self.toy, tree)
                )
                for tree in self.toy.trees
            ]
            for k in range(self.classes)
        ]
        by_tree = {}
        for trees in product(range(len(self.toy.trees)), repeat=self.classes):
            total = sum(log_leaf[k][tree] for k, tree in enumerate(trees))
            value = np.sum(self.measure * np.exp(total))
            by_tree[trees] = np.log(value) + self.toy.log_prior[list(trees)].sum()
        return by_tree

    @property
    def log_evidence(self):
        """Log P(y)."""
        return float(np.logaddexp.reduce(list(self.evidences.values())))

    @property
    def leaves_of_first(self):
        """P(1, 2, 3 leaves of the first class's tree)."""
        law = np.zeros(3)
        for trees, log_weight in self.evidences.items():
            law[count_leaves(self.toy.trees[trees[0]]) - 1] += np.exp(log_weight - self.log_evidence)
        return law


@dataclass(eq=False)
class CountTrees(Toy):
    """One tree of rates: counts of mean exposure x f(x), the leaves of f Gamma(2, 1.5); by quadrature."""

    exposure: tuple = ()
    dispersion: float | None = None  # None: Poisson

    def ell(self, rows):
        """The log evidence of a leaf."""
        if rows not in self._ell:
            x, w = quadrature(400)
            value = (x / (1 - x))[:, None]
            i = self.members(rows)
            y, mean = self.y[i], value * np.array(self.exposure, float)[i]
            if self.dispersion is None:
                log_p = y * np.log(mean) - mean - gammaln(y + 1)
            else:
                size = self.dispersion
                log_p = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
                log_p = log_p + y * np.log(mean / (mean + size)) + size * np.log(size / (mean + size))
            log_prior = 2 * np.log(1.5) + np.log(value[:, 0]) - 1.5 * value[:, 0]
            self._ell[rows] = float(np.log(np.sum(w / (1 - x) ** 2 * np.exp(log_p.sum(axis=1) + log_prior))))
        return self._ell[rows]

    @property
    def log_density(self):
        """Log p(y)."""
        return float(np.logaddexp.reduce(self.log_prior + self.log_likelihood))
