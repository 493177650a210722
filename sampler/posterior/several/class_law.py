"""Two classes beside numbers: their probability, and the distribution of the numbers given the class.

A latent outcome above 0 is the second class. It is one of the outcomes of a `JointMixture`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp, owens_t

from sampler.array_types import Floats
from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.several.joint_law import (
    LOG_2_PI,
    NOISES,
    JointMixture,
    log_normal,
    weighted_quantiles,
)

RARE = -6.0  # normal quantile of a class's probability below which its errors count as normal
LEAST = 1e-300  # in place of 0, by which nothing can be divided


@dataclass(frozen=True)
class OfClass:
    """Draws of the probability of the second class at rows.

    Attributes
    ----------
    probability, share
        float64 [draw, row]: the probability, and the draws' weights with sum 1 for each row.
    alike
        Whether all draws count alike.

    """

    probability: Floats
    share: Floats
    alike: bool

    @classmethod
    def of(cls, law: JointMixture, place: int) -> OfClass:
        """Take the probability from the law of the latent outcome at a place, and of others."""
        return cls(ndtr(law.mean[:, :, place] / law.sds[:, :, place]), law.share, law.alike)

    def moments(self) -> tuple[Floats, Floats]:
        """Compute the mean and the standard deviation over draws, float64 [row] each."""
        mean = np.sum(self.share * self.probability, axis=0)
        squares = np.sum(self.share * (self.probability - mean) ** 2, axis=0)
        count = len(self.share)
        return mean, np.sqrt(squares * (count / max(count - 1, 1) if self.alike else 1.0))

    def bounds(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of credible intervals, float64 [row] each."""
        if self.alike:
            return equal_tailed(self.probability, level)
        values, share = self.probability.T, self.share.T
        low, high = (weighted_quantiles(values, share, q) for q in ((1 - level) / 2, (1 + level) / 2))
        return low, high


@dataclass(frozen=True)
class GivenClass(JointMixture):
    """Distribution of numbers given the class of a row: by draw an extended skew-normal law.

    y = mean + tilt W + e, W a standard normal variable above -reach, e independent of it (Arnold and Beaver
    2000). `mean` and `covariance` are those without the class, `share` counts how probable it was.

    Attributes
    ----------
    reach
        Normal quantile of the class's probability, float64 [draw, row].
    tilt
        float64 [draw, row, outcome].

    """

    reach: Floats = field(kw_only=True)
    tilt: Floats = field(kw_only=True)

    @classmethod
    def given(cls, law: JointMixture, place: int, label: Floats) -> GivenClass:
        """Take the law of a latent outcome, at a place, and of numbers, given the class, float64 [row]."""
        sign = np.where(label > 0, 1.0, -1.0)
        others = np.delete(np.arange(law.mean.shape[2]), place)
        sd = law.sds[:, 0, place]
        reach = sign * law.mean[:, :, place] / sd[:, None]
        with np.errstate(divide="ignore"):
            log_share = np.log(law.share) + log_ndtr(reach)
        share = np.exp(log_share - logsumexp(log_share, axis=0))
        tilt = law.covariance[:, others, place] / sd[:, None]
        free = law.of_outcomes(others)
        return cls(
            free.mean, free.covariance, share, reach=reach, tilt=sign[None, :, None] * tilt[:, None, :]
        )

    def _of_latent(self) -> tuple[Floats, Floats]:
        """Compute the mean and variance of W, float64 [draw, row, 1] each."""
        ratio = np.exp(-0.5 * (self.reach**2 + LOG_2_PI) - log_ndtr(self.reach))
        return ratio[:, :, None], np.maximum(1 - ratio * (self.reach + ratio), 0.0)[:, :, None]

    def moments(self) -> tuple[Floats, Floats]:
        """Compute means [row, outcome] and covariances [row, outcome, outcome]."""
        ratio, variance = self._of_latent()
        by_draw = self.mean + ratio * self.tilt
        mean = np.einsum("dr,dra->ra", self.share, by_draw)
        rest = by_draw - mean
        spread = np.einsum("dr,dra,drb->rab", self.share, rest, rest)
        less = (1 - variance) * self.tilt
        spread -= np.einsum("dr,dra,drb->rab", self.share, less, self.tilt)
        return mean, spread + np.einsum("dr,dab->rab", self.share, self.covariance)

    def _ends(self, q: float) -> tuple[Floats, Floats]:
        chance = log_ndtr(self.reach)[:, :, None]  # a value's probability is at most this many times larger
        low = self.mean + self.sds * ndtri_exp(np.log(q) + chance)
        high = self.mean - self.sds * ndtri_exp(np.log1p(-q) + chance)
        return low.min(axis=0), high.max(axis=0)

    def _by_draw(self, at: Floats) -> tuple[Floats, Floats]:
        z, reach = (at - self.mean) / self.sds, self.reach[:, :, None]
        slope = -self.tilt / self.sds
        rest = np.sqrt(1 - slope**2)
        chance = np.exp(log_ndtr(reach))
        log_density = -0.5 * (z * z + LOG_2_PI) + log_ndtr((reach - slope * z) / rest) - log_ndtr(reach)
        below = np.clip(_below_both(z, reach, slope, rest) / np.maximum(chance, LEAST), 0.0, 1.0)
        ratio, variance = self._of_latent()
        sd = np.sqrt(self.sds**2 - (1 - variance) * self.tilt**2)
        near = ndtr((at - self.mean - ratio * self.tilt) / sd)
        return np.where(reach > RARE, below, near), np.exp(log_density) / self.sds

    def simulate(self) -> Floats:
        """Draw `NOISES` outcomes of each draw at each row, [draw, noise, row, outcome]; always the same."""
        draws, _, size = self.mean.shape
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((draws, NOISES, size))
        above = np.log(rng.uniform(size=(draws, NOISES, 1)))
        latent = -ndtri_exp(above + log_ndtr(self.reach)[:, None, :])
        tilt = self.tilt[:, 0]
        left = np.linalg.cholesky(self.covariance - tilt[:, :, None] * tilt[:, None, :])
        errors = np.einsum("dab,dkb->dka", left, noise)[:, :, None]
        return np.asarray(self.mean[:, None] + latent[..., None] * self.tilt[:, None] + errors)


