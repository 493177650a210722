"""The law of numbers: a sum of trees with noise of one shape, of an outcome or its transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sampler import interrupt
from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.posterior.core.intervals import (
    SOME_DRAWS,
    AlikeNoise,
    Given,
    IntervalFigures,
    Lines,
    Request,
    RowIndex,
    have_places,
)
from sampler.posterior.core.row_blocks import by_blocks, draws_by_row
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.law import BOUND, BOUND_BY_ROW, BOUND_OF_MIXTURE, Law
from sampler.posterior.laws.predictive import Predictive
from sampler.posterior.laws.recalibrated import RecalibratedPredictive
from sampler.posterior.parts.recalibration import RecalibratedFigures
from sampler.posterior.protocol import ExactSums, OutcomeLaw
from sampler.posterior.recalibration.recalibration import Recalibration
from sampler.posterior.recalibration.score_table import ScoreTable
from sampler.posterior.weighting import noise_law
from sampler.posterior.weighting.student_noise import sd_of
from sampler.storage.draws import Draws

MEAN = {"log": 200, "yeo-johnson": 3500}  # cost of the mean of a transformed outcome, see `Law.own_work`
ROOT = np.sqrt(2 * np.pi)

Moments = tuple[Floats, Floats]  # mean and sd of outcomes, float64 [row] each


class NormalLaw(Law):
    """Numbers: f is a sum of trees, and the outcome or its transform is f and noise of one size."""

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        if self.transform:
            self.own_work += MEAN[self.transform.kind]

    @property
    def learnt_sigma(self) -> Floats | None:
        """Draws of the scale that the prior of sigma is about, float64 [chain, draw]: of t, its scale."""
        degrees = self.draws.degrees
        return self.sigma if degrees is None else self.draws.sigma / sd_of(degrees)

    @property
    def exact_sums(self) -> ExactSums | None:
        """Law that sums of outcomes have given the draw; see `Law.exact_sums`."""
        plain = not self.transform and self.draws.shape is None and self.recalibration is None
        return "normal" if plain else None

    @property
    def mean_grid(self) -> tuple[float, float] | None:
        """Offset and step of the grid that a row's mean is on in a draw; see `Law.mean_grid`."""
        return (self.offset, self.step) if self.exact_sums else None

    @property
    def adds_effect(self) -> bool:
        """Whether a treatment's effect is a sum of trees."""
        return self.effects is not None and not self.transform

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute f of the chosen draws, float64 [draw, row]."""
        return self._sums_and_parts(coded, chosen)

    def mean_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute the outcome's mean in the chosen draws, float64 [draw, row]."""
        f = self.f_of(coded, chosen)
        if not self.transform:
            return f
        return self.transform.moments(f, self.noise_of(coded, chosen))[0]

    def outcome_sd(self, coded: Coded, num_draws: int | None = None) -> Floats:
        """Return the sd of a new outcome in each draw, float64 [chain, draw, row]."""
        noise = self.noise(coded, num_draws)
        if not self.transform:
            return noise
        return self.transform.moments(self.f(coded, num_draws), noise)[1]

    def average_of(self, chosen: NDArray[np.int64]) -> Callable[[Coded], Floats] | None:
        """Return a function from copies of rows to draws of f averaged over each, float64 [draw, copy]."""
        if self.adding or self.transform or not self.ensemble.has_room:
            return None

        def average(coded: Coded) -> Floats:
            totals = self.ensemble.totals_of(coded, chosen)
            num_rows = coded.num_rows // totals.shape[1]
            return np.asarray(self.offset + self.step * (totals / num_rows))

        return average

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        chosen, used = self.draws.choose(num_draws)
        sigma = np.ascontiguousarray(self.draws.sigma[:, :used]).reshape(-1)
        predictive = figures.request.predictive
        if predictive and (by := self.recalibration) is not None:
            figures.wrapped = RecalibratedFigures(by, coded.codes)
        shape = self.draws.shape
        one_normal = shape is None and not self.noise_differs
        transform = self.transform
        plain = self.in_steps and not transform and (one_normal or not predictive)
        alike = None
        if one_normal and self.knows_all:
            alike = AlikeNoise(sigma, self.offset, self.step)
        lines = self.slopes if predictive and not transform and len(self.adding) == 1 else None
        if alike is None:
            lines = None
        if lines is not None and not have_places(self.ensemble.largest + lines.largest / self.step):
            lines = None
        slopes = None if lines is None else lines.values[chosen]

        def evaluate(block: tuple[RowIndex, bool]) -> Callable[[], None]:
            """Evaluate the draws at a block of rows; return what then computes their figures."""
            rows, whole_steps = block
            part = coded.part(rows)
            if not whole_steps:
                f = draws_by_row(self.f(part, used))
                noise = draws_by_row(self.noise(part, used)) if predictive or transform else None
                each = None if shape is None else shape.map(lambda by_draw: by_draw[:, :used].reshape(-1))
                return partial(figures.fill_mixtures, rows, f, noise, each, transform, alike)
            sums = self.ensemble.sums(self.with_columns(part).codes, chosen)
            for beside in self.parts:
                sums = beside.added(sums, part, chosen)
            if lines is not None and slopes is not None and alike is not None:
                return partial(figures.fill_lines, rows, sums, Lines(slopes, lines.terms_of(part)), alike)
            return partial(figures.fill, rows, sums, self.offset, self.step, sigma)

        known = None if self.knows_all else self.known
        blocks = by_blocks(coded, len(chosen), known, plain=plain or lines is not None)
        for _, fill in interrupt.ahead(evaluate, blocks):
            fill()
        return used

    def bound_work(self, coded: Coded | None = None) -> float:
        """Return the cost of a predictive bound by row and draw, in trees; see `Law.bound_work`."""
        if self.draws.header.settings.get("noise") == "mixture":
            return BOUND_OF_MIXTURE
        if self.draws.shape is not None or self.noise_differs:
            return BOUND_BY_ROW
        if self.knows_all or coded is None or not coded.num_rows:
            return BOUND
        if not self.in_steps or self.transform:
            return BOUND_BY_ROW
        return BOUND + (BOUND_BY_ROW - BOUND) * float(np.mean(~self.known(coded)))

    def outcome_law(
        self, coded: Coded, weights: Floats | None = None, num_draws: int | None = None
    ) -> OutcomeLaw:
        """Make the predictive distribution of the outcomes of rows with such weights (1 for None)."""
        return self.outcome_law_of(coded, weights, num_draws)

    def outcome_law_of(
        self,
        coded: Coded,
        weights: Floats | None,
        num_draws: int | None = None,
        moments: Moments | None = None,
    ) -> OutcomeLaw:
        """Make it of rows whose `moments` may be known."""
        law = predictive_of(self, coded, weights, num_draws)
        if (by := self.recalibration) is None:
            return law
        return RecalibratedPredictive(law, by, *self._scale_and_table(by, coded, weights, num_draws, moments))

    def sample_outcomes(
        self, coded: Coded, weights: Floats | None, chosen: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """Draw an outcome of each row from each chosen draw; see `Law.sample_outcomes`."""
        y = sample_outcomes(self, coded, weights, chosen, rng)
        if (by := self.recalibration) is None:
            return y
        scale, table = self._scale_and_table(by, coded, weights, self._used(chosen))
        return np.asarray(table.changed(by, scale, y.T).T)

    def given_draws(self, coded: Coded, weights: Floats | None) -> Predictive:
        """Make the distribution of the outcomes of rows in each draw, before any recalibration."""
        return predictive_of(self, coded, weights)

    def moments(self, coded: Coded, num_draws: int | None = None) -> Moments:
        """Compute mean and sd of an outcome of weight 1 by the draws, before any recalibration, [row]."""
        figures = IntervalFigures((coded.num_rows,), Request((), (), "predictive"))
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float they are infinite
            self.before_recalibration.fill(figures, coded, num_draws)
        return figures.mean, figures.sd

    def added_to_mean(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | float:
        """Return what a recalibration adds to the outcome's mean at rows; see `Law.added_to_mean`."""
        if (by := self.recalibration) is None:
            return 0.0
        used = self._used(chosen)
        moments = self.moments(coded, used)
        return self._recalibrated_mean(by, coded, used, moments) - moments[0]

    def recalibrated_mean(self, coded: Coded, moments: Moments) -> Floats:
        """Compute the mean of a recalibrated outcome of weight 1 at rows of such `moments`, float64 [row]."""
        by = self.recalibration
        assert by is not None, "the law is recalibrated"
        return self._recalibrated_mean(by, coded, None, moments)

    def _recalibrated_mean(
        self, by: Recalibration, coded: Coded, num_draws: int | None, moments: Moments
    ) -> Floats:
        scale, table = self._scale_and_table(by, coded, None, num_draws, moments)
        return table.moments(by, scale)[0]

    def _used(self, chosen: NDArray[np.int64]) -> int:
        """Return how many draws of each chain chosen ones are of, so that more draws later change nothing."""
        return int(self.draws.places(chosen)[1].max()) + 1

    def _scale_and_table(
        self,
        by: Recalibration,
        coded: Coded,
        weights: Floats | None,
        num_draws: int | None,
        moments: Moments | None = None,
    ) -> tuple[Floats, ScoreTable]:
        """Return s of each row, and their quantiles before the recalibration by normal score."""
        mean, sd = self.moments(coded, num_draws) if moments is None else moments
        chosen = self.draws.choose(num_draws)[0]
        chosen = chosen[:: max(1, len(chosen) // SOME_DRAWS)]
        places, shape = self.draws.places(chosen), self.draws.shape
        f, noise = self.f_of(coded, chosen).T, self.noise_of(coded, chosen).T
        of_some = None if shape is None else shape.map(lambda by_draw: by_draw[places])
        scale = by.scale(coded.codes, mean, sd)
        if weights is not None:
            noise, lighter = noise / np.sqrt(weights)[:, None], np.mean(noise**2, axis=1) * (1 / weights - 1)
            sd = np.sqrt(np.maximum(sd**2 + lighter, 0.0))
        return scale, ScoreTable.of(Given(f, noise, of_some, self.transform), mean, sd)

    def outcomes_by_draw(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Compute what each chosen draw says of known outcomes; see `Law.outcomes_by_draw`."""
        return outcomes_by_draw(self, coded, y, weights, chosen)

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to their Monte Carlo errors."""
        return bound_errors(self, part, used)

    def learnt_unit(self) -> str:
        """Say what the trees learn, in words."""
        if not self.transform:
            return super().learnt_unit()
        return self.transform.of(self.draws.header.schema.target.name)


def predictive_of(law: Law, coded: Coded, weights: Floats | None, num_draws: int | None = None) -> Predictive:
    """Make the distribution of outcomes with noise of one shape of rows with weights [row], or weight 1."""
    noise, shape = law.noise(coded, num_draws), law.draws.shape
    used = noise.shape[1]
    return Predictive(
        law.f(coded, num_draws),
        noise / np.sqrt(1.0 if weights is None else weights),
        law.weights.unequal(used),
        None if shape is None else shape.map(lambda by_draw: by_draw[:, :used, None]),
        law.transform,
        coded.limits,
    )


def outcomes_by_draw(
    law: Law, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Compute means and log densities of outcomes with noise of one shape; see `Law.outcomes_by_draw`."""
    f, noise = law.f_of(coded, chosen), law.noise_of(coded, chosen)
    given = _given_draws(law, f, noise, coded, weights, chosen)
    mean = law.for_means.mean_of(coded, chosen) if law.transform else f
    return mean, given.log_density_by_draw(y)[0]


def sample_outcomes(
    law: Law, coded: Coded, weights: Floats | None, chosen: NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Draw outcomes with noise of one shape; see `Law.sample_outcomes`."""
    f, noise = law.f_of(coded, chosen), law.noise_of(coded, chosen)
    return _given_draws(law, f, noise, coded, weights, chosen).sample(rng)


def _given_draws(
    law: Law, f: Floats, noise: Floats, coded: Coded, weights: Floats | None, chosen: NDArray[np.int64]
) -> Predictive:
    """Make the distributions of outcomes in chosen draws, as if these were of one chain."""
    shape, places = law.draws.shape, law.draws.places(chosen)
    own = None if shape is None else shape.map(lambda by_draw: by_draw[places][None, :, None])
    sigma = noise / np.sqrt(1.0 if weights is None else weights)
    return Predictive(f[None], sigma[None], None, own, law.transform, coded.limits)


def bound_errors(law: Law, part: Coded, used: int) -> Callable[[Floats], Floats]:
    """Return a function from predictive bounds [row] with noise of one shape to their Monte Carlo errors."""
    of_f, of_noise = law.f(part, used), law.noise(part, used)
    f, sigma = np.ascontiguousarray(of_f.transpose(2, 0, 1)), of_noise.transpose(2, 0, 1)
    transform = law.transform
    shape = law.draws.shape
    if shape is not None:
        shape = shape.map(lambda by_draw: by_draw[:, :used])

    def errors(bound: Floats) -> Floats:
        z = (transform.forward(bound)[:, None, None] - f) / sigma
        density = law.weights.mean_of(noise_law.scaled_density(z, shape) / (ROOT * sigma), used)
        density = density * np.exp(transform.log_slope(bound))
        return law.weights.mean_error(noise_law.below(z, shape), used) / density

    return errors
