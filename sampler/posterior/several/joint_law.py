"""The joint distribution of several outcomes of rows: a mixture over draws of normal distributions.

Where some outcomes of a row are known, the components are their conditional distributions given these, and
each draw counts by the density that it gives to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri

from sampler.array_types import Floats
from sampler.posterior.core.intervals import AlikeNoise, Request, mixture_bounds

NOISES = 8  # simulated errors of each draw, by which regions are found
PASSES = 80  # of the search for a quantile; only bisection of a mixture far from normal comes near it
EXACT = 1e-10  # of a standard deviation
LOG_2_PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class JointMixture:
    """Distribution of some outcomes of rows: for each row a mixture over draws of normals.

    Attributes
    ----------
    mean
        float64 [draw, row, outcome].
    covariance
        float64 [draw, outcome, outcome], the same for all rows.
    share
        Weights of the draws, float64 [draw, row], with sum 1 for each row.
    alike
        Whether all draws count alike.

    """

    mean: Floats
    covariance: Floats
    share: Floats
    alike: bool = False

    @classmethod
    def of(cls, f: Floats, covariance: Floats, known: Floats | None = None) -> JointMixture:
        """Make the distribution of outcomes given others.

        Parameters
        ----------
        f
            float64 [draw, row, outcome].
        covariance
            float64 [draw, outcome, outcome].
        known
            float64 [row, outcome]; NaN for the outcomes whose distribution is asked for, the same in all
            rows. None where none is known.

        Returns
        -------
        JointMixture
            That of the unknown outcomes.

        """
        draws, rows = f.shape[:2]
        seen = np.zeros(f.shape[2], bool) if known is None else ~np.isnan(known).any(axis=0)
        if known is None or not seen.any():
            return cls(f, covariance, np.full((draws, rows), 1 / draws), alike=True)
        rest = known[None, :, seen] - f[:, :, seen]
        within = covariance[:, seen][:, :, seen]
        between = covariance[:, ~seen][:, :, seen]
        slopes = np.linalg.solve(within, between.transpose(0, 2, 1)).transpose(0, 2, 1)
        log_share = log_normal(rest, within)
        share = np.exp(log_share - logsumexp(log_share, axis=0))
        left = covariance[:, ~seen][:, :, ~seen] - slopes @ between.transpose(0, 2, 1)
        return cls(f[:, :, ~seen] + np.einsum("dab,drb->dra", slopes, rest), left, share)

    def of_outcomes(self, chosen: NDArray[np.int64]) -> JointMixture:
        """Return the distribution of some of the outcomes, by their places."""
        covariance = self.covariance[:, chosen][:, :, chosen]
        return JointMixture(self.mean[:, :, chosen], covariance, self.share, self.alike)

    def moments(self) -> tuple[Floats, Floats]:
        """Compute means [row, outcome] and covariances [row, outcome, outcome]."""
        mean = np.einsum("dr,dra->ra", self.share, self.mean)
        rest = self.mean - mean
        spread = np.einsum("dr,dra,drb->rab", self.share, rest, rest)
        return mean, spread + np.einsum("dr,dab->rab", self.share, self.covariance)

    def effective_draws(self) -> Floats:
        """Compute how many draws of equal weight count as much as these, float64 [row]."""
        return np.asarray(1 / np.sum(self.share**2, axis=0))

    def bounds(self, level: float, grids: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
        """Compute the ends of each outcome's own interval, float64 [row, outcome] each.

        `grids` are the offset and step of each outcome's f, see `AlikeNoise`.
        """
        if not self.alike:
            return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)
        tails = Request((level,), (), "predictive").tails
        ends = np.empty((2, *self.mean.shape[1:]))
        for j, grid in enumerate(grids):
            f, sigma = np.ascontiguousarray(self.mean[:, :, j].T), np.sqrt(self.covariance[:, j, j])
            noise = np.broadcast_to(sigma, f.shape)
            ends[:, :, j] = mixture_bounds(f, noise, tails, None, AlikeNoise(sigma, *grid))
        return ends[0], ends[1]

    def quantile(self, q: float) -> Floats:
        """Compute the q-quantile of each outcome, float64 [row, outcome]."""
        share = self.share[:, :, None]
        middle, covariance = self.moments()
        whole = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        low, high = self._ends(q)
        at = np.clip(middle + whole * ndtri(q), low, high)
        for _ in range(PASSES):
            below, densities = self._by_draw(at)
            miss = np.sum(share * below, axis=0) - q
            density = np.sum(share * densities, axis=0)
            low, high = np.where(miss > 0, low, at), np.where(miss > 0, at, high)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = at - miss / density
            inside = (step > low) & (step < high)
            new = np.where(inside, step, 0.5 * (low + high))
            done = bool(np.all(np.abs(new - at) <= EXACT * whole))
            at = new
            if done:
                break
        return np.asarray(at)

    @property
    def sds(self) -> Floats:
        """Standard deviations of the errors, float64 [draw, 1, outcome]."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))[:, None, :])

    def _ends(self, q: float) -> tuple[Floats, Floats]:
        """Find values below and above the q-quantile of each outcome, float64 [row, outcome] each."""
        ends = self.mean + self.sds * ndtri(q)
        return ends.min(axis=0), ends.max(axis=0)

    def _by_draw(self, at: Floats) -> tuple[Floats, Floats]:
        """Compute each draw's distribution function and density at values [row, outcome]."""
        z = (at - self.mean) / self.sds
        return ndtr(z), np.exp(-0.5 * z * z) / (self.sds * np.sqrt(2 * np.pi))

    def simulate(self) -> Floats:
        """Draw `NOISES` outcomes of each draw at each row, [draw, noise, row, outcome]; always the same."""
        draws, _, size = self.mean.shape
        noise = np.random.default_rng(0).standard_normal((draws, NOISES, size))
        roots = np.linalg.cholesky(self.covariance)
        return np.asarray(self.mean[:, None] + np.einsum("dab,dkb->dka", roots, noise)[:, :, None])

    def radii(self, level: float) -> tuple[Floats, Floats]:
        """Find how far joint regions of a probability reach, in standard deviations, float64 [row] each.

        The first is of intervals that hold all outcomes at once, mean +- radius x sd; the second of an
        ellipsoid, (y - mean)' covariance^-1 (y - mean) <= radius^2.
        """
        mean, covariance = self.moments()
        drawn = np.ascontiguousarray(
            (self.simulate().reshape(-1, *mean.shape) - mean).T
        )  # [outcome, row, ..]
        sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        farthest = np.abs(drawn / sd.T[:, :, None]).max(axis=0)
        scaled = np.einsum("rab,brk->ark", np.linalg.inv(np.linalg.cholesky(covariance)), drawn)
        apart = np.sqrt(np.sum(scaled**2, axis=0))
        if self.alike:
            place = int(np.ceil(level * farthest.shape[1] - EXACT)) - 1
            ranked = (np.partition(each, place, axis=1) for each in (farthest, apart))
            reach, radius = (each[:, place] for each in ranked)
            return reach, radius
        share = np.repeat(self.share.T / NOISES, NOISES, axis=1)
        return weighted_quantiles(farthest, share, level), weighted_quantiles(apart, share, level)


