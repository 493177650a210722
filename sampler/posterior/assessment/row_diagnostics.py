"""Diagnostics of requested rows: Monte Carlo errors of their figures, and agreement of the chains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import SettingsError
from sampler.posterior.core.intervals import Interval, Quantile
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import draw_outcomes
from sampler.posterior.results.prediction import Errors, Prediction
from sampler.posterior.verdict.agreement import FEWEST_DRAWS, Agreement
from sampler.posterior.verdict.effects import worst
from sampler.posterior.verdict.reasons import Reason, Verdict

BLOCK_CELLS = 1 << 18  # draws times rows of a block: 2 MB for each of about ten arrays


@dataclass(frozen=True)
class RowsVerdict:
    """Verdict on the agreement of the chains at requested rows and on scalars, with reasons."""

    verdict: Verdict
    reasons: list[Reason]


def errors(law: Law, coded: Coded, prediction: Prediction) -> Errors:
    """Compute Monte Carlo standard errors of a prediction, from as many draws as it used.

    The error of a credible bound is that of a sample quantile. That of a predictive bound is the error of the
    mixture's distribution function at the bound divided by its density there. For weighted draws the errors
    follow from the differences between independent runs.

    Parameters
    ----------
    law
        Law of the draws.
    coded
        The rows.
    prediction
        Prediction of these rows.

    Returns
    -------
    Errors
        Errors in the shape of the estimates.

    Raises
    ------
    SettingsError
        For fewer than 8 draws per chain, and for calibrated intervals, whose ends depend on other rows too.

    """
    check_draws(prediction.draws)
    if prediction.interval == "calibrated":
        raise SettingsError(
            'calibrated intervals have no Monte Carlo errors: ask for interval="predictive"',
            field="mcse",
            code="not_applicable",
        )
    intervals = [
        Interval(each.level, np.empty(each.lower.shape), np.empty(each.lower.shape))
        for each in prediction.intervals
    ]
    quantiles = [Quantile(each.q, np.empty(each.values.shape)) for each in prediction.quantiles]
    bounds = [*_bounds(prediction.intervals, prediction.quantiles)]
    into = [*_bounds(intervals, quantiles)]
    mean = np.empty(prediction.mean.shape)
    for rows, f in _blocks(law, coded, prediction.draws):
        shape, error = mean[rows].shape, None
        if prediction.interval == "predictive":
            error = law.bound_errors(coded.part(rows), prediction.draws)
        of_mean = f
        if (for_means := law.for_means) is not law:
            of_mean = for_means.draws_by_figure(coded.part(rows), prediction.draws)
        mean[rows] = law.weights.mean_error(of_mean, prediction.draws).reshape(shape)
        for (level, values), (_, error_of) in zip(bounds, into, strict=True):
            if error is None:
                error_of[rows] = law.weights.quantile_error(f, level, prediction.draws).reshape(shape)
            else:
                error_of[rows] = error(values[rows])
    return Errors(mean, intervals, quantiles)


def agreement(law: Law, coded: Coded, num_draws: int) -> Agreement:
    """Compute R-hat, effective sample sizes and Monte Carlo errors of f at each row (and class).

    Returns
    -------
    Agreement
        The figures, by row.

    Raises
    ------
    SettingsError
        For fewer than 8 draws per chain.

    """
    check_draws(num_draws)
    parts = [law.weights.agreement(f, num_draws) for _, f in _blocks(law.for_means, coded, num_draws)]
    return Agreement.join(parts)


def rhat_by_row(law: Law, rows_agreement: Agreement) -> Floats:
    """Arrange R-hat as predictions are: float64 [row], or [row, class] with more than two classes.

    It is NaN where the chains don't move.
    """
    rhat = np.where(np.isfinite(rows_agreement.rhat), rows_agreement.rhat, np.nan)
    classes = law.classes
    return rhat if classes is None or len(classes) == 2 else rhat.reshape(-1, len(classes))


def verdict(law: Law, rows_agreement: Agreement | None, num_draws: int) -> RowsVerdict:
    """Judge rows with that agreement by the limits and the share of rows of `summary`.

    `rows_agreement` is None where there are too few draws to compute it.
    """
    if rows_agreement is None:
        return RowsVerdict("not_converged", [Reason("too_few_draws", {"draws": num_draws})])
    best, reasons = law.weights.judge(rows_agreement, law.scalars(), num_draws)
    return RowsVerdict(best, [replace(reason, rows="rows asked") for reason in reasons])


def model_verdict(law: Law, num_draws: int) -> Verdict:
    """Return the verdict on the model after `num_draws` draws per chain."""
    if not is_known(num_draws):
        return "not_converged"
    of_f = verdict(law, agreement(law, law.draws.reference, num_draws), num_draws).verdict
    return worst(of_f, *(each.verdict for each in law.judged_effects(num_draws)))


def thinned(law: Law, coded: Coded, num_draws: int, count: int, outcome_seed: int | None = None) -> Floats:
    """Choose `count` of the first `num_draws` draws of all chains, evenly spaced, at each row.

    With `outcome_seed` they are of new outcomes (`Posterior.sample_predictive`), else of f.

    Returns
    -------
    NDArray[np.float64]
        Draws [row, count]; of f with more than two classes [row, class, count].

    Raises
    ------
    SettingsError
        For more draws than there are.

    """
    total = law.draws.num_chains * num_draws
    if not 1 <= count <= total:
        raise SettingsError(
            f"samples must be from 1 to {total}, the draws of all chains, not {count}",
            field="samples",
            code="out_of_range",
        )
    if outcome_seed is not None:
        return draw_outcomes(law, coded, law.spaced(count, num_draws), None, outcome_seed).T
    chosen = law.weights.spaced(num_draws, count)
    blocks = [f.reshape(len(f), total)[:, chosen] for _, f in _blocks(law, coded, num_draws)]
    values = np.concatenate(blocks) if blocks else np.empty((0, count))
    classes = law.classes
    return values if classes is None or len(classes) == 2 else values.reshape(-1, len(classes), count)


def is_known(num_draws: int) -> bool:
    """Tell whether `num_draws` draws per chain are enough for R-hat and Monte Carlo errors."""
    return num_draws >= FEWEST_DRAWS


def check_draws(num_draws: int) -> None:
    """Raise SettingsError where there are too few draws for R-hat and Monte Carlo errors."""
    if not is_known(num_draws):
        raise SettingsError(
            f"num_draws: R-hat and Monte Carlo errors take at least {FEWEST_DRAWS} draws per chain, "
            f"and there are {num_draws}",
            field="num_draws",
            code="out_of_range",
        )


def _bounds(intervals: list[Interval], quantiles: list[Quantile]) -> Iterator[tuple[float, Floats]]:
    """Yield the probability and the values of each bound."""
    for level, lower, upper in intervals:
        yield (1 - level) / 2, lower
        yield (1 + level) / 2, upper
    yield from quantiles


def _blocks(law: Law, coded: Coded, num_draws: int) -> Iterator[tuple[slice, Floats]]:
    """Yield draws of f [figure, chain, draw] for successive blocks of rows."""
    size = max(16, BLOCK_CELLS // (law.draws.num_chains * num_draws))
    for start in range(0, coded.num_rows, size):
        rows = slice(start, min(start + size, coded.num_rows))
        yield rows, law.draws_by_figure(coded.part(rows), num_draws)
