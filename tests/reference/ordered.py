"""Ordered classes of a tiny problem by quadrature: the evidence of every tree, thresholds known or drawn."""

from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from tests.reference.enumerator import leaves, log_sum

NODES = 48


def probability_between(low, high):
    """P(low < z < high) of a standard normal, by the smaller tail."""
    return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


def ordered_thresholds(nodes=28):
    """Return pairs of thresholds and their weights: two ordered standard normals."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    x, w = (x + 1) / 2, w / 2
    v, ratio = np.meshgrid(x, x, indexing="ij")
    weight = 2 * v * np.outer(w, w)
    return ndtri(np.stack([(v * ratio).ravel(), v.ravel()])), weight.ravel()


class OrderedTrees:
    """The law of one tree of three ordered classes, for a `Toy` whose y are classes.

    thresholds: float [2, place] with their weights [place]; by default drawn from their prior.
    """

    def __init__(self, toy, thresholds=None):
        self.toy = toy
        pairs, self.weights = ordered_thresholds() if thresholds is None else (thresholds, np.ones(1))
        flat = np.full(len(self.weights), np.inf)
        self.edges = np.stack([-flat, *np.reshape(pairs, (2, -1)), flat])
        self._known = {}

    def leaf(self, rows):
        """Return the evidence of a leaf by place of the thresholds, and E[f] times it."""
        if rows not in self._known:
            x, w = np.polynomial.hermite_e.hermegauss(NODES)
            mu, w = x * np.sqrt(self.toy.leaf_variance), w / np.sqrt(2 * np.pi)
            product = np.ones((len(self.weights), NODES))
            for i in self.toy.members(rows):
                k = int(self.toy.y[i])
                product *= probability_between(self.edges[k][:, None] - mu, self.edges[k + 1][:, None] - mu)
            self._known[rows] = product @ w, product @ (w * mu)
        return self._known[rows]

    @cached_property
    def log_evidences(self):
        """log p(T) p(y | T), in the order of the toy's trees."""
        each = [
            np.prod([self.leaf(rows)[0] for rows in leaves(self.toy, tree)], axis=0) @ self.weights
            for tree in self.toy.trees
        ]
        return self.toy.log_prior + np.log(each)

    @property
    def log_evidence(self):
        """The log evidence."""
        return log_sum(self.log_evidences)

    @property
    def posterior(self):
        """p(T | y)."""
        return np.exp(self.log_evidences - self.log_evidence)

    @property
    def leaves(self):
        """Probabilities of 1, 2, .. leaves."""
        counts = [len(leaves(self.toy, tree)) for tree in self.toy.trees]
        return np.bincount(counts, self.posterior)[1:]

    @property
    def mean_thresholds(self):
        """E of the two thresholds."""
        total = 0.0
        for tree, prior in zip(self.toy.trees, np.exp(self.toy.log_prior), strict=True):
            own = np.prod([self.leaf(rows)[0] for rows in leaves(self.toy, tree)], axis=0)
            total = total + prior * own * self.weights
        return self.edges[1:3] @ total / total.sum()

    @property
    def mean_f(self):
        """E[f] at the rows."""
        out = np.zeros(self.toy.num_rows)
        for tree, prior in zip(self.toy.trees, np.exp(self.toy.log_prior), strict=True):
            parts = leaves(self.toy, tree)
            own = [self.leaf(rows) for rows in parts]
            for at, rows in enumerate(parts):
                others = [value[1 if k == at else 0] for k, value in enumerate(own)]
                out[self.toy.members(rows)] += prior * (np.prod(others, axis=0) @ self.weights)
        return out / np.exp(self.log_evidence)


def rps(p, y):
    """Ranked probability score by its definition, float [row]: p [row, class], y class numbers."""
    p, classes = np.asarray(p), np.shape(p)[1]
    below = np.cumsum(p, axis=1)
    return np.array(
        [
            sum((below[i, k] - (own <= k)) ** 2 for k in range(classes - 1)) / (classes - 1)
            for i, own in enumerate(y)
        ]
    )
