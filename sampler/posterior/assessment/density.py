"""Predictive distributions of rows, and densities of predictions at one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import DataError, SettingsError
from sampler.families import FAMILIES
from sampler.posterior.core.intervals import Request
from sampler.posterior.laws.hurdle import HurdleLaw
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import predict
from sampler.posterior.protocol import Document, OutcomeLaw
from sampler.posterior.refusals import check
from sampler.posterior.weighting.noise_law import Shape, scaled_density

POINTS = 240
FAR = 4.0  # standard deviations of the noise shown beyond the draws
LEVEL = 0.9
BLOCK = 2_000  # rows at once: 16 MB for 1,000 draws


class PredictiveDistribution:
    """Posterior predictive distribution of a new outcome of each row, of weight 1.

    It is the mixture of the draws' distributions. Outcomes `y` are a number for all rows, float64 [row], or
    float64 [.., row]; the answers have that shape, in units of the outcome where they have a unit.
    """

    def __init__(self, law: Law, coded: Coded) -> None:
        """Raise SettingsError for classes, whose distribution is their probabilities."""
        check("distribution", law)
        self._law, self._coded = law, coded

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._coded.num_rows

    @cached_property
    def mean(self) -> Floats:
        """Expected outcome, float64 [row]."""
        return np.asarray(predict(self._law, self._coded, level=None).mean)

    def log_prob(self, y: Any) -> Floats:
        """Compute the log density of outcomes, of counts the log probability; its mean is the log score.

        Raises
        ------
        DataError
            For outcomes of another number than the rows, and for missing or infinite ones.

        """
        return self._at(y, lambda law, values: law.log_density(values))

    def prob(self, y: Any) -> Floats:
        """Compute the density of outcomes, of counts the probability; raises DataError as `log_prob`."""
        return np.exp(self.log_prob(y))

    def cdf(self, y: Any) -> Floats:
        """Compute the probability of an outcome of at most y; raises DataError as `log_prob`."""
        return self._at(y, lambda law, values: law.below(values, np.ones(len(values))))

    def crps(self, y: Any) -> Floats:
        """Compute the continuous ranked probability score (Gneiting and Raftery 2007); less is better.

        Raises
        ------
        DataError
            As `log_prob`.
        SettingsError
            For a model of censored outcomes.

        """
        check("crps", self._law)
        return self._at(y, lambda law, values: law.crps(values))

    def quantile(self, q: float | Sequence[float]) -> Floats:
        """Find the outcomes that are exceeded with probability 1 - q, float64 [row], or [q, row] of several.

        Raises
        ------
        SettingsError
            For a q outside (0, 1).

        """
        wanted = np.asarray(q, np.float64)
        if wanted.ndim > 1 or not np.all((wanted > 0) & (wanted < 1)):
            raise SettingsError(
                f"quantiles are those of probabilities between 0 and 1, not {q!r}",
                field="quantiles",
                code="out_of_range",
            )
        found = np.empty((wanted.size, self.num_rows))
        for rows, law in self._laws():
            found[:, rows] = [law.quantile(float(each)) for each in wanted.reshape(-1)]
        return found.reshape((*wanted.shape, self.num_rows))

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """Compute the ends of each row's equal-tailed interval; raises SettingsError for another level."""
        level = Request.check_level(level)
        lower, upper = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    def _laws(self) -> list[tuple[slice, OutcomeLaw]]:
        """Return the distributions of blocks of rows, in order."""
        starts = range(0, self.num_rows, BLOCK)
        blocks = [slice(start, min(start + BLOCK, self.num_rows)) for start in starts]
        return [(rows, self._law.outcome_law(self._coded.part(rows))) for rows in blocks]

    def _at(self, y: Any, figure: Callable[[OutcomeLaw, Floats], Floats]) -> Floats:
        try:
            given = np.asarray(y, np.float64)
            values = np.broadcast_to(given, np.broadcast_shapes(given.shape, (self.num_rows,)))
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.shape[-1:] != (self.num_rows,) or not np.isfinite(values).all():
            raise DataError(f"outcomes must be finite numbers, one for each of the {self.num_rows} rows")
        answer = np.empty(values.shape)
        for rows, law in self._laws():
            for place in np.ndindex(values.shape[:-1]):
                answer[(*place, rows)] = figure(law, np.ascontiguousarray(values[(*place, rows)]))
        return answer


