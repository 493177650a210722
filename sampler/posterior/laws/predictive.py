"""The posterior predictive distribution of known outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.censoring.regression import log_normal_between
from sampler.data.transform import IDENTITY, Transform
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.noise_law import Shape

TAIL = 8.5  # standard deviations beyond which a normal has less than 1e-16
FARTHEST_U, U_STEP = 14.0, 0.1  # beyond e^14 / 8 sds even the heaviest tails add less than 1e-8
CRPS_NODES = 64  # on either side of the outcome, where there is a transform
ALL = slice(None)
REACH = 40.0  # standard deviations beyond which no requested quantile lies


@dataclass(frozen=True)
class Predictive:
    """Posterior predictive distribution of the outcomes of rows, each with its own weight.

    For a row it is the mixture over draws of Normal(f, sigma^2 / weight), or of another shape with that mean
    and variance: the distribution of its outcome if the model is right. `Posterior.predict` is for new
    outcomes of weight 1.

    Attributes
    ----------
    f, sigma
        float64 [chain, draw, row]; sigma is that of the row's own weight.
    share
        Weights of the draws, float64 [chain, draw] or [chain, draw, row], with sum 1; None where all are
        equal.
    shape
        Shape of the noise, of arrays by draw [chain, draw, 1]; None for normal noise.
    transform
        Transform of the outcome, whose mixture it is.
    limits
        Limits of the outcomes (`Coded.limits`), float64 [2, row]; None where all were observed. Of a censored
        row an outcome is anything: it stands for its limits, the noise being normal.

    """

    has_masses: ClassVar[bool] = False

    f: Floats
    sigma: Floats
    share: Floats | None
    shape: Shape | None = None
    transform: Transform = IDENTITY
    limits: Floats | None = None

    @property
    def _censored(self) -> NDArray[np.int64]:
        """Rows whose outcomes are between limits."""
        if self.limits is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.limits[0] < self.limits[1])

    def log_density(self, y: Floats) -> Floats:
        """Compute the log density of an outcome of each row; of a censored row, its log probability."""
        each = self._log_density_learnt(y)
        if self.share is not None:
            share = self.share[:, :, None] if self.share.ndim == 2 else self.share
            with np.errstate(divide="ignore"):
                each = each + np.log(share * share[:, :, 0].size)
        return np.asarray(
            np.logaddexp.reduce(each, axis=(0, 1)) - np.log(each[:, :, 0].size) + self._log_slope(y)
        )

    def log_density_by_draw(self, y: Floats) -> Floats:
        """Compute the log density of an outcome of each row in each draw, float64 [chain, draw, row]."""
        each = self._log_density_learnt(y)
        return each + self._log_slope(y)

    def _log_density_learnt(self, y: Floats) -> Floats:
        """Compute in each draw the log density of the transformed outcomes y [row], or log probability."""
        z = (self._learnt(y) - self.f) / self.sigma
        log_density = np.asarray(noise_law.log_density(z, self.shape) - np.log(self.sigma))
        if self.limits is not None and len(rows := self._censored):
            f, sigma = self.f[:, :, rows], self.sigma[:, :, rows]
            low, high = ((self._learnt(limit)[rows] - f) / sigma for limit in self.limits)
            log_density[:, :, rows] = log_normal_between(low, high)
        return log_density

    def _log_slope(self, y: Floats) -> Floats:
        """Compute what the transform adds to each row's log density; nothing to log probabilities."""
        log_slope = self.transform.log_slope(y)
        if self.limits is not None:
            log_slope[self._censored] = 0.0
        return log_slope

    def _learnt(self, y: Floats) -> Floats:
        return self.transform.forward(y)

    def below(self, y: Floats, shares: Floats | None = None) -> Floats:
        """Compute the probability that each row's outcome is at most y.

        Where that is between limits, it is any probability between theirs, by chance (`shares`, uniform; for
        None the same at every call): it is uniform over rows, if the law is right, as that of observed
        outcomes is.
        """
        if self.limits is None:
            return self._below(self._learnt(y), np.arange(len(y)))
        low, high = self.below_limits()
        share = np.random.default_rng(0).uniform(size=len(y)) if shares is None else shares
        return np.asarray(np.where(low == high, low, low + share * (high - low)))

    def below_limits(self) -> tuple[Floats, Floats]:
        """Compute the probability of values below the lower and the upper limit of each row's outcome."""
        assert self.limits is not None
        rows = np.arange(self.limits.shape[1])
        low, high = (self._below(self._learnt(limit), rows) for limit in self.limits)
        return low, high

    def above(self, times: Floats) -> Floats:
        """Compute the probability that a new outcome of each row exceeds each of some values [row, time]."""
        rows = np.arange(self.f.shape[2])
        learnt = self._learnt(times)
        return 1 - np.stack([self._below(np.full(len(rows), each), rows) for each in learnt], axis=1)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of each row's equal-tailed interval."""
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def held(self, level: float) -> Floats:
        """Compute the probability of each row's interval, which is the level."""
        return np.full(self.f.shape[2], level)

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's outcome, in its units.

        Less is better. It is E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' of the distribution (Gneiting
        and Raftery 2007, section 4.2).
        """
        if self.transform:
            return self._transformed_crps(y, self.transform)
        shape = None if self.shape is None else self.shape.mirrored()
        return self._mean(noise_law.mean_size(y - self.f, self.sigma, shape)) - self._half_distance()

    def _transformed_crps(self, y: Floats, transform: Transform) -> Floats:
        """Compute the integral of (F - 1[value >= y])^2, in steps of what the model learns."""
        u = transform.forward(y)
        low, high = self._ends(TAIL)
        nodes, shares = np.polynomial.legendre.leggauss(CRPS_NODES)
        rows, total = np.arange(len(y)), np.zeros(len(y))
        for start, end, over in ((np.minimum(low, u), u, 0.0), (u, np.maximum(high, u), 1.0)):
            for node, share in zip(nodes, shares, strict=True):
                at = 0.5 * (start + end) + 0.5 * node * (end - start)
                step = 0.5 * (end - start) * np.exp(-transform.log_slope(transform.inverse(at)))
                total += share * step * (self._below(at, rows) - over) ** 2
        return total

    def _half_distance(self) -> Floats:
        """Compute E|Y - Y'| / 2 of each row, by the shorter of two sums.

        One is over pairs of draws, the other the integral of F (1 - F): F is analytic, so the trapezoid sum
        is exact to rounding at steps of half the smallest sd.
        """
        if self.shape is not None:
            return self._half_distance_of_shape()
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
        for draw in np.ndindex(draws):
            spread = np.hypot(self.sigma, self.sigma[draw])
            total += shares[draw] * self._mean(noise_law.mean_size(self.f - self.f[draw], spread, None))
        return total / 2

    def _half_distance_of_shape(self) -> Floats:
        """Compute the integral of F (1 - F), in steps that grow with the distance."""
        middle = np.median(self.f, axis=(0, 1))
        sigma = self.sigma * (1.0 if self.shape is None else self.shape.narrowest)
        width = np.sqrt(self._mean((self.f - middle) ** 2 + sigma**2)) / 4
        total = np.zeros(len(middle))
        for u in np.arange(-FARTHEST_U, FARTHEST_U + U_STEP / 2, U_STEP):
            below = self.below(middle + width * np.sinh(u))
            total += below * (1 - below) * np.cosh(u)
        return np.asarray(total * width * U_STEP)

    def _mean(self, each: Floats, rows: NDArray[np.int64] | slice = ALL) -> Floats:
        if self.share is None:
            return np.asarray(each.mean(axis=(0, 1)))
        if self.share.ndim == 3:
            return np.asarray(np.einsum("cdr,cdr->r", self.share[:, :, rows], each))
        return np.asarray(np.einsum("cd,cdr->r", self.share, each))

    def _ends(self, reach: float) -> tuple[Floats, Floats]:
        """Return values `reach` standard deviations below, and above, all draws of each row."""
        low, high = (-reach, reach) if self.shape is None else self.shape.reach(reach)
        return np.min(self.f + low * self.sigma, axis=(0, 1)), np.max(self.f + high * self.sigma, axis=(0, 1))

    @property
    def least(self) -> Floats:
        """Outcomes below which a row has next to none, float64 [row]."""
        low = self._ends(TAIL)[0]
        return self.transform.inverse(low)

    def below_by_draw(self, y: Floats) -> Floats:
        """Compute the probability that each row's outcome is at most y in each draw, [chain, draw, row]."""
        return noise_law.below((self._learnt(y) - self.f) / self.sigma, self.shape)

    def _below(self, y: Floats, rows: NDArray[np.int64]) -> Floats:
        z = (y - self.f[:, :, rows]) / self.sigma[:, :, rows]
        return self._mean(noise_law.below(z, self.shape), rows)

    def quantile(self, q: float | Floats) -> Floats:
        """Compute each row's quantile, of one probability or of each row's own."""
        from scipy.optimize import elementwise  # noqa: PLC0415  a fifth of a second to import

        def above(y: Floats, row: NDArray[np.int64]) -> Floats:
            rows = row.astype(np.int64)
            return np.asarray(self._below(y, rows) - level[rows])

        rows = np.arange(self.f.shape[2])
        level = np.broadcast_to(q, rows.shape)
        roots: Floats = elementwise.find_root(above, self._ends(REACH), args=(rows,)).x
        return self.transform.inverse(roots)

    def sample(self, rng: np.random.Generator) -> Floats:
        """Draw an outcome of each row from each draw's distribution, float64 [draw of any chain, row]."""
        learnt = self.f + self.sigma * noise_law.sample(rng, self.f.shape, self.shape)
        learnt = learnt.reshape(-1, learnt.shape[2])
        return self.transform.outcome(learnt)
