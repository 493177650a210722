"""Predictive distributions of counts: mixtures of Poisson or negative binomial ones over draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaincc, gammaln

from sampler import interrupt
from sampler.array_types import Floats
from sampler.kernels.jit import warm
from sampler.posterior.kernels.count_crps import LARGEST, LOG_FACTORIALS, MIDDLES, STARTS, WIDTHS, count_crps
from sampler.posterior.kernels.count_quantiles import UNKNOWN, count_quantiles
from sampler.posterior.laws.predictive import Predictive

NARROW = 50.0  # sds of a mean from which counts are taken for normal
POINT = 1e-3  # standard deviation that stands for none
BLOCK = 32  # rows whose cells are in memory at once
NODES = 64  # of the integral for a score, on either side of the count
NEGLIGIBLE = 1e-9  # probability beyond which distributions of counts are not integrated
# A Poisson count of a larger mean is that mean within 1e-8: no count of 64 bits holds it.
LARGEST_DRAWN = 1e18
SDS, SCALES = 9.0, 45.0  # beyond the mean; probabilities there are below 1e-16 of the largest


@dataclass(frozen=True)
class CountLaw:
    """Predictive distribution of the counts of rows: a mixture over draws.

    Attributes
    ----------
    mean
        Means of counts that are not structural zeros, float64 [row, draw].
    dispersion
        float64 [draw]; None for Poisson counts.
    structural
        Probabilities of structural zeros, float64 [row, draw]; None without them.

    """

    has_masses: ClassVar[bool] = True

    mean: Floats
    dispersion: Floats | None
    structural: Floats | None

    def row(self, row: int) -> CountLaw:
        """Select one of the rows."""
        structural = None if self.structural is None else self.structural[row : row + 1]
        return CountLaw(self.mean[row : row + 1], self.dispersion, structural)

    def variance(self) -> Floats:
        """Compute the mean over draws of the variance given the draw, float64 [row]."""
        return np.asarray(self.variance_by_draw().mean(axis=1))

    def variance_by_draw(self) -> Floats:
        """Compute the variance given each draw, float64 [row, draw]."""
        each = self.mean if self.dispersion is None else self.mean + self.mean**2 / self.dispersion
        if self.structural is not None:
            each = (1 - self.structural) * (each + self.structural * self.mean**2)
        return each

    def pmf(self, y: Floats) -> Floats:
        """Compute the probability of a count of each row."""
        return np.asarray(np.exp(self.log_density(y)))

    def log_density(self, y: Floats) -> Floats:
        """Compute the log probability of a count of each row."""
        logs = self.log_density_by_draw(y)
        log_p: Floats = np.logaddexp.reduce(logs, axis=1) - np.log(logs.shape[1])
        return log_p

    def log_density_by_draw(self, y: Floats) -> Floats:
        """Compute the log probability of a count of each row in each draw, float64 [row, draw]."""
        k = y[:, None]
        logs: Floats
        with np.errstate(divide="ignore"):
            if self.dispersion is None:
                logs = k * np.log(self.mean) - self.mean - gammaln(k + 1)
            else:
                size = self.dispersion
                logs = gammaln(k + size) - gammaln(size) - gammaln(k + 1)
                logs += k * np.log(self.mean / (self.mean + size)) - size * np.log1p(self.mean / size)
            if self.structural is not None:
                logs += np.log1p(-self.structural)
                zero = np.log(self.structural)
                logs = np.where(k == 0, np.logaddexp(logs, zero), logs)
        return logs

    def below(self, y: Floats, shares: Floats | None = None) -> Floats:
        """Compute the probability integral transform, randomised: uniform if the law is right.

        It is the probability of less than y plus a uniform share of that of y (Czado, Gneiting and Held
        2009): of `shares` [row], for None the same at every call.
        """
        share = np.random.default_rng(0).uniform(size=len(y)) if shares is None else shares
        at = self._cdf(y, slice(None))
        less = np.where(y > 0, self._cdf(np.maximum(y - 1, 0), slice(None)), 0.0)
        return np.asarray(less + share * (at - less))

    def quantile(self, q: float) -> Floats:
        """Compute each row's q-quantile, the smallest count whose distribution function reaches q."""
        return np.asarray(self.quantiles(np.array([q]))[0])

    def quantiles(self, levels: Floats) -> Floats:
        """Compute quantiles [level, row]."""
        order = np.argsort(levels, kind="stable")
        counts = np.empty((len(levels), len(self.mean)))
        warm("count-quantiles")
        count_quantiles(
            np.ascontiguousarray(self.mean),
            np.zeros(0) if self.dispersion is None else np.ascontiguousarray(self.dispersion),
            np.zeros((0, 0)) if self.structural is None else np.ascontiguousarray(self.structural),
            np.ascontiguousarray(levels[order]),
            np.empty((2, self.mean.shape[1])),
            counts,
        )
        for level, own in zip(levels[order].tolist(), counts, strict=True):
            large = np.flatnonzero(own == UNKNOWN)
            own[large] = self._large_quantile(level, large)
        return np.asarray(counts[np.argsort(order)])

    def _large_quantile(self, level: float, rows: NDArray[np.int64]) -> Floats:
        """Find the smallest counts of some rows whose distribution functions reach a level, by search.

        Each step takes the secant's point between counts below and above, or near the end it is next to.
        """
        low, at_low = np.full(len(rows), -1.0), np.zeros(len(rows))
        high: Floats = np.floor(self.mean[rows].mean(axis=1))
        at_high = self._cdf(high, rows)
        while len(short := np.flatnonzero(at_high < level)):
            interrupt.look()
            low[short], at_low[short] = high[short], at_high[short]
            high[short] = 2 * high[short] + 1
            at_high[short] = self._cdf(high[short], rows[short])
        while True:
            share = np.clip((level - at_low) / (at_high - at_low), 0.1, 0.9)
            middle = np.floor(low + share * (high - low))
            middle = np.minimum(np.maximum(middle, low + 1), high - 1)
            # Beyond 2^53 there may be no float between two that are further apart than 1.
            left = np.flatnonzero((low < middle) & (middle < high))
            if not len(left):
                return high
            interrupt.look()
            p, at = self._cdf(middle[left], rows[left]), middle[left]
            reached = p >= level
            high[left[reached]], at_high[left[reached]] = at[reached], p[reached]
            low[left[~reached]], at_low[left[~reached]] = at[~reached], p[~reached]

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of each row's interval: equal-tailed, as far as counts can be."""
        lower, upper = self.quantiles(np.array([(1 - level) / 2, (1 + level) / 2]))
        return lower, upper

    def held(self, level: float) -> Floats:
        """Compute the probability of each row's interval, at least the level."""
        lower, upper = self.interval(level)
        ones = np.ones(len(lower))
        return self.below(upper, ones) - self.below(lower, 0 * ones)

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's count, in counts.

        It is the sum over counts k of (F(k) - [y <= k])^2: term by term up to 2,048, beyond by cells no wider
        than a 256th of their counts. Where a draw is narrower than these all are nearly normal, and are taken
        for normal; what is left is integrated. Both are within 0.2% of a count's standard deviation.
        """
        dispersion = np.zeros(0) if self.dispersion is None else np.ascontiguousarray(self.dispersion)
        scale = 1.0 if self.dispersion is None else 1 + self.mean / self.dispersion
        sd = np.sqrt(self.mean * scale)
        reach = np.maximum(np.max(self.mean + SDS * sd + SCALES * scale, axis=1), y)
        widths = WIDTHS[np.searchsorted(STARTS, self.mean, side="right") - 1]
        in_cells = (reach < LARGEST) & np.all((widths <= sd) | (widths == 1), axis=1)
        total = np.empty(len(y))
        inside = np.flatnonzero(in_cells)
        inside = inside[np.argsort(reach[inside], kind="stable")]
        warm("count-scores")
        for begin in range(0, len(inside), BLOCK):
            interrupt.look()
            rows = inside[begin : begin + BLOCK]
            used = int(np.searchsorted(STARTS, reach[rows].max(), side="right"))
            cells = np.stack([each[:used] for each in (STARTS, WIDTHS, MIDDLES, LOG_FACTORIALS)])
            structural = np.zeros((0, 0)) if self.structural is None else self.structural[rows]
            room, scores = (np.empty((2, used)), np.empty((len(rows), used))), np.empty(len(rows))
            count_crps(self.mean[rows], dispersion, structural, y[rows], cells, *room, scores)
            total[rows] = scores
        narrow = ~in_cells & np.all(sd * NARROW < self.mean, axis=1)
        for row in np.flatnonzero(narrow):
            interrupt.look()
            total[row] = self._normal_crps(y[row], row, sd[row])
        if len(rows := np.flatnonzero(~in_cells & ~narrow)):
            total[rows] = self._integrated_crps(y[rows], rows)
        return total

    def _normal_crps(self, y: float, row: np.int64, sd: Floats) -> float:
        """Compute a row's score with normal distributions in place of counts with these sds [draw]."""
        mean, share = self.mean[row], np.full(len(sd), 1 / len(sd))
        if self.structural is not None:
            zero = self.structural[row] * share
            mean, sd, share = np.append(mean, 0), np.append(sd, POINT), np.append(share - zero, zero.sum())
        law = Predictive(mean[None, :, None], sd[None, :, None], share[None])
        return float(law.crps(np.array([y]))[0])

    def _integrated_crps(self, y: Floats, rows: NDArray[np.int64]) -> Floats:
        """Integrate the score of some rows of large counts, from where F is 0 to where it is 1."""
        low, high = (self.quantile(q)[rows] for q in (NEGLIGIBLE, 1 - NEGLIGIBLE))
        nodes, shares = np.polynomial.legendre.leggauss(NODES)
        total = np.zeros(len(rows))
        for start, end, over in ((np.minimum(low, y), y, 0.0), (y, np.maximum(high, y), 1.0)):
            for node, share in zip(nodes, shares, strict=True):
                interrupt.look()
                at = 0.5 * (start + end) + 0.5 * node * (end - start)
                # Midway between two counts F is that of the lower one, to the second order.
                below = self._cdf(np.maximum(at - 0.5, 0.0), rows)
                total += 0.5 * share * (end - start) * (below - over) ** 2
        return total

    def sample(self, rng: np.random.Generator) -> Floats:
        """Draw a count of each row from each draw's distribution, float64 [draw, row]."""
        mean = self.mean
        if self.dispersion is not None:  # a Poisson count whose mean has a gamma distribution
            mean = rng.standard_gamma(self.dispersion, mean.shape) * (mean / self.dispersion)
        counts = np.where(mean < LARGEST_DRAWN, rng.poisson(np.minimum(mean, LARGEST_DRAWN)), np.rint(mean))
        if self.structural is not None:
            counts[rng.uniform(size=counts.shape) < self.structural] = 0.0
        return counts.T

    def _cdf(self, y: Floats, rows: Any) -> Floats:
        """Compute the probability of at most y for some rows."""
        return np.asarray(self.below_by_draw(y, rows).mean(axis=1))

    def below_by_draw(self, y: Floats, rows: Any) -> Floats:
        """Compute the probability of at most y for some rows in each draw, float64 [row, draw]."""
        mean, k = self.mean[rows], y[:, None]
        if self.dispersion is None:
            each = gammaincc(k + 1, mean)
        else:
            each = betainc(self.dispersion, k + 1, self.dispersion / (self.dispersion + mean))
        if self.structural is not None:
            share = self.structural[rows]
            each = share + (1 - share) * each
        return np.asarray(each)
