"""Predictions with intervals from the draws of all chains, and whether these agree."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler import interrupt
from sampler.data.encode import Coded
from sampler.data.row_flags import by_row
from sampler.families import FAMILIES
from sampler.posterior.assessment.conformal import levels_to_claim, predict_calibrated
from sampler.posterior.assessment.predictive import OutcomeLaw, Predictive
from sampler.posterior.explanations.shap_values import ForestToExplain
from sampler.posterior.intervals import (
    CALIBRATED,
    AlikeNoise,
    IntervalFigures,
    IntervalKind,
    Lines,
    Request,
    have_places,
)
from sampler.posterior.kernels.tree_sums import BLOCK
from sampler.posterior.kinds.intercepts import INCLUDED
from sampler.posterior.prediction import Prediction
from sampler.posterior.values_at_rows import ValuesAtRows
from sampler.posterior.verdict.reasons import noise_prior_reason
from sampler.posterior.weighting import noise_law
from sampler.storage.draws import concatenate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sampler.posterior.explanations.permutation import Loss
    from sampler.posterior.kinds.intercepts import GroupEffects
    from sampler.posterior.verdict.summary import Summary
    from sampler.storage.conformal_table import CalibratedLevel, ConformalTable

    Floats = NDArray[np.float64]
    Rows = slice | NDArray[np.int64]

# Costs in units of one tree of one draw at one row, about a tenth of a nanosecond: of a predictive bound of a
# mixture of sums of trees, and of one whose components differ by row.
BOUND, BOUND_BY_ROW = 70, 2000
# Rows of a block of sums: were their number a power of two, the values of a row in all draws would share few
# places in the nearest cache, and to put them side by side would take twice as long.
ROWS = BLOCK - 64
MIXTURE_ROWS = 1024 - 64  # at once, where predictions are mixtures of draws that differ by row
ROOT = np.sqrt(2 * np.pi)
MAX_CELLS = 1 << 21  # draws times rows of a block: 8 MB for each of a few arrays
FAR_WEIGHT = 4.0  # times 1: noise has twice the sd, or half


class PosteriorDraws(ValuesAtRows):
    """Predictions from the draws, and whether the chains agree."""

    noise_differs = False  # from row to row

    @property
    def conformal_table(self) -> ConformalTable | None:
        """Table by which intervals are calibrated; None where the model has none."""
        return self._header.calibration

    def calibrated_levels(self, level: float | Sequence[float] | None = 0.9) -> list[CalibratedLevel]:
        """Return what calibrated intervals, or prediction sets, of these levels are and promise.

        Raises
        ------
        SettingsError
            For a model that is not calibrated, and for levels that need more calibration rows.

        """
        return levels_to_claim(self, level)

    @property
    def usual_interval(self) -> IntervalKind:
        """The kind of interval that `predict` gives by default."""
        return FAMILIES[self.family].usual_interval

    def predict(
        self,
        X: Any,
        level: float | Sequence[float] | None = 0.9,
        interval: str | None = None,
        quantiles: float | Sequence[float] | None = None,
        num_draws: int | None = None,
        *,
        ignore_extra: bool = False,
    ) -> Prediction:
        """Predict means, standard deviations and intervals at each row of X.

        Parameters
        ----------
        X
            A table with the model's columns, in any order; a single row as a dict or a pandas series; a list
            of such rows; or rows already encoded.
        level
            Probability of the interval: one, several, or None for no interval.
        interval
            "predictive", for a new outcome (of weight 1), or "credible", for the regression function; None
            is predictive for numbers and, for classes, credible: of their probabilities. "calibrated": for
            a new outcome, with a stated coverage (`calibrate`); of classes, prediction sets.
        quantiles
            Further quantiles of the same distribution, in (0, 1).
        num_draws
            Use the first `num_draws` draws of each chain, which reproduces an earlier answer after `extend`;
            None uses all.
        ignore_extra
            Whether columns that the model doesn't know are left out with a warning; else they are refused.

        Returns
        -------
        Prediction
            ``mean`` and ``sd``, float64 [row] (of more than two classes [row, class]), ``intervals``,
            ``quantiles``, and for each row the cells unlike the training data.

        Raises
        ------
        DataError
            For rows that don't fit the model, with each cell named.
        SettingsError
            For an invalid level, interval, quantile or number of draws; for calibrated intervals of a model
            that has none, and for levels that need more calibration rows.

        """
        if interval == CALIBRATED:
            levels = levels_to_claim(self, level, quantiles, num_draws)
            return predict_calibrated(self, X, levels, num_draws, ignore_extra=ignore_extra)
        request = Request.check(level, interval or self.usual_interval, quantiles, self.classes)
        coded = X if isinstance(X, Coded) else self.encode(X, ignore_extra=ignore_extra)
        several = self.classes is not None and len(self.classes) > 2
        shape = (coded.num_rows, len(self.classes or ())) if several else (coded.num_rows,)
        figures = IntervalFigures(shape, request)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float figures are infinite
            used = self._fill(figures, coded, num_draws)
        return Prediction(
            figures.mean,
            figures.sd,
            figures.intervals,
            figures.quantiles,
            [*coded.warnings, *(self._weight_note() if request.predictive else ())],
            used,
            request.kind,
            by_row(coded.marks, self.schema.inputs),
            self.classes,
            groups="" if self._intercepts is None else INCLUDED[request.kind],
            labels=coded.labels,
        )

    def _weight_note(self) -> list[str]:
        """Warn of predictive intervals, which are of weight 1, where training rows have far other weights."""
        weight = self._header.typical_weight
        if weight is None or 1 / FAR_WEIGHT <= weight <= FAR_WEIGHT:
            return []
        return [
            "predictive intervals are of an outcome of weight 1: the standard deviation of its noise is "
            f"{math.sqrt(weight):.3g} times that of a training row of typical weight ({weight:.3g}); for "
            "outcomes like those fit again with all weights divided by this number"
        ]

    def _fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        chosen, used = self._choose(num_draws)
        sigma = np.ascontiguousarray(self._sigma[:, :used]).reshape(-1)
        predictive = figures.request.predictive
        degrees = self.degrees(used)
        one_normal = degrees is None and not self.noise_differs
        transform = self._transform
        plain = self._slopes is None and transform is None and (one_normal or not predictive)
        alike = None
        if one_normal and self._intercepts is None:
            alike = AlikeNoise(sigma, self._offset, self._step)
        lines = self._slopes if predictive and transform is None and alike is not None else None
        if lines is not None and not have_places(self._ensemble.largest + lines.largest / self._step):
            lines = None
        slopes = None if lines is None else lines.values[chosen]

        def evaluate(block: tuple[Rows, bool]) -> Callable[[], None]:
            """Evaluate the draws at a block of rows; return what then computes their figures."""
            rows, whole_steps = block
            part = coded.part(rows)
            if not whole_steps:
                f = _draws_by_row(self._f(part, used))
                noise = _draws_by_row(self._noise(part, used)) if predictive or transform else None
                each = None if degrees is None else degrees.reshape(-1)
                return partial(figures.fill_mixtures, rows, f, noise, each, transform, alike)
            sums = self._ensemble.sums(part.codes, chosen)
            if self._intercepts is not None:
                sums = self._intercepts.added(sums, part, chosen)
            if lines is not None and slopes is not None and alike is not None:
                return partial(figures.fill_lines, rows, sums, Lines(slopes, lines.terms_of(part)), alike)
            if self.family == "probit":
                return partial(figures.fill_probabilities, rows, sums, self._offset, self._step)
            return partial(figures.fill, rows, sums, self._offset, self._step, sigma)

        blocks = self._row_blocks(coded, len(chosen), plain=plain or lines is not None)
        for _, fill in interrupt.ahead(evaluate, blocks):
            fill()
        return used

    def _row_blocks(self, coded: Coded, draws: int, *, plain: bool) -> Iterator[tuple[Rows, bool]]:
        """Yield blocks of rows to evaluate at once, and whether f is a whole number of steps at each.

        With `plain` it is, except at rows of new groups, whose intercepts are unknown.
        """
        room = max(16, MAX_CELLS // draws)
        if self._intercepts is None or not plain:
            block = min(ROWS if plain else MIXTURE_ROWS, room)
            for start in range(0, coded.num_rows, block):
                yield slice(start, min(start + block, coded.num_rows)), plain
            return
        known = self._intercepts.known(coded)
        for of_sums, block in ((True, ROWS), (False, MIXTURE_ROWS)):
            places = np.flatnonzero(known == of_sums)
            for start in range(0, len(places), min(block, room)):
                yield places[start : start + min(block, room)], of_sums

    def bound_work(self, coded: Coded | None = None) -> float:
        """Return the cost of a predictive bound by row and draw, in trees; see `own_work`.

        `coded` are the rows, if they are known.
        """
        if self._degrees is not None or self.noise_differs:
            return BOUND_BY_ROW
        if self._intercepts is None or coded is None or not coded.num_rows:
            return BOUND
        if self._slopes is not None or self._transform is not None:
            return BOUND_BY_ROW
        return BOUND + (BOUND_BY_ROW - BOUND) * float(np.mean(~self._intercepts.known(coded)))

    def law(self, coded: Coded, weights: Floats | None = None) -> OutcomeLaw:
        """Make the predictive distribution of the outcomes of rows with such weights (1 for None)."""
        return Predictive.of(self, coded, weights)

    def outcomes_by_draw(
        self, coded: Coded, y: Floats, weights: Floats | None, chosen: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Compute for numbers what each chosen draw says of known outcomes y [row] of rows.

        Parameters
        ----------
        coded, y, weights
            The rows, their outcomes and weights (1 for None).
        chosen
            Draws of all chains, as `spaced_draws` chooses them.

        Returns
        -------
        tuple
            The outcome's mean, and its log density (for counts: log probability), float64 [draw, row].

        """
        f, noise = self._f_of(coded, chosen), self._noise_of(coded, chosen)
        degrees = None if self._degrees is None else self._degrees[self._places(chosen)][None, :, None]
        sigma = noise / np.sqrt(1.0 if weights is None else weights)
        law = Predictive(f[None], sigma[None], None, degrees, self._transform, coded.limits)
        mean = f if self._transform is None else self._transform.moments(f, noise)[0]
        return mean, law.log_density_by_draw(y)[0]

    def bound_errors(self, part: Coded, used: int) -> Callable[[Floats], Floats]:
        """Return a function from predictive bounds [row] to their Monte Carlo errors."""
        of_f, of_noise = self.sample_learnt(part, used)
        f, sigma = np.ascontiguousarray(of_f.transpose(2, 0, 1)), of_noise.transpose(2, 0, 1)
        transform, degrees = self.transform, self.degrees(used)

        def errors(bound: Floats) -> Floats:
            z = ((bound if transform is None else transform.forward(bound))[:, None, None] - f) / sigma
            density = self.draw_weights.mean_of(noise_law.scaled_density(z, degrees) / (ROOT * sigma), used)
            if transform is not None:
                density = density * np.exp(transform.log_slope(bound))
            return self.draw_weights.mean_error(noise_law.below(z, degrees), used) / density

        return errors

    def linear_part(self, level: float = 0.9) -> list[dict[str, Any]] | None:
        """Summarise the slopes of the linear part beside the trees; None without one.

        Slopes are on the columns' own scale. They are not effects: trees take any share of the same signal,
        and predictions add both up.

        Parameters
        ----------
        level
            Probability of the interval over draws.

        Returns
        -------
        list of dict
            For each term ``feature``, ``level`` (of a category; None for other kinds), ``missing`` (whether
            the term is for missing values), ``mean``, ``sd``, ``lower`` and ``upper``, and in words their
            ``scale``: the outcome's, or that of its transform.

        """
        level = Request.check_level(level)
        if self._slopes is None:
            return None
        return self._slopes.summary(self.schema, self._choose(None)[0], level, self._learnt_unit())

    def groups(self, level: float = 0.9) -> list[GroupEffects]:
        """Summarise the intercepts of groups beside the trees, for each column of groups; empty without any.

        They are in units of what the trees learn: of the outcome, of its transform, or of the normal quantile
        of the probability of the second class. `level` is the probability of the intervals over draws.
        """
        level = Request.check_level(level)
        if self._intercepts is None:
            return []
        chosen, used = self._choose(None)
        noise = self.typical_sigma if self.typical_sigma is not None else self.sigma
        sigma = np.ones(len(chosen)) if noise is None else noise[:, :used].reshape(-1)
        unit = self._learnt_unit()
        return self._intercepts.effects(chosen, self.num_chains, sigma, level, unit, self.schema)

    def summary(self) -> Summary:
        """Judge whether the chains agree (on up to 200 training rows and sigma), with figures and advice."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        summary = self._summarise()
        drawn = self.sigma if self._degrees is None else self._sigma / noise_law.sd_of(self._degrees)
        more = [
            None if drawn is None else noise_prior_reason(drawn, self._header),
            None if self._intercepts is None else self._intercepts.disagreement(self._sds_of_groups()),
        ]
        return replace(summary, reasons=[*summary.reasons, *(reason for reason in more if reason)])

    def _sds_of_groups(self) -> Floats:
        """Return draws of standard deviations of intercepts and slopes, float64 [scalar, chain, draw]."""
        slopes = self.group_slope_sds()
        return np.concatenate([self.group_sds(), slopes.reshape(-1, *slopes.shape[2:])])

    def _summarise(self) -> Summary:
        f, noise = self.draws_by_figure(self.reference), self._typical_noise()
        return self.draw_weights.summary(f, self.sigma, self.leaf_counts, self._statistics, noise)

    def _typical_noise(self) -> Floats | None:
        """Compute the posterior mean of the outcome's noise sd at the reference rows, float64 [row].

        Rows have a typical weight. None for classes, and where that weight is unknown.
        """
        sigma, reference = self.typical_sigma, self.reference
        if sigma is None or self._transform is None:
            return None if sigma is None else np.full(reference.num_rows, sigma.mean())
        sd = self._transform.moments(self._f(reference), sigma[:, :, None])[1]
        return np.asarray(sd.mean(axis=(0, 1)))

    @property
    def usual_loss(self) -> Loss:
        """The loss by which `importance` ranks by default."""
        alike = self._degrees is None and self._transform is None and not self.noise_differs
        alike = alike and not self.censoring
        return "rmse" if self.classes is None and alike else "log_loss"

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the figure that SHAP values add up to, in words, and its sums of trees, by class."""
        draws = concatenate(self.chains())
        forest = ForestToExplain(
            draws, draws.leaf.astype(np.float64) * self._step, self._offset, self._slopes
        )
        but = "" if self._intercepts is None else ", intercepts of groups left out"
        return f"{self._learnt_unit()}{but}", [forest]

    def _learnt_unit(self) -> str:
        """Say what the trees learn, in words."""
        if self._transform is not None:
            return self._transform.of(self.schema.target.name)
        if self.family != "probit":
            return f"{self.schema.target.name}, in its own unit"
        second = self.schema.target.levels[1]
        return f"the normal quantile of the probability of {second!r} (probit)"


def _draws_by_row(values: Floats) -> Floats:
    """Turn values [chain, draw, row] into [row, draw]."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[2]).T)
