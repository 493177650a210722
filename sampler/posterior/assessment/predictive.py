"""The posterior predictive law of known outcomes."""

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
REACH = 40.0  # standard deviations beyond which no tail that is asked for begins


@dataclass(frozen=True)
class Predictive:
    """The posterior predictive law of the outcome of some rows, each with its own weight.

    Of a row it is the mixture over draws of Normal(f, sigma^2 / weight): what the row's outcome was drawn
    from, if the model is right. `Posterior.predict` speaks of a new outcome of weight 1.

    Attributes
    ----------
    f, sigma
        float64 [chain, draw, row]; sigma is that of the row's own weight.
    share
        float64 [chain, draw], of the draws; they add up to 1. None where all are alike.

    """

    f: Floats
    sigma: Floats
    share: Floats | None

    @classmethod
    def of(cls, posterior: Posterior, X: Coded, weights: Floats | None) -> Predictive:
        """The law of the outcomes of rows X with such weights, of weight 1 without any."""
        sigma = posterior.sample_sigma(X) / np.sqrt(1.0 if weights is None else weights)
        return cls(posterior.sample(X), sigma, posterior.weights)

    def log_density(self, y: Floats) -> Floats:
        """Log density of an outcome of each row."""
        each = -0.5 * (((y - self.f) / self.sigma) ** 2 + LOG_2PI) - np.log(self.sigma)
        if self.share is not None:
            with np.errstate(divide="ignore"):
                each = each + np.log(self.share * self.share.size)[:, :, None]
        density: Floats = np.logaddexp.reduce(each, axis=(0, 1)) - np.log(each[:, :, 0].size)
        return density

    def below(self, y: Floats) -> Floats:
        """The probability that each row's outcome is at most y."""
        return self._below(y, np.arange(len(y)))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Lower and upper ends of each row's equal-tailed interval."""
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def crps(self, y: Floats) -> Floats:
        """Continuous ranked probability score of an outcome of each row, in its units; less is better.

        E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' of the law (Gneiting and Raftery 2007, section 4.2).
        """
        return self._mean(_mean_size(y - self.f, self.sigma)) - self._half_distance()

    def _half_distance(self) -> Floats:
        """E|Y - Y'| / 2 of each row: the integral of F (1 - F), or the sum over pairs of draws if shorter.

        F is analytic, so the trapezoid sum is exact to rounding at steps of half the least sd.
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
        """Values so many standard deviations below, and above, all draws of each row."""
        low = np.min(self.f - reach * self.sigma, axis=(0, 1))
        return low, np.max(self.f + reach * self.sigma, axis=(0, 1))

    def _below(self, y: Floats, rows: NDArray[np.int64]) -> Floats:
        return self._mean(ndtr((y - self.f[:, :, rows]) / self.sigma[:, :, rows]))

    def quantile(self, q: float) -> Floats:
        """The value of each row below which its outcome is with probability q."""
        from scipy.optimize import elementwise  # noqa: PLC0415  a fifth of a second, for these alone

        def above(y: Floats, row: NDArray[np.int64]) -> Floats:
            return self._below(y, row.astype(np.int64)) - q

        rows = np.arange(self.f.shape[2])
        found: Floats = elementwise.find_root(above, self._ends(REACH), args=(rows,)).x
        return found


def _mean_size(mean: Floats, sd: Floats) -> Floats:
    """E|Z| of normal Z."""
    z = mean / sd
    return np.asarray(2 * sd * np.exp(-0.5 * (z * z + LOG_2PI)) + mean * (2 * ndtr(z) - 1))
