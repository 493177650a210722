"""Means, standard deviations and quantiles of predictions, from the draws of f at each row.

Draws of all chains are pooled. Credible intervals, for f, are sample quantiles with linear interpolation.
Predictive intervals, for a new outcome, are quantiles of the mixture over draws of Normal(f, sigma^2), found
by inverting its distribution function, so equal requests get equal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from sampler.array_types import ByPoint, Floats
from sampler.data.transform import IDENTITY, Transform
from sampler.errors import SettingsError
from sampler.posterior.kernels.mixture import mixture_quantiles
from sampler.posterior.kernels.moments import lined_steps, moments, turn
from sampler.posterior.weighting.noise_law import Shape
from sampler.posterior.weighting.quantiles import noise_mixture, of_draws, of_sorted

Sums = NDArray[np.int32] | NDArray[np.int64]
RowIndex = slice | NDArray[np.int64]

IntervalKind = Literal["credible", "predictive", "calibrated"]
CALIBRATED: IntervalKind = "calibrated"  # see `sampler.posterior.assessment.conformal`
KINDS = ("credible", "predictive")
FEW_DRAWS, FEW_DRAWS_OF = 10, 25  # draws, and of how many one is few, that decide a figure
SOME_DRAWS = 32  # tell the form of a law, about its mean and in standard deviations, well enough
FINER = 16  # than the grid: draws of f that are off it are rounded to so much of a step
FARTHEST_PLACE = 2.0**31 - 1  # from the offset, in such steps


class Interval(NamedTuple):
    """Equal-tailed intervals at one level, in the shape of the mean."""

    level: float
    lower: ByPoint
    upper: ByPoint


class Quantile(NamedTuple):
    """One quantile of each row."""

    q: float
    values: Floats


@dataclass(frozen=True)
class Request:
    """Requested interval levels and quantiles in (0, 1), and whether they are for f or for a new outcome."""

    levels: tuple[float, ...]
    quantiles: tuple[float, ...]
    kind: IntervalKind

    @classmethod
    def check(
        cls, level: Any, interval: Any, quantiles: Any, classes: Sequence[str] | None = None
    ) -> Request:
        """Check and normalise a user's request, for a model of such classes; raise SettingsError."""
        if interval not in KINDS:
            raise SettingsError(
                f"interval must be one of {', '.join(KINDS)}, not {interval!r}",
                field="interval",
                code="not_accepted",
            )
        request = cls(_shares("level", level), _shares("quantiles", quantiles), interval)
        if classes is not None and request.predictive:
            many = "two" if len(classes) == 2 else str(len(classes))
            raise SettingsError(
                f"a new outcome of {many} classes has no predictive interval: "
                'interval="credible" gives that of its probability',
                field="interval",
                code="not_applicable",
            )
        return request

    @classmethod
    def check_level(cls, level: Any) -> float:
        """Check the level of figures that have one interval; raise SettingsError."""
        levels = cls.check(level, "credible", None).levels
        if len(levels) != 1:
            raise SettingsError(
                f"level must be one number between 0 and 1 here, not {level!r}",
                field="level",
                code="not_accepted",
            )
        return levels[0]

    @property
    def predictive(self) -> bool:
        """Whether the figures are for a new outcome."""
        return self.kind == "predictive"

    @property
    def tails(self) -> Floats:
        """Tail probability of each bound, upper tails negative: both ends of every level, then quantiles."""
        ends = [tail for level in self.levels for tail in ((1 - level) / 2, -(1 - level) / 2)]
        return np.array([*ends, *(q if q <= 0.5 else q - 1 for q in self.quantiles)])


def _shares(name: str, values: Any) -> tuple[float, ...]:
    if values is None:
        return ()
    items = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, Real) or not 0 < float(item) < 1:
            raise SettingsError(
                f"{name} must be between 0 and 1 (0.9 for 90%), not {item!r}", field=name, code="out_of_range"
            )
    return tuple(float(item) for item in items)


class AlikeNoise(NamedTuple):
    """Normal noise of one size for all rows.

    `sigma` float64 [draw]; f is near `offset`, and `step` is small beside its range.
    """

    sigma: Floats
    offset: float
    step: float


class Lines(NamedTuple):
    """Lines of draws beside their trees: slopes float64 [draw, term], terms float64 [term, row]."""

    slopes: Floats
    terms: Floats


