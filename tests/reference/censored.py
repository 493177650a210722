"""Trees of censored outcomes by definition: evidence by quadrature over leaf values."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from tests.reference.enumerator import Toy


@dataclass(eq=False)
class CensoredTrees(Toy):
    """One tree; `limits` [2, n] are equal where y was observed."""

    limits: tuple = ()

    def ell(self, rows):
        """Return the log evidence of a leaf, with all constants."""
        if rows not in self._ell:
            value = np.sqrt(self.leaf_variance) * np.linspace(-9, 9, 4001)
            i = self.members(rows)
            low, high = (np.array(limit)[i, None] for limit in self.limits)
            sd = np.sqrt(self.sigma2)
            inside = stats.norm.cdf((high - value) / sd) - stats.norm.cdf((low - value) / sd)
            each = np.where(
                low == high, stats.norm.pdf(np.where(np.isfinite(low), low, 0), value, sd), inside
            )
            prior = stats.norm.pdf(value, 0, np.sqrt(self.leaf_variance))
            self._ell[rows] = float(np.log(np.trapezoid(prior * each.prod(axis=0), value)))
        return self._ell[rows]

    @property
    def log_density(self):
        """Log probability (density) of the outcomes."""
        return float(np.logaddexp.reduce(self.log_prior + self.log_likelihood))
