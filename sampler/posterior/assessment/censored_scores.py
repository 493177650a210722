"""Scores of predictions of rows some of which are censored (docs/maths.md#censored-outcomes)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats

Flags = NDArray[np.bool_]

MOST_PAIRED = 10_000  # rows whose pairs are counted
BRIER_TIMES, BRIER_RANGE = 30, (0.1, 0.9)  # between these quantiles of the times of events
LEAST_SHARE = 1e-3  # smallest share of rows not yet censored, by which squares are divided
BINS = 10
FEWEST_EVENTS = 2


def kaplan_meier(times: Floats, events: Flags, *, of_censoring: bool = False) -> tuple[Floats, Floats]:
    """Estimate the survival function of times, some censored (Kaplan and Meier 1958).

    Parameters
    ----------
    times, events
        Times of rows, and whether they are those of events, [row].
    of_censoring
        Whether the function is that of the times of censoring. A row whose event is at t was still at risk
        when others were censored before t, but not of being censored at t: events come first at equal times.

    Returns
    -------
    tuple
        The distinct times, increasing, and the probability of more than each.

    """
    distinct, place = np.unique(times, return_inverse=True)
    seen = np.bincount(place, events, len(distinct))
    leaving = np.bincount(place, minlength=len(distinct))
    at_risk = len(times) - np.concatenate([[0], np.cumsum(leaving)[:-1]])
    if of_censoring:
        at_risk, seen = at_risk - seen, leaving - seen
    return distinct, np.cumprod(1 - seen / np.maximum(at_risk, 1))


def steps_at(steps: tuple[Floats, Floats], times: Floats, *, before: bool = False) -> Floats:
    """Evaluate a step function that starts at 1 at times, or just `before` them."""
    place = np.searchsorted(steps[0], times, side="left" if before else "right")
    return np.asarray(np.concatenate([[1.0], steps[1]])[place])


def concordance(times: Floats, events: Flags, predicted: Floats) -> float | None:
    """Compute Harrell's C: the share of comparable pairs whose predicted times are in the right order.

    A pair is comparable where the shorter time is that of an event; ties of predictions count a half. At
    most 10,000 rows are used, evenly spaced. None where no pair is comparable.
    """
    chosen = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_PAIRED)).astype(np.int64))
    times, events, predicted = times[chosen], events[chosen], predicted[chosen]
    right = pairs = 0.0
    for time, own in zip(times[events], predicted[events], strict=True):
        later = predicted[(times > time) | ((times == time) & ~events)]
        right += np.count_nonzero(later > own) + 0.5 * np.count_nonzero(later == own)
        pairs += len(later)
    return float(right / pairs) if pairs else None


def brier_times(times: Floats, events: Flags) -> Floats | None:
    """Choose the times at which the Brier score is computed; None where there are too few events."""
    if np.count_nonzero(events) < FEWEST_EVENTS:
        return None
    low, high = np.quantile(times[events], BRIER_RANGE)
    return np.linspace(low, high, BRIER_TIMES)


def brier(times: Floats, events: Flags, at: Floats, survival: Floats) -> Floats:
    """Compute the Brier score at each of some times, weighted against censoring (Graf et al. 1999).

    Rows censored before a time are left out there, and the others count by the inverse of the probability
    not to have been censored before then, by Kaplan and Meier's estimate of these rows.

    Parameters
    ----------
    times, events
        Times of rows, and whether they are those of events, [row].
    at
        Times of the scores, [time].
    survival
        Predicted probabilities of more than each of these, float64 [row, time].

    Returns
    -------
    NDArray
        float64 [time].

    """
    remaining = kaplan_meier(times, events, of_censoring=True)
    own = np.maximum(steps_at(remaining, times, before=True), LEAST_SHARE)
    then = np.maximum(steps_at(remaining, at), LEAST_SHARE)
    over = ((times[:, None] <= at) & events[:, None]) / own[:, None]
    alive = (times[:, None] > at) / then
    return np.asarray(np.mean(over * survival**2 + alive * (1 - survival) ** 2, axis=0))


def d_calibration(low: Floats, high: Floats) -> dict[str, Any]:
    """Test whether outcomes fall into each tenth of their predictive distributions equally often.

    A censored row counts in all tenths that it may be in, in proportion (Haider et al. 2020).

    Parameters
    ----------
    low, high
        Predictive probability of values below the lower and the upper limit of each row, equal where the
        outcome was observed, float64 [row].

    Returns
    -------
    dict
        ``shares`` of the rows by tenth, and ``p``, that they differ as much by chance.

    """
    from scipy.special import chdtrc  # noqa: PLC0415  # slow to import

    edges = np.arange(BINS + 1) / BINS
    seen = low == high
    counts = np.bincount(np.minimum((low[seen] * BINS).astype(np.int64), BINS - 1), minlength=BINS).astype(
        float
    )
    wide_low, wide_high = low[~seen, None], high[~seen, None]
    overlap = np.minimum(edges[1:], wide_high) - np.maximum(edges[:-1], wide_low)
    counts += np.sum(np.maximum(overlap, 0.0) / (wide_high - wide_low), axis=0)
    expected = len(low) / BINS
    square = float(np.sum((counts - expected) ** 2) / expected)
    return {"shares": (counts / len(low)).tolist(), "p": float(chdtrc(BINS - 1, square))}
