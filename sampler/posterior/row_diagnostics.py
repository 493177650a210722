"""What is known of the very rows asked: the Monte Carlo error of their figures, and whether chains agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from sampler.data.encode import Coded
from sampler.errors import SettingsError
from sampler.posterior.intervals import Interval, Quantile
from sampler.posterior.verdict import FEWEST_DRAWS, Agreement, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior, Prediction
    from sampler.posterior.verdict import Verdict

    Floats = NDArray[np.float64]

ROOT = np.sqrt(2 * np.pi)
BLOCK_CELLS = 1 << 18  # draws times rows held at a time: 2 MB, some ten times over


@dataclass(frozen=True)
class Errors:
    """Monte Carlo standard errors of a prediction: float64 [row] of the mean and of each bound."""

    mean: Floats
    intervals: list[Interval]
    quantiles: list[Quantile]


@dataclass(frozen=True)
class RowsVerdict:
    """Whether the chains agree at the rows asked, and on sigma, and why it is no better."""

    verdict: Verdict
    reasons: list[Reason]


def errors(posterior: Posterior, coded: Coded, prediction: Prediction, kind: str) -> Errors:
    """Monte Carlo standard errors of what `prediction` says of those rows, from as many draws as it used.

    A credible bound's is that of a sample quantile. A predictive one's follows from that of the mixture's
    distribution function at the bound, divided by its density there. Of weighted draws they rest on how far
    independent runs are apart.

    Raises
    ------
    SettingsError
        Fewer than 8 draws per chain.

    """
    check_draws(prediction.draws)
    intervals = [
        Interval(each.level, np.empty(each.lower.shape), np.empty(each.lower.shape))
        for each in prediction.intervals
    ]
    quantiles = [Quantile(each.q, np.empty(each.values.shape)) for each in prediction.quantiles]
    bounds = [*_bounds(prediction.intervals, prediction.quantiles)]
    into = [*_bounds(intervals, quantiles)]
    mean = np.empty(prediction.mean.shape)
    for rows, f in _blocks(posterior, coded, prediction.draws):
        shape = mean[rows].shape
        mean[rows] = posterior.mean_error(f, prediction.draws).reshape(shape)
        for (level, values), (_, found) in zip(bounds, into, strict=True):
            if kind != "predictive":
                found[rows] = posterior.quantile_error(f, level, prediction.draws).reshape(shape)
            else:
                sigma = posterior.sample_sigma(_part(coded, rows), prediction.draws).transpose(2, 0, 1)
                found[rows] = _mixture_error(posterior, f, sigma, values[rows], prediction.draws)
    return Errors(mean, intervals, quantiles)


def agreement(posterior: Posterior, coded: Coded, num_draws: int) -> Agreement:
    """R-hat, effective draws and Monte Carlo error of f at each row (and class); raises as `errors`."""
    check_draws(num_draws)
    parts = [posterior.agreement(f, num_draws) for _, f in _blocks(posterior, coded, num_draws)]
    names = ("rhat", "error", "ess_bulk", "ess_tail")
    return Agreement(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def verdict(posterior: Posterior, found: Agreement | None, num_draws: int) -> RowsVerdict:
    """The verdict on rows with that agreement, by the limits and the share of rows of `summary`.

    None stands for rows of which too few draws are there to know.
    """
    if found is None:
        return RowsVerdict("not_converged", [Reason("too_few_draws", {"draws": num_draws})])
    best, reasons = posterior.judge(found, num_draws)
    return RowsVerdict(best, [replace(reason, rows="rows asked") for reason in reasons])


def model_verdict(posterior: Posterior, num_draws: int) -> Verdict:
    """The verdict the model had when each chain had kept so many draws."""
    if not is_known(num_draws):
        return "not_converged"
    return verdict(posterior, agreement(posterior, posterior.reference, num_draws), num_draws).verdict


def thinned(posterior: Posterior, coded: Coded, num_draws: int, count: int) -> Floats:
    """Draws of f at each row, `count` of all chains' first `num_draws`, evenly spaced: float64 [row, count].

    Raises
    ------
    SettingsError
        There are not so many.

    """
    total = posterior.num_chains * num_draws
    if not 1 <= count <= total:
        raise SettingsError(
            f"samples must be from 1 to {total}, the draws of all chains, not {count}",
            field="samples",
            code="out_of_range",
        )
    chosen = posterior.spaced(num_draws, count)
    found = [f.reshape(len(f), total)[:, chosen] for _, f in _blocks(posterior, coded, num_draws)]
    values = np.concatenate(found) if found else np.empty((0, count))
    classes = posterior.classes
    return values if classes is None or len(classes) == 2 else values.reshape(-1, len(classes), count)


def is_known(num_draws: int) -> bool:
    """Whether so many draws per chain are enough for R-hat and Monte Carlo errors."""
    return num_draws >= FEWEST_DRAWS


def check_draws(num_draws: int) -> None:
    """Raise SettingsError when there are too few draws to know anything of their error."""
    if not is_known(num_draws):
        raise SettingsError(
            f"num_draws: R-hat and Monte Carlo errors take at least {FEWEST_DRAWS} draws per chain, "
            f"and there are {num_draws}",
            field="num_draws",
            code="out_of_range",
        )


def _bounds(intervals: list[Interval], quantiles: list[Quantile]) -> Iterator[tuple[float, Floats]]:
    """The probability of each bound, and its values."""
    for level, lower, upper in intervals:
        yield (1 - level) / 2, lower
        yield (1 + level) / 2, upper
    yield from quantiles


def _blocks(posterior: Posterior, coded: Coded, num_draws: int) -> Iterator[tuple[slice, Floats]]:
    """Draws of f [row (and class), chain, draw] for some rows after the others."""
    size = max(16, BLOCK_CELLS // (posterior.num_chains * num_draws))
    for start in range(0, coded.num_rows, size):
        rows = slice(start, min(start + size, coded.num_rows))
        yield rows, posterior.draws_by_figure(coded.codes[:, rows], num_draws)


def _part(coded: Coded, rows: slice) -> Coded:
    return Coded(coded.codes[:, rows], [])


def _mixture_error(posterior: Posterior, f: Floats, sigma: Floats, bound: Floats, num_draws: int) -> Floats:
    z = (bound[:, None, None] - f) / sigma  # sigma as f: [row, chain, draw]
    density = posterior.mean_of(np.exp(-0.5 * z**2) / (ROOT * sigma), num_draws)
    return posterior.mean_error(ndtr(z), num_draws) / density
