"""Log-linear leaves by definition: evidence, and the law of trees of a tiny problem."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from tests.reference.enumerator import Toy


def log_evidence(size, total, shape, rate):
    """Log evidence of a leaf value ~ Gamma(shape, rate) with likelihood value^size e^(-total value)."""
    prior = gammaln(shape) - shape * np.log(rate)
    return gammaln(shape + size) - (shape + size) * np.log(rate + total) - prior


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
