"""The law of counts: rates by a log-linear forest, and the distributions of new counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.treatment.design import of_parts
from sampler.errors import PackedError
from sampler.families import FAMILIES
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.core.intervals import IntervalFigures
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.count_law import CountLaw
from sampler.posterior.laws.law import Law
from sampler.posterior.parts.effects import FOREST
from sampler.posterior.parts.forest_to_explain import ForestToExplain
from sampler.posterior.protocol import ExactSums
from sampler.storage.draws import Draws, concatenate

ZEROS = "zeros"  # the forest of structural zeros
LEAST_LOG = float(np.log(np.finfo(np.float64).smallest_subnormal))
LARGEST_RATE = 1e150
# Cost of a bound, in trees: of small counts, whose probabilities are added up, and of large ones, searched.
SMALL_MEAN, SMALL_BOUND, LARGE_BOUND = 50.0, 400, 25_000
SOME_ROWS = 200


class CountsLaw(Law):
    """Draws of the forest of rates, and of that of structural zeros; f is the expected count.

    Rows have an exposure: that of the model's column of exposures, 1 where there is none.
    """

    counts = True

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        header = draws.header
        family = FAMILIES[str(header.settings["family"])]
        names = [ZEROS] if family.zeros else []
        if header.effects is not None and header.effects.kind == "bcf":
            names = [*of_parts(FOREST, len(header.effects.arms))]
        scalars = ["dispersion"] if family.dispersed else []
        if any(list(each.forests) != names or list(each.scalars) != scalars for each in chains):
            raise PackedError("the draws don't fit the family of counts")
        self._zeros = None
        if family.zeros:
            self._zeros = Ensemble([each.forests[ZEROS] for each in chains], self.ensemble.num_features)
        self._rate = float(header.constants["rate"])
        self._zero_offset = float(header.constants["zero_offset"])
        if not 0 < self._rate < LARGEST_RATE:
            raise PackedError("the rate of counts is out of range")
        self._dispersion = None
        if family.dispersed:
            self._dispersion = np.concatenate([each.scalars["dispersion"] for each in chains])
            if not np.all(np.isfinite(self._dispersion) & (self._dispersion > 0)):
                raise PackedError("the draws of the dispersion are not all positive numbers")
        # Work of exponentials, and of probabilities of structural zeros.
        self.own_work, self.noise_work = (300, 0) if family.zeros else (100, 200)

    @property
    def sigma(self) -> None:
        """None: the variance of a count follows from its mean and the dispersion."""
        return

    def _typical_noise(self) -> Floats:
        """Compute the root of the posterior mean variance of counts at the reference rows, float64 [row]."""
        return np.sqrt(self.outcome_law(self.draws.reference).variance())

    @property
    def dispersion(self) -> Floats | None:
        """Draws of the dispersion, float64 [chain, draw]: the variance is mean + mean^2 / dispersion."""
        if self._dispersion is None:
            return None
        chosen, used = self.draws.choose(None)
        return self._dispersion[chosen].reshape(self.draws.num_chains, used)

    @property
    def exact_sums(self) -> ExactSums | None:
        """Law that sums of counts have given the draw; see `Law.exact_sums`."""
        return "poisson" if self._zeros is None and self._dispersion is None else None

    def _means(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute means of counts that are not structural zeros, float64 [draw, row]."""
        with np.errstate(over="ignore"):
            mean = self._rate * np.exp(self.step * self.sums_of(coded, chosen))
            return np.asarray(mean * coded.by_role.get("exposure", 1.0))

    def _structural(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | None:
        """Compute probabilities of structural zeros, float64 [draw, row]."""
        if self._zeros is None:
            return None
        return np.asarray(
            ndtr(self._zero_offset + self.step * self._zeros.sums_of(self.with_columns(coded), chosen))
        )

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

    def at_own_rows(
        self, draws: NDArray[np.int64], sums: Callable[[Ensemble], NDArray[np.int64]]
    ) -> CountLaw:
        """Make the distribution of counts of draws at rows of their own, by sums of trees [draw, row]."""
        with np.errstate(over="ignore"):
            mean = self._rate * np.exp(self.step * sums(self.ensemble))
        zeros = None if self._zeros is None else ndtr(self._zero_offset + self.step * sums(self._zeros))
        return CountLaw(
            np.ascontiguousarray(mean.T),
            None if self._dispersion is None else self._dispersion[draws],
            None if zeros is None else np.ascontiguousarray(zeros.T),
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

    @property
    def inverse_link(self) -> Callable[[Floats], Floats]:
        """Function from the logarithm of an expected count, which trees learn, to that."""
        return np.exp

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
        if coded is None and self.draws.header.beside:
            return LARGE_BOUND
        rows = self.draws.reference if coded is None else coded
        some = rows.part(spaced(rows.num_rows, SOME_ROWS))
        means = self._means(some, self.draws.choose(1)[0]).mean(axis=0)
        return float(np.mean(np.where(means > SMALL_MEAN, LARGE_BOUND, SMALL_BOUND)))

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws, outcomes=self._outcomes)

    def _outcomes(self, part: Coded, f: Floats, tails: Floats, used: int) -> tuple[Floats, Floats, Floats]:  # noqa: ARG002
        """Return the variance of a new count and its quantiles; see `fill_by_figure`."""
        law = self.outcome_law(part, None, used)
        each = law.variance_by_draw()
        return each.mean(axis=1), law.quantiles(np.where(tails < 0, 1 + tails, tails)), each
