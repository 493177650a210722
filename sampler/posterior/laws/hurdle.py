"""The law of numbers many of which are one value exactly: a probability of that, and the others' law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.scalars import number_to_text
from sampler.errors import PackedError
from sampler.noise import NOISES
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.core.intervals import IntervalFigures
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.law import BOUND_BY_ROW
from sampler.posterior.laws.noise_by_row import NoiseByRowLaw
from sampler.posterior.laws.normal import NormalLaw, predictive_of
from sampler.posterior.laws.predictive import Predictive
from sampler.storage.draws import Draws

FOREST = "at_point"
STEP = 2.0**-17  # grid step of that forest
SURE = 1e-15  # probabilities are no nearer to 0 and 1


@dataclass(frozen=True)
class HurdlePredictive:
    """Predictive distribution of the outcomes of rows: a point mass beside the law of other outcomes.

    Attributes
    ----------
    point
        The value that has a probability of its own.
    at_point
        That probability, float64 [chain, draw, row].
    numbers
        The law of outcomes other than that, of equally weighted draws.

    """

    has_masses: ClassVar[bool] = True

    point: float
    at_point: Floats
    numbers: Predictive

    @cached_property
    def mass(self) -> Floats:
        """Probability of the point, float64 [row]."""
        return np.asarray(self.at_point.mean(axis=(0, 1)))

    @cached_property
    def others(self) -> Predictive:
        """The law of outcomes that are not the point: draws weigh as they expect any."""
        rest = 1.0 - self.at_point
        return replace(self.numbers, share=rest / rest.sum(axis=(0, 1)))

    def log_density(self, y: Floats) -> Floats:
        """Compute the log density of an outcome of each row, at the point its log probability."""
        return np.where(y == self.point, np.log(self.mass), self.log_density_of_others(y))

    def log_density_of_others(self, y: Floats) -> Floats:
        """Compute the log density of outcomes that are not the point, which adds up to less than 1."""
        return np.log1p(-self.mass) + self.others.log_density(y)

    def below(self, y: Floats, shares: Floats | None = None) -> Floats:
        """Compute the probability of at most y at each row, randomised at the point by `shares` [row]."""
        share = np.random.default_rng(0).uniform(size=len(y)) if shares is None else shares
        passed = np.where(y == self.point, share, y > self.point)
        return (1 - self.mass) * self.others.below(y) + self.mass * passed

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's outcome, in its units.

        With probability p of the point v and the others' law G the score S is p |v - y| + (1 - p) S_G(y) - p
        (1 - p) S_G(v), by E|Y - y| - E|Y - Y'| / 2.
        """
        mass, point = self.mass, np.full(len(y), self.point)
        of_y, of_point = (self._score_of_others(at) for at in (y, point))
        return mass * np.abs(point - y) + (1 - mass) * (of_y - mass * of_point)

    def _score_of_others(self, y: Floats) -> Floats:
        """Compute the others' score; below all that their logarithm reaches it grows with the distance."""
        inside = np.maximum(y, self.others.least) if self.others.transform else y
        return self.others.crps(inside) + (inside - y)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of each row's interval: equal-tailed, as far as a point mass lets it be."""
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def held(self, level: float) -> Floats:
        """Compute the probability of each row's interval: more than the level where the point is an end."""
        less = (1 - self.mass) * self.others.below(np.full(len(self.mass), self.point))
        tail, at_most = (1 - level) / 2, less + self.mass
        low = np.where((less < tail) & (tail <= at_most), less, tail)
        return np.where((less < 1 - tail) & (1 - tail <= at_most), at_most, 1 - tail) - low

    def quantile(self, q: float) -> Floats:
        """Compute each row's q-quantile."""
        rest, point = 1 - self.mass, np.full(len(self.mass), self.point)
        before = rest * self.others.below(point)
        above = q > before + self.mass
        level = np.clip((q - self.mass * above) / rest, SURE, 1 - SURE)
        between = (q > before) & ~above
        return np.where(between, point, self.others.quantile(np.where(between, 0.5, level)))