def weighted_quantiles(values: Floats, share: Floats, level: float) -> Floats:
    """Compute the quantile of each row of weighted values."""
    order = np.argsort(values, axis=1)
    sums = np.cumsum(np.take_along_axis(share, order, axis=1), axis=1)
    place = np.minimum(np.sum(sums < level, axis=1), values.shape[1] - 1)
    return np.asarray(np.take_along_axis(values, order[np.arange(len(values)), place][:, None], axis=1)[:, 0])


def log_normal(rest: Floats, covariance: Floats) -> Floats:
    """Compute log densities of errors [draw, row, outcome] with a covariance for each draw; [draw, row]."""
    roots = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(roots, rest.transpose(0, 2, 1))
    logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(-0.5 * np.sum(scaled**2, axis=1) - logs[:, None] - 0.5 * rest.shape[2] * LOG_2_PI)


def energy_scores(y: Floats, drawn: Floats) -> Floats:
    """Compute the energy score of each row's outcomes [row, outcome] by draws of them [draw, row, outcome].

    E|Y - y| - E|Y - Y'| / 2 (Gneiting and Raftery 2007, equation 22); less is better.
    """
    far = np.sqrt(np.sum((drawn - y) ** 2, axis=2)).mean(axis=0)
    pairs = np.sqrt(np.sum((drawn - np.roll(drawn, len(drawn) // 2, axis=0)) ** 2, axis=2)).mean(axis=0)
    return np.asarray(far - 0.5 * pairs)
