"""The posterior predictive distribution of known outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.posterior import Posterior

    Floats = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))
TAIL = 8.5  # standard deviations beyond which a normal has less than 1e-16
REACH = 40.0  # standard deviations beyond which no requested quantile lies


@dataclass(frozen=True)
class Predictive:
    """Posterior predictive distribution of the outcomes of rows, each with its own weight.

    For a row it is the mixture over draws of Normal(f, sigma^2 / weight), the distribution of its outcome if
    the model is right. `Posterior.predict` is for new outcomes of weight 1.

    Attributes
    ----------
    f, sigma
        float64 [chain, draw, row]; sigma is that of the row's own weight.
    share
        Weights of the draws, float64 [chain, draw], with sum 1; None where all are equal.

    """

    f: Floats
    sigma: Floats
    share: Floats | None

    @classmethod
    def of(cls, posterior: Posterior, X: Coded, weights: Floats | None) -> Predictive:
        """Make the distribution of the outcomes of rows X with weights [row], or weight 1 for None."""
        sigma = posterior.sample_sigma(X) / np.sqrt(1.0 if weights is None else weights)
        return cls(posterior.sample(X), sigma, posterior.weights)

    def log_density(self, y: Floats) -> Floats:
        """Compute the log density of an outcome of each row."""
        each = -0.5 * (((y - self.f) / self.sigma) ** 2 + LOG_2PI) - np.log(self.sigma)
        if self.share is not None:
            with np.errstate(divide="ignore"):
                each = each + np.log(self.share * self.share.size)[:, :, None]
        density: Floats = np.logaddexp.reduce(each, axis=(0, 1)) - np.log(each[:, :, 0].size)
        return density

    def below(self, y: Floats) -> Floats:
        """Compute the probability that each row's outcome is at most y."""
        return self._below(y, np.arange(len(y)))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of each row's equal-tailed interval."""
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's outcome, in its units.

        Less is better. It is E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' of the distribution (Gneiting
        and Raftery 2007, section 4.2).
        """
        return self._mean(_mean_size(y - self.f, self.sigma)) - self._half_distance()

    def _half_distance(self) -> Floats:
        """Compute E|Y - Y'| / 2 of each row, by the shorter of two sums.

        One is over pairs of draws, the other the integral of F (1 - F): F is analytic, so the trapezoid sum
        is exact to rounding at steps of half the smallest sd.
        """
        low, high = self._ends(TAIL)
        step = self.sigma.min(axis=(0, 1)) / 2
        nodes = int(np.ceil(np.max((high - low) / step)))
        total = np.zeros(len(low))
        if nodes <= self.f[:, :, 0].size:
            for node in range(nodes + 1):
                below = self.below(low + node * step)
                total += below * (1 - below)
            return np.asarray(total * step)
        draws = self.f.shape[:2]
        shares = np.full(draws, 1 / np.prod(draws)) if self.share is None else self.share
        for (chain, draw), share in np.ndenumerate(shares):
            spread = np.hypot(self.sigma, self.sigma[chain, draw])
            total += share * self._mean(_mean_size(self.f - self.f[chain, draw], spread))
        return total / 2

    def _mean(self, each: Floats) -> Floats:
        if self.share is None:
            return np.asarray(each.mean(axis=(0, 1)))
        return np.asarray(np.einsum("cd,cdr->r", self.share, each))

    def _ends(self, reach: float) -> tuple[Floats, Floats]:
        """Return values `reach` standard deviations below, and above, all draws of each row."""
        low = np.min(self.f - reach * self.sigma, axis=(0, 1))
        return low, np.max(self.f + reach * self.sigma, axis=(0, 1))

    def _below(self, y: Floats, rows: NDArray[np.int64]) -> Floats:
        return self._mean(ndtr((y - self.f[:, :, rows]) / self.sigma[:, :, rows]))

    def quantile(self, q: float) -> Floats:
        """Compute each row's q-quantile."""
        from scipy.optimize import elementwise  # noqa: PLC0415  a fifth of a second to import

        def above(y: Floats, row: NDArray[np.int64]) -> Floats:
            return self._below(y, row.astype(np.int64)) - q

        rows = np.arange(self.f.shape[2])
        roots: Floats = elementwise.find_root(above, self._ends(REACH), args=(rows,)).x
        return roots


def _mean_size(mean: Floats, sd: Floats) -> Floats:
    """Compute E|Z| of normal Z."""
    z = mean / sd
    return np.asarray(2 * sd * np.exp(-0.5 * (z * z + LOG_2PI)) + mean * (2 * ndtr(z) - 1))
