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
        low = np.min(self.f - REACH * self.sigma, axis=(0, 1))
        high = np.max(self.f + REACH * self.sigma, axis=(0, 1))
        tail = (1 - level) / 2
        return self._quantile(tail, low, high), self._quantile(1 - tail, low, high)

    def _below(self, y: Floats, rows: NDArray[np.int64]) -> Floats:
        each = ndtr((y - self.f[:, :, rows]) / self.sigma[:, :, rows])
        if self.share is None:
            return np.asarray(each.mean(axis=(0, 1)))
        return np.asarray(np.einsum("cd,cdr->r", self.share, each))

    def _quantile(self, q: float, low: Floats, high: Floats) -> Floats:
        from scipy.optimize import elementwise  # noqa: PLC0415  a fifth of a second, for these alone

        def above(y: Floats, row: NDArray[np.int64]) -> Floats:
            return self._below(y, row.astype(np.int64)) - q

        found: Floats = elementwise.find_root(above, (low, high), args=(np.arange(len(low)),)).x
        return found