@dataclass(frozen=True, eq=False, repr=False)
class Density(Document):
    """Densities at one row.

    Attributes
    ----------
    x
        Points in units of the outcome, float64 [240].
    mean
        Density of the regression function at them (for two classes: of the second's probability), a kernel
        estimate over the draws; None when all are equal.
    outcome
        Density of a new outcome of weight 1, the mixture of the draws' densities (for counts: bars of their
        probabilities); None for two classes.
    centre
        The posterior mean.
    intervals
        (lower, upper) at 90%, for ``mean`` and ``outcome``.
    point
        Of a hurdle its value and the probability of that, which is beside the density.

    """

    x: Floats
    mean: Floats | None
    outcome: Floats | None
    centre: float
    intervals: dict[str, tuple[float, float]]
    point: tuple[float, float] | None = None


def density(law: Law, coded: Coded, num_draws: int) -> Density:
    """Compute the densities of the regression function and of a new outcome at one row.

    Parameters
    ----------
    law
        Law of the draws of numbers or of two classes.
    coded
        The row.
    num_draws
        Use the first `num_draws` draws of each chain.

    Returns
    -------
    Density
        The densities, the posterior mean and the intervals.

    Raises
    ------
    DataError
        For several rows or none.
    SettingsError
        For more than two classes.

    """
    check("density", law)
    if coded.num_rows != 1:
        raise DataError(f"a density is of one row, and {coded.num_rows} were given")
    from scipy.stats import gaussian_kde  # noqa: PLC0415  half a second to import

    # Draws with weights are repeated in proportion to them.
    alike = law.weights.spaced(num_draws, law.draws.num_chains * num_draws)
    f = law.for_means.mean(coded, num_draws)[:, :, 0].reshape(-1)[alike]
    noise = None if law.sigma is None else law.for_means.outcome_sd(coded, num_draws)
    sigma = None if noise is None else noise[:, :, 0].reshape(-1)[alike]
    transform = law.transform
    shape = law.draws.shape
    if shape is not None:
        shape = shape.map(lambda by_draw: by_draw[:, :num_draws].reshape(-1)[alike])
    spread = float(np.ptp(f)) or max(abs(float(f[0])), 1.0) * 1e-3
    beyond = 0.15 * spread if sigma is None else max(FAR * float(sigma.mean()), 0.15 * spread)
    x = np.linspace(f.min() - beyond, f.max() + beyond, POINTS)
    masses = _with_masses(law, coded, float(f.max()))
    x = masses["x"] if masses else x
    if law.classes is not None:
        x = np.clip(x, 0.0, 1.0)

    def outcome(x: Floats) -> Floats:
        learnt, noise = (
            values[:, :, 0].reshape(-1)[alike]
            for values in (law.f(coded, num_draws), law.noise(coded, num_draws))
        )
        if law.recalibration is not None:
            own = law.outcome_law(coded)
            return np.exp([own.log_density(np.array([each]))[0] for each in x])
        with np.errstate(invalid="ignore"):
            return _mixture(transform.forward(x), learnt, noise, shape) * np.exp(transform.log_slope(x))

    kinds = {"mean": "credible"} | ({} if sigma is None and not masses else {"outcome": "predictive"})
    answers = {name: predict(law, coded, LEVEL, kind, num_draws=num_draws) for name, kind in kinds.items()}
    drawn: dict[str, Any] = {"x": x, "outcome": None if sigma is None or masses else outcome(x)} | masses
    return Density(
        mean=gaussian_kde(f)(x) if np.ptp(f) > 0 else None,
        centre=float(answers["mean"].mean[0]),
        intervals={
            name: (float(answer.lower[0]), float(answer.upper[0])) for name, answer in answers.items()
        },
        **drawn,
    )


def _with_masses(law: Law, coded: Coded, largest: float) -> dict[str, Any]:
    """Compute ``x``, ``outcome`` and ``point`` where outcomes have point masses: of counts and hurdles.

    `largest` is that of the means, which are shown. Empty for others.
    """
    if FAMILIES[law.draws.family].target == "counts":  # a bar of width 1 around each count
        counts = law.outcome_law(coded)
        top = max(float(counts.quantile(0.999)[0]), np.ceil(largest))
        x = np.linspace(-0.5, top + 0.499, POINTS)
        return {"x": x, "outcome": np.exp([counts.log_density(np.array([k]))[0] for k in np.rint(x)])}
    if not isinstance(law, HurdleLaw):
        return {}
    hurdle = law.outcome_law(coded)
    low, high = (float(hurdle.others.quantile(q)[0]) for q in (0.001, 0.995))
    x = np.linspace(low, max(high, largest), POINTS)
    outcome = np.exp([hurdle.log_density_of_others(np.array([each]))[0] for each in x])
    return {"x": x, "outcome": outcome, "point": (hurdle.point, float(hurdle.mass[0]))}


def _mixture(x: Floats, f: Floats, sigma: Floats, shape: Shape | None) -> Floats:
    z = (x[:, None] - f) / sigma
    heights: Floats = (scaled_density(z, shape) / sigma).mean(axis=1) / np.sqrt(2 * np.pi)
    return heights
