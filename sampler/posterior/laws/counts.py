"""The law of counts: rates by a log-linear forest, and the distributions of new counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc, gammaincc, gammaln, ndtr

from sampler import interrupt
from sampler.errors import PackedError
from sampler.families import FAMILIES
from sampler.kernels.jit import warm
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.kernels.count_quantiles import UNKNOWN, count_quantiles
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.law import ForestToExplain, Law
from sampler.storage.draws import concatenate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.posterior.core.intervals import IntervalFigures
    from sampler.posterior.core.stored_draws import StoredDraws
    from sampler.storage.draws import Draws

    Floats = NDArray[np.float64]

ZEROS = "zeros"  # the forest of structural zeros
LEAST_LOG = float(np.log(np.finfo(np.float64).smallest_subnormal))
MOST_TERMS = 2000  # terms in a score's sum over counts
LARGEST_RATE = 1e150
LARGEST_DRAWN = (
    1e18  # a Poisson count of a larger mean is that mean within 1e-8: no count of 64 bits holds it
)
# Cost of a bound, in trees: of small counts, whose probabilities are added up, and of large ones, searched.
SMALL_MEAN, SMALL_BOUND, LARGE_BOUND = 50.0, 400, 25_000
SOME_ROWS = 200


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

    mean: Floats
    dispersion: Floats | None
    structural: Floats | None

    def variance(self) -> Floats:
        """Compute the mean over draws of the variance given the draw, float64 [row]."""
        each = self.mean if self.dispersion is None else self.mean + self.mean**2 / self.dispersion
        if self.structural is not None:
            each = (1 - self.structural) * (each + self.structural * self.mean**2)
        return np.asarray(each.mean(axis=1))

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

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's count, in counts.

        It is the sum over counts k of (F(k) - [y <= k])^2, taken up to where F is 1 to rounding; where these
        are many, over evenly spaced ones.
        """
        top = np.maximum(self.quantile(1 - 1e-9), y)
        total = np.zeros(len(y))
        step = int(top.max()) // MOST_TERMS + 1
        for k in range(0, int(top.max()) + 1, step):
            rows = np.flatnonzero(top >= k)
            below = self._cdf(np.full(len(rows), float(k)), rows)
            total[rows] += step * (below - (y[rows] <= k)) ** 2
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