class Given(NamedTuple):
    """Draws of what the model learns at rows, evenly spaced among all.

    `f` and `noise` float64 [row, draw]; the noise also [draw], if it is the same at all rows; `shape` has
    arrays by draw [draw].
    """

    f: Floats
    noise: Floats
    shape: Shape | None
    transform: Transform


class Wrapped(Protocol):
    """Predictive law of rows that is another than that of the draws."""

    def figures(
        self,
        rows: RowIndex,
        moments: tuple[Floats, Floats],
        given: Given,
        tails: Floats,
        bounds_of: Callable[[RowIndex, Floats], Floats],
    ) -> tuple[Floats, Floats, Floats]:
        """Compute mean, sd and bounds [tail, row] of a block of rows.

        `moments` are mean and sd by the draws, of which some are `given`; `bounds_of` has bounds of some rows
        of the block by tails.
        """


def have_places(largest: float) -> bool:
    """Tell whether draws of f can be rounded to int32 places, given the most steps from the offset."""
    return largest * FINER < FARTHEST_PLACE


class IntervalFigures:
    """Figures of many rows, filled block by block so that only one block of draws is in memory.

    Figures are float64 [row], or [row, class] with more than two classes.
    """

    def __init__(self, shape: tuple[int, ...], request: Request) -> None:
        self.mean = np.empty(shape)
        self.sd = np.empty(shape)
        self.request = request
        self.tails = request.tails
        self._bounds = np.empty((len(self.tails), *shape))
        self.by_few = np.zeros(shape[0], bool)  # rows whose mean or sd a few draws decide
        self.wrapped: Wrapped | None = None

    def put(self, rows: RowIndex, mean: Floats, variance: Floats, bounds: Floats) -> None:
        """Take the figures of a block of rows: mean and variance [row and class], bounds [tail, ..]."""
        shape = self.mean[rows].shape
        self.mean[rows] = mean.reshape(shape)
        self.sd[rows] = np.sqrt(variance).reshape(shape)
        self._bounds[:, rows] = bounds.reshape(-1, *shape)

    def judge(self, rows: RowIndex, mean: Floats, variance: Floats) -> None:
        """Mark rows whose moments a few draws decide, by means and variances given each, [row, draw]."""
        with np.errstate(over="ignore"):  # a moment beyond the largest float is none
            self.by_few[rows] = decided_by_few((mean - mean.mean(axis=1, keepdims=True)) ** 2 + variance)

    def fill(self, rows: RowIndex, sums: Sums, offset: float, step: float, sigma: Floats) -> None:
        """Compute the figures of a block of rows with a numeric outcome.

        Parameters
        ----------
        rows
            Position of the block.
        sums
            Sums of trees [draw, row], in grid steps.
        offset, step
            f is offset + step * sums.
        sigma
            float64 [draw].

        """
        mean, variance = _moments(sums)
        self.mean[rows] = offset + step * mean
        variance *= step**2 / max(len(sums) - 1, 1)
        tails, predictive = self.tails, self.request.predictive
        if predictive:
            variance += np.mean(sigma**2)
        self.sd[rows] = np.sqrt(variance)
        if predictive:
            self._of_mixtures(
                rows, _by_row(sums) if len(tails) or self.wrapped else sums, offset, step, sigma
            )
        elif len(tails):
            steps = _by_row(sums)
            steps.sort(axis=1)
            self._bounds[:, rows] = offset + step * of_sorted(steps, tails)

    def _of_mixtures(self, rows: RowIndex, steps: Sums, offset: float, step: float, sigma: Floats) -> None:
        """Compute predictive bounds of rows by steps [row, draw], after mean and sd."""

        def bounds_of(own: RowIndex, tails: Floats) -> Floats:
            return offset + _predictive(steps[own], step, sigma, tails)

        def given() -> Given:
            some = _some(len(sigma))
            return Given(offset + step * steps[:, some].astype(np.float64), sigma[some], None, IDENTITY)

        self._put(rows, given, bounds_of)

    def _put(
        self,
        rows: RowIndex,
        given: Callable[[], Given],
        bounds_of: Callable[[RowIndex, Floats], Floats],
    ) -> None:
        """Put predictive bounds, and where the law is wrapped mean and sd anew."""
        if self.wrapped is not None:
            moments, self.by_few[rows] = (self.mean[rows], self.sd[rows]), False
            figures = self.wrapped.figures(rows, moments, given(), self.tails, bounds_of)
            self.mean[rows], self.sd[rows], self._bounds[:, rows] = figures
        elif len(self.tails):
            self._bounds[:, rows] = bounds_of(slice(None), self.tails)

    def fill_lines(self, rows: RowIndex, sums: Sums, lines: Lines, noise: AlikeNoise) -> None:
        """Compute the predictive figures of a block of rows of sums of trees [draw, row] and lines.

        They are those of `fill_mixtures` but for the last digits; `have_places` must be true.
        """
        sigma, offset, step = noise
        num_draws, num_rows = sums.shape
        slopes = lines.slopes / step
        pivot = sums[0] + np.sum(slopes[0][:, None] * lines.terms, axis=0)
        steps, moments = np.empty((num_rows, num_draws), np.int32), np.zeros((2, num_rows))
        lined_steps(
            np.require(sums, np.int32, ["C", "W"]), slopes, lines.terms, float(FINER), pivot, steps, moments
        )
        total, squares = moments
        self.mean[rows] = offset + step * (pivot + total / num_draws)
        squares = np.maximum(squares - total * total / num_draws, 0.0)
        variance = squares * (step**2 / max(num_draws - 1, 1)) + np.mean(sigma**2)
        self.sd[rows] = np.sqrt(variance)
        self._of_mixtures(rows, steps, offset, step / FINER, sigma)

    def fill_mixtures(
        self,
        rows: RowIndex,
        f: Floats,
        noise: Floats | None,
        shape: Shape | None = None,
        transform: Transform = IDENTITY,
        alike: AlikeNoise | None = None,
    ) -> None:
        """Compute the figures of a block of rows from draws of f and of the noise's sd at each.

        Parameters
        ----------
        rows
            Position of the block.
        f, noise
            float64 [row, draw]; the noise may be None for figures of f itself.
        shape
            Shape of the noise, of arrays by draw [draw]; None for normal noise.
        transform
            Transform of the outcome, of which f is the mean.
        alike
            The noise, where it is normal and of one size for all rows.

        """
        predictive, tails = self.request.predictive, self.tails
        mean, sd = f, noise
        if noise is not None:
            mean, sd = transform.moments(f, noise)
        if noise is not None and sd is not None:
            self.judge(rows, mean, sd**2)
        self.mean[rows] = mean.mean(axis=1)
        variance = mean.var(axis=1, ddof=1) if mean.shape[1] > 1 else np.zeros(len(mean))
        if not predictive or noise is None or sd is None:
            self._bounds[:, rows] = of_draws(mean, None, tails)
            self.sd[rows] = np.sqrt(variance)
            return
        self.sd[rows] = np.sqrt(variance + np.mean(sd**2, axis=1))

        def bounds_of(own: RowIndex, tails: Floats) -> Floats:
            return transform.inverse(mixture_bounds(f[own], noise[own], tails, shape, alike))

        def given() -> Given:
            some = _some(f.shape[1])
            of_some = None if shape is None else shape.map(lambda by_draw: by_draw[some])
            return Given(f[:, some], noise[:, some], of_some, transform)

        self._put(rows, given, bounds_of)

    def fill_probabilities(self, rows: RowIndex, sums: Sums, offset: float, step: float) -> None:
        """Compute the figures of a block of rows with two classes: those of the second's probability.

        The probability is the normal cdf of f; see `fill` for the arguments.
        """
        probability = ndtr(offset + step * sums.T.astype(np.float64, order="C"))
        self.mean[rows] = probability.mean(axis=1)
        self.sd[rows] = probability.std(axis=1, ddof=1) if probability.shape[1] > 1 else 0.0
        self._bounds[:, rows] = of_draws(probability, None, self.tails)

    @property
    def intervals(self) -> list[Interval]:
        """Intervals, in the order of the request."""
        levels = self.request.levels
        return [Interval(v, self._bounds[2 * i], self._bounds[2 * i + 1]) for i, v in enumerate(levels)]

    @property
    def quantiles(self) -> list[Quantile]:
        """Quantiles, in the order of the request."""
        first = 2 * len(self.request.levels)
        return [Quantile(q, self._bounds[first + i]) for i, q in enumerate(self.request.quantiles)]