def laws_given(
    f: Floats, covariance: Floats, known: Floats, place: int | None
) -> tuple[JointMixture, OfClass | None]:
    """Find the law of the unknown numbers of rows, and of the class where that is unknown.

    The arguments are those of `JointMixture.of`, with the mean of the latent outcome, or the index of the
    known class, at `place`; None where all outcomes are numbers.
    """
    if place is None:
        return JointMixture.of(f, covariance, known), None
    latent = known.copy()
    latent[:, place] = np.nan
    law = JointMixture.of(f, covariance, latent)
    free = np.flatnonzero(np.isnan(latent).all(axis=0))
    at = int(np.searchsorted(free, place))
    if not np.isnan(known[:, place]).any():
        return GivenClass.given(law, at, known[:, place]), None
    return law.of_outcomes(np.delete(np.arange(len(free)), at)), OfClass.of(law, at)


def _below_both(h: Floats, k: Floats, slope: Floats, rest: Floats) -> Floats:
    """Compute P(X < h, Y < k) of standard normals with correlation `slope` (Owen 1956), `rest` its cosine."""
    h, k = np.where(h == 0, LEAST, h), np.where(k == 0, LEAST, k)
    with np.errstate(over="ignore"):
        parts = owens_t(h, (k - slope * h) / (h * rest)) + owens_t(k, (h - slope * k) / (k * rest))
    return np.asarray(0.5 * (ndtr(h) + ndtr(k)) - parts - 0.5 * (h * k < 0))


def log_density(
    f: Floats, covariance: Floats, y: Floats, place: int | None, seen: NDArray[np.int64]
) -> Floats:
    """Compute log densities of outcomes, with probabilities of classes.

    Parameters
    ----------
    f, covariance
        As of `JointMixture.of`, with the mean of the latent outcome at `place`.
    y
        float64 [row, outcome], with the index of the class at `place`.
    place
        The outcome that has two classes; None where all are numbers.
    seen
        The outcomes that count.

    Returns
    -------
    ndarray
        float64 [draw, row].

    """
    numbers = seen if place is None else seen[seen != place]
    rest, within = y[:, numbers] - f[:, :, numbers], covariance[:, numbers][:, :, numbers]
    logs = log_normal(rest, within) if len(numbers) else np.zeros(f.shape[:2])
    if place is None or len(numbers) == len(seen):
        return logs
    between = covariance[:, numbers, place]
    slopes = np.linalg.solve(within, between[..., None])[..., 0]
    mean = f[:, :, place] + np.einsum("da,dra->dr", slopes, rest)
    left = covariance[:, place, place] - np.sum(slopes * between, axis=1)
    sign = np.where(y[:, place] > 0, 1.0, -1.0)
    return np.asarray(logs + log_ndtr(sign * mean / np.sqrt(left)[:, None]))
