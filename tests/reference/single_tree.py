"""Single-tree models on enumerated toys: their likelihoods by plain formulas."""

from functools import cached_property

import numpy as np
from scipy import stats

from sampler.settings import Settings
from sampler.training import Training
from sampler.trees.cart.prior import TreeConstants
from tests.reference.enumerator import MISSING, Toy, leaves, log_sum, membership, normalised
from tests.support.chain_driver import decode, tree_keys
from tests.support.toy_problems import GOLDEN_X, GOLDEN_Y

STEP = 2.0**-18
PRECISION, NU, LAMBDA = 0.7, 3.0, 0.1
CLASSES = np.array([0, 1, 0, 0, 1])
METHODS = {"shift": "bcart", "variance": "bcart-mean-variance", "classes": "bcart"}


class TreeToy(Toy):
    """A toy whose trees are weighed by one of three normalised marginal likelihoods."""

    model = "shift"

    @cached_property
    def log_likelihood(self):
        """log p(y | T) in the order of `trees`."""
        known = {}
        out = np.empty(len(self.trees))
        for i, tree in enumerate(self.trees):
            key = tuple(sorted(leaves(self, tree)))
            if key not in known:
                known[key] = self.weigh(tree) if self.likelihood else 0.0
            out[i] = known[key]
        return out

    @cached_property
    def log_evidence(self):
        """log of the sum over T of p(T) p(y | T)."""
        return log_sum(self.log_prior + self.log_likelihood)

    @cached_property
    def posterior(self):
        """p(T | y), in the order of `trees`."""
        return normalised(self.log_prior + self.log_likelihood)

    def weigh(self, tree):
        """Return log p(y | T): a multivariate t (of all rows, or leaf by leaf), or Polya's urn."""
        w = np.ones(self.num_rows) if self.weights is None else self.weights
        if self.model == "shift":
            return t_density(self.y, w, membership(self, tree))
        rows = [self.members(bits) for bits in leaves(self, tree)]
        if self.model == "variance":
            return sum(t_density(self.y[i], w[i], np.ones((len(i), len(i)))) for i in rows)
        return sum(urn(self.y[i].astype(int), int(self.y.max()) + 1) for i in rows)


def t_density(y, w, together):
    """Return the log density of y with weights w and variance nu lambda / chi2: a multivariate t."""
    shape = LAMBDA * (np.diag(1 / w) + together / PRECISION)
    return stats.multivariate_t(np.zeros(len(y)), shape, df=NU).logpdf(y)


def urn(labels, classes):
    """Return the log probability of classes drawn in turn, each given the earlier ones."""
    counts, total = np.ones(classes), 0.0
    for label in labels:
        total += np.log(counts[label] / counts.sum())
        counts[label] += 1
    return total


def golden(model, scheme="C", **changes):
    """Return the published five rows."""
    y = CLASSES.astype(float) if model == "classes" else GOLDEN_Y
    return _of(model, TreeToy(GOLDEN_X.T, y, scheme=scheme, **changes))


def missing(model, **changes):
    """Return four rows with missing values in both columns."""
    codes = [[0, MISSING, 2, MISSING], [1, 0, MISSING, 2]]
    y = [0.0, 1.0, 2.0, 1.0] if model == "classes" else [0.4, -0.3, 0.25, -0.1]
    return _of(model, TreeToy(codes, y, **changes))


def weighted(model, **changes):
    """Return the published rows, each with a variance of its own."""
    return golden(model, weights=np.array([0.5, 1.0, 2.0, 1.5, 3.0]), **changes)


def _of(model, toy):
    toy.model = model
    return toy


def training_of(toy, **settings):
    """Return the engine's training data of a toy."""
    classes = int(toy.y.max()) + 1 if toy.model == "classes" else 0
    constants = TreeConstants(
        offset=0.0, step=1.0 if classes else STEP, leaf_sd=1.0, nu=NU, lambda_=LAMBDA, sigma_start=1.0,
        sigma_fixed=False, alpha=toy.alpha, beta=toy.beta, precision=PRECISION, concentration=1.0,
        classes=classes,
    )  # fmt: skip
    codes = np.ascontiguousarray(toy.codes)
    num_codes = np.array([max([int(c) for c in column if c != MISSING], default=-1) + 1 for column in codes])
    family = {"family": "categorical" if classes else "gaussian"}
    defaults = {"num_chains": 1, "num_burnin": 0, "thin": 1, "method": METHODS[toy.model]}
    resolved = Settings.resolve(**defaults | family | settings)
    return Training(codes, num_codes, toy.y, toy.weights, constants, resolved)


def drawn_trees(toy, draws):
    """Return the place in `toy.trees` of every draw's tree; -1 outside the support."""
    places, out = {}, []
    for (key,) in tree_keys(draws):
        if key not in places:
            places[key] = toy.index.get(toy.canonical(decode(key)), -1)
        out.append(places[key])
    return np.array(out)


def leaf_rows(toy, draws):
    """Return [(draw, rows, parameters)] of every leaf drawn, leaves in pre-order."""
    values = iter(draws.value)
    for draw, (key,) in enumerate(tree_keys(draws)):
        for bits in leaves(toy, decode(key)):
            yield draw, toy.members(bits), next(values)