def _some(draws: int) -> slice:
    """Choose some evenly spaced draws of so many."""
    return slice(None, None, max(1, draws // SOME_DRAWS))


def mixture_bounds(
    f: Floats, noise: Floats, tails: Floats, shape: Shape | None, alike: AlikeNoise | None
) -> Floats:
    """Compute quantiles [tail, row] of the mixtures over draws of f and noise [row, draw].

    For noise that is the same at all rows, f is rounded to a sixteenth of the grid's step, by which the
    compiled search takes a thirtieth of the time; not where f is too far from the offset for that.
    """
    bounds, slow = np.empty((len(tails), len(f))), np.ones(len(f), bool)
    if alike is not None:
        step = alike.step / FINER
        places = (f - alike.offset) / step
        slow = ~(np.abs(places).max(axis=1) < FARTHEST_PLACE)
        steps = np.rint(places[~slow]).astype(np.int32)
        bounds[:, ~slow] = alike.offset + _predictive(steps, step, alike.sigma, tails)
    if slow.any():
        share = np.full(f.shape[1], 1 / f.shape[1])
        bounds[:, slow] = noise_mixture(f[slow], noise[slow], share, tails, shape)
    return bounds


def decided_by_few(parts: Floats) -> NDArray[np.bool_]:
    """Tell which sums over draws fewer than ten draws decide, of nonnegative parts [.., draw]; bool [..].

    Their effective number is (sum)^2 / sum of squares; of few draws it has to be below a 25th of them.
    """
    count = parts.shape[-1]
    top = parts.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        share = parts / np.where(top > 0, top, 1.0)
        effective = share.sum(axis=-1) ** 2 / (share**2).sum(axis=-1)
    return np.asarray((top[..., 0] > 0) & ~(effective >= min(FEW_DRAWS, count / FEW_DRAWS_OF)))


def middle_of(
    draws: Floats, lower: Floats, upper: Floats, *, axis: int = 0, bounded: bool = False
) -> tuple[Floats, NDArray[np.bool_]]:
    """Average over the axis of the draws; the median where a few draws decide it and it leaves its interval.

    Averages of `bounded` figures, such as probabilities, are known, however few draws differ.

    Returns
    -------
    tuple of numpy.ndarray
        The figures, and where they are medians.

    """
    mean = np.asarray(draws.mean(axis=axis))
    few = np.asarray(((mean < lower) | (mean > upper)) & (not bounded))
    if few.any():
        last = np.moveaxis(draws, axis, -1)
        with np.errstate(over="ignore"):  # a moment beyond the largest float is none
            few[few] = decided_by_few((last[few] - mean[few][:, None]) ** 2)
        mean[few] = np.median(last[few], axis=-1)
    return mean, few


def _moments(sums: Sums) -> tuple[Floats, Floats]:
    """Compute the mean, and the sum of squares about it, of each row of sums [draw, row]."""
    if sums.dtype == np.int64:
        mean = sums.sum(axis=0) / len(sums)
        return mean, np.asarray(((sums - mean) ** 2).sum(axis=0))
    num_rows = sums.shape[1]
    mean, squares = np.empty(num_rows), np.empty(num_rows)
    moments(np.require(sums, np.int32, ["C", "W"]), np.empty(num_rows, np.int64), mean, squares)
    return mean, squares


def _by_row(sums: Sums) -> Sums:
    """Copy sums to [row, draw]."""
    if sums.dtype == np.int64:
        return sums.T.copy()
    steps = np.empty(sums.shape[::-1], np.int32)
    turn(np.require(sums, np.int32, ["C", "W"]), steps)
    return steps


def _predictive(steps: Sums, step: float, sigma: Floats, tails: Floats) -> Floats:
    quantiles = np.empty((len(steps), len(tails)))
    largest = int(np.abs(steps).max()) if steps.dtype == np.int64 else 0
    coarse = 1 + (largest >> 31)  # sums beyond int32 are rounded to a coarser grid, 2^-31 of the largest
    fitting = steps.astype(np.int32, copy=False) if coarse == 1 else np.rint(steps / coarse).astype(np.int32)
    mixture_quantiles(fitting, step * coarse, sigma, tails, ndtri(np.abs(tails)), quantiles)
    return quantiles.T


def equal_tailed(draws: Floats, level: float, *, own: bool = False) -> tuple[Floats, Floats]:
    """Compute the ends of the equal-tailed interval over the first axis; `own` draws are put in disorder."""
    tail = (1 - level) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0, overwrite_input=own)
    return lower, upper