class HurdleLaw(NormalLaw):
    """Numbers of which many are one value: f and the noise are those of the others.

    A second forest has the probability of that value.
    """

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        header = draws.header
        self._at_point = Ensemble([each.forests[FOREST] for each in chains], self.ensemble.num_features)
        self.point, self._point_offset = (float(header.constants[key]) for key in ("point", "point_offset"))
        if not np.isfinite([self.point, self._point_offset]).all():
            raise PackedError("the point of a hurdle is out of range")
        self.own_work += 600  # of a probability, and of figures row by row

    def _forests(self, draws: Draws) -> list[Draws]:
        if FOREST not in draws.forests:
            raise PackedError("the draws have no forest of the point of a hurdle")
        return [draws, draws.forests[FOREST]]

    def at_point_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the probability of the point in the chosen draws, float64 [draw, row]."""
        p = ndtr(self._point_offset + STEP * self._at_point.sums_of(self.with_columns(coded), chosen))
        return np.asarray(np.clip(p, SURE, 1 - SURE))

    def at_point(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Compute the probability of the point in each draw, float64 [chain, draw, row]."""
        chosen, used = self.draws.choose(num_draws)
        return self.at_point_of(coded, chosen).reshape(self.draws.num_chains, used, coded.num_rows)

    def mean_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the outcome's mean in the chosen draws, float64 [draw, row]."""
        p = self.at_point_of(coded, chosen)
        return np.asarray(p * self.point + (1 - p) * super().mean_of(coded, chosen))

    def outcome_sd(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return the sd of a new outcome in each draw, float64 [chain, draw, row]."""
        p, sd = self.at_point(coded, num_draws), super().outcome_sd(coded, num_draws)
        away = (self.mean(coded, num_draws) - self.point) / (1 - p)  # of the others' mean
        return np.sqrt((1 - p) * (sd**2 + p * away**2))

    def average_of(self, chosen: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Return None: a mean is no sum of trees."""
        return

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws, outcomes=self._outcomes)

    def _outcomes(
        self, part: Coded, _means: Floats, tails: Floats, used: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return the variance of a new outcome and its quantiles; see `fill_by_figure`."""
        law = self.outcome_law(part, None, used)
        levels = np.where(tails < 0, 1 + tails, tails)
        bounds = [law.quantile(float(level)) for level in levels]
        each = self.outcome_sd(part, used) ** 2
        of_rows = np.array(bounds).reshape(len(bounds), part.num_rows)
        return np.mean(each, axis=(0, 1)), of_rows, each.reshape(-1, part.num_rows).T

    def bound_work(self, coded: Coded | None = None) -> float:  # noqa: ARG002
        """Return the cost of a predictive bound by row and draw, in trees; see `Law.bound_work`."""
        return BOUND_BY_ROW

    def _typical_noise(self) -> Floats:
        """Compute the posterior mean of the outcome's sd at the reference rows, float64 [row]."""
        return np.asarray(self.outcome_sd(self.draws.reference).mean(axis=(0, 1)))

    def outcome_law(
        self, coded: Coded, weights: Floats | None = None, num_draws: int | None = None
    ) -> HurdlePredictive:
        """Make the predictive distribution of the outcomes of rows."""
        numbers = predictive_of(self, coded, weights, num_draws)
        return HurdlePredictive(self.point, self.at_point(coded, num_draws), numbers)

    def sample_outcomes(
        self, coded: Coded, weights: Floats | None, chosen: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """Draw an outcome of each row from each chosen draw; see `Law.sample_outcomes`."""
        numbers, p = super().sample_outcomes(coded, weights, chosen, rng), self.at_point_of(coded, chosen)
        return np.where(rng.uniform(size=p.shape) < p, self.point, numbers)

    def outcomes_by_draw(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Compute what each chosen draw says of known outcomes; see `Law.outcomes_by_draw`."""
        logs, p = super().outcomes_by_draw(coded, y, weights, chosen)[1], self.at_point_of(coded, chosen)
        return self.mean_of(coded, chosen), np.where(y == self.point, np.log(p), np.log1p(-p) + logs)

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to their Monte Carlo errors: 0 at the point."""
        law, p = self.outcome_law(part, None, used), self.at_point(part, used)

        def errors(bound: Floats) -> Floats:
            below = (1 - p) * law.numbers.below_by_draw(bound) + p * (bound >= self.point)
            density = np.exp(law.log_density_of_others(bound))
            error = self.weights.mean_error(below.transpose(2, 0, 1), used) / np.maximum(density, 1e-300)
            return np.where(bound == self.point, 0.0, error)

        return errors

    def learnt_unit(self) -> str:
        """Say what the trees learn, in words."""
        return f"{super().learnt_unit()}, where it is not {number_to_text(self.point)}"


class HurdleByRowLaw(HurdleLaw, NoiseByRowLaw):
    """A hurdle whose other outcomes have noise that differs by row."""


def hurdle_law(draws: StoredDraws, chains: Sequence[Draws]) -> HurdleLaw:
    """Make the law of a hurdle's draws, by the noise of its numbers."""
    noise = NOISES.get(str(draws.header.settings.get("noise")), NOISES["constant"])
    return (HurdleByRowLaw if noise.forest else HurdleLaw)(draws, chains)