class CountsLaw(Law):
    """Draws of the forest of rates, and of that of structural zeros; f is the expected count.

    Rows have an exposure: that of the model's column of exposures, 1 where there is none.
    """

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        header = draws.header
        family = FAMILIES[str(header.settings["family"])]
        names = [ZEROS] if family.zeros else []
        scalars = ["dispersion"] if family.dispersed else []
        if any(list(each.forests) != names or list(each.scalars) != scalars for each in chains):
            raise PackedError("the draws don't fit the family of counts")
        self._zeros = None
        if family.zeros:
            self._zeros = Ensemble([each.forests[ZEROS] for each in chains], len(header.grid.cuts))
        self._rate = float(header.constants["rate"])
        self._zero_offset = float(header.constants["zero_offset"])
        if not 0 < self._rate < LARGEST_RATE:
            raise PackedError("the rate of counts is out of range")
        self._dispersion = None
        if family.dispersed:
            self._dispersion = np.concatenate([each.scalars["dispersion"] for each in chains])
            if not np.all(np.isfinite(self._dispersion) & (self._dispersion > 0)):
                raise PackedError("the draws of the dispersion are not all positive numbers")
        self.own_work = 300  # work of exponentials, and of probabilities of structural zeros

    @property
    def sigma(self) -> None:
        """None: the variance of a count follows from its mean and the dispersion."""
        return

    @property
    def dispersion(self) -> Floats | None:
        """Draws of the dispersion, float64 [chain, draw]: the variance is mean + mean^2 / dispersion."""
        if self._dispersion is None:
            return None
        chosen, used = self.draws.choose(None)
        return self._dispersion[chosen].reshape(self.draws.num_chains, used)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        return super().nbytes + (0 if self._zeros is None else self._zeros.nbytes)

    def _means(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute means of counts that are not structural zeros, float64 [draw, row]."""
        with np.errstate(over="ignore"):
            mean = self._rate * np.exp(self.step * self.ensemble.sums_of(coded, chosen))
            return np.asarray(mean if coded.exposure is None else mean * coded.exposure)

    def _structural(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | None:
        """Compute probabilities of structural zeros, float64 [draw, row]."""
        if self._zeros is None:
            return None
        return np.asarray(ndtr(self._zero_offset + self.step * self._zeros.sums_of(coded, chosen)))

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute expected counts in the chosen draws, float64 [draw, row]."""
        mean, structural = self._means(coded, chosen), self._structural(coded, chosen)
        return mean if structural is None else mean * (1 - structural)

    def outcome_law(
        self,
        coded: Coded,
        weights: Floats | None = None,  # noqa: ARG002
        num_draws: int | None = None,
    ) -> CountLaw:
        """Make the predictive distribution of the counts of rows."""
        return self._law_of(coded, self.draws.choose(num_draws)[0])

    def _law_of(self, coded: Coded, chosen: NDArray[np.int64]) -> CountLaw:
        structural = self._structural(coded, chosen)
        return CountLaw(
            np.ascontiguousarray(self._means(coded, chosen).T),
            None if self._dispersion is None else self._dispersion[chosen],
            None if structural is None else np.ascontiguousarray(structural.T),
        )

    def sample_outcomes(
        self,
        coded: Coded,
        weights: Floats | None,  # noqa: ARG002
        chosen: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Floats:
        """Draw a count of each row from each chosen draw; see `Law.sample_outcomes`."""
        return self._law_of(coded, chosen).sample(rng)

    def outcomes_by_draw(
        self,
        coded: Coded,
        y: Floats,
        weights: Floats | None,  # noqa: ARG002
        chosen: NDArray[np.int64],
    ) -> tuple[Floats, Floats]:
        """Compute the expected counts and log probabilities of known counts, float64 [draw, row].

        A log probability is at least that of the smallest positive float.
        """
        law = self._law_of(coded, chosen)
        mean = law.mean if law.structural is None else law.mean * (1 - law.structural)
        return mean.T, np.maximum(law.log_density_by_draw(y), LEAST_LOG).T

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to errors: of P(at most), over P(the bound)."""
        law = self.outcome_law(part, None, used)

        def errors(bound: Floats) -> Floats:
            below = law.below_by_draw(bound, slice(None)).reshape(len(bound), self.draws.num_chains, used)
            return self.weights.mean_error(below, used) / np.maximum(law.pmf(bound), 1e-300)

        return errors

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the scale of SHAP values, in words, and the forest of rates."""
        draws = concatenate(self.draws.chains())
        leaf = draws.leaf.astype(np.float64) * self.step
        but = "" if self._zeros is None else ", structural zeros left out"
        scale = f"the logarithm of the expected {self.draws.header.schema.target.name}{but}"
        return scale, [ForestToExplain(draws, leaf, float(np.log(self._rate)))]

    def bound_work(self, coded: Coded | None = None) -> float:
        """Return the cost of a predictive bound by row and draw, in trees: more where counts are large.

        Unless the rows are known, those of a model with exposures count as large.
        """
        if coded is None and self.draws.header.exposure is not None:
            return LARGE_BOUND
        rows = self.draws.reference if coded is None else coded
        some = rows.part(spaced(rows.num_rows, SOME_ROWS))
        means = self._means(some, self.draws.choose(1)[0]).mean(axis=0)
        return float(np.mean(np.where(means > SMALL_MEAN, LARGE_BOUND, SMALL_BOUND)))

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws, outcomes=self._outcomes)

    def _outcomes(self, part: Coded, f: Floats, tails: Floats, used: int) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Return the mean variance of a new count given a draw [row], and its quantiles [tail, row]."""
        law = self.outcome_law(part, None, used)
        return law.variance(), law.quantiles(np.where(tails < 0, 1 + tails, tails))
