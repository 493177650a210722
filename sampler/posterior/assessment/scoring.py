"""Scores of a posterior on rows with known outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from sampler.array_types import Floats
from sampler.data.columns import is_number, sort_levels
from sampler.families import FAMILIES
from sampler.posterior.assessment.censored_scores import brier, brier_times, concordance, d_calibration
from sampler.posterior.assessment.class_scores import class_scores, ranked_probability_score
from sampler.posterior.assessment.interval_verdict import LEVELS, independent_rows, interval_verdict
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.normal import predictive_of
from sampler.posterior.predicting import predict
from sampler.posterior.protocol import OutcomeLaw

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # levels of the pinball losses
BATCH_ROWS = 2_000  # predicted at once: 16 MB for 1,000 draws
TINY = 1e-12  # smallest probability used in the log loss


def score(
    law: Law,
    rows: LabelledRows,
    before: Callable[[], None] = lambda: None,
    *,
    quick: bool = False,
) -> dict[str, Any]:
    """Score a posterior on rows that it was not fitted to.

    Parameters
    ----------
    law
        Law of the draws of numbers or of classes.
    rows
        The rows and their outcomes.
    before
        Called before each batch of rows.
    quick
        Leave out `crps` and `pinball`, which take most of the time.

    Returns
    -------
    dict
        ``rows``, their number. For numbers: ``rmse`` of the posterior mean, in units of the outcome;
        ``log_score``, the mean log density of the outcomes under the posterior predictive mixture; ``crps``,
        the mean continuous ranked probability score (Gneiting and Raftery 2007), and ``pinball``, the mean
        losses of the mixture's quantiles, both in units of the outcome; ``coverage`` of predictive intervals,
        each with its 95% binomial interval (Clopper and Pearson 1934); ``intervals_verdict``, whether they
        hold everywhere (`interval_verdict`). Where rows have groups that count once (`LabelledRows.unit`),
        these ranges are by groups, and there are ``units``, their number, and ``rmse_se``, the standard error
        of the RMSE by leaving out one at a time. The mixture is that of each row's own weight. For counts
        also ``deviance``, the mean Poisson deviance of the posterior means, and ``zeros``, the shares of
        zeros ``observed`` and ``predicted``. Where values have a probability, as of counts and at the point
        of a hurdle, intervals that end there hold more than their level. Of censored outcomes
        ``rows``, ``censored`` (how many of them are), ``log_score`` (of a censored row the log probability of
        its limits), ``concordance`` (Harrell's C) and ``integrated_brier`` with ``brier_by_time``, None
        where a row is censored otherwise than from the right, ``d_calibration``, ``coverage`` and
        ``intervals_verdict``, where a censored row's outcome is drawn between its limits. For classes:
        ``log_loss`` and ``brier`` of the mean probabilities, and what `class_scores` has of them; ``brier``
        is of the second of two classes alone, of more the sum over the classes; of ordered classes also
        ``rps``, the ranked probability score. A class that the model never saw has probability 0.

    """
    if rows.classes is not None:
        return _score_classes(law, rows, before)
    if rows.coded.limits is not None:
        return _score_censored(law, rows, rows.coded.limits, before)
    return _score_numbers(law, rows, before, quick=quick)


def _score_classes(law: Law, rows: LabelledRows, before: Callable[[], None]) -> dict[str, Any]:
    y = one_hot(rows)
    p = np.zeros(y.shape)
    known = len(law.classes or ())
    for batch, part in rows.batches(BATCH_ROWS):
        before()
        mean = predict(law, part.coded).mean
        p[batch, :known] = mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)
    squares = (p - y) ** 2
    return {
        "rows": len(y),
        "log_loss": log_loss(y, p),
        "brier": float(np.mean(squares[:, 1] if y.shape[1] == 2 else squares.sum(axis=1))),
        **({"rps": score_in_order(law, rows, p)} if FAMILIES[law.draws.family].has_order else {}),
        **class_scores(y, p),
    }


def score_in_order(law: Law, rows: LabelledRows, p: Floats) -> float:
    """Compute the ranked probability score of probabilities [row, class] of ordered classes."""
    order = places_in_order(law, rows)
    return ranked_probability_score(one_hot(rows)[:, order], p[:, order])


def places_in_order(law: Law, rows: LabelledRows) -> list[int]:
    """List the rows' classes in their order.

    Classes that the model doesn't have are last, but numbers have their place where those of the model are in
    the order of their values.
    """
    classes, own = rows.classes or (), law.classes or ()
    by_value = all(map(is_number, classes)) and own == sort_levels(own)
    return [classes.index(name) for name in (sort_levels(classes) if by_value else classes)]


def one_hot(rows: LabelledRows) -> NDArray[np.bool_]:
    """Mark each row's class, bool [row, class]."""
    return np.asarray(rows.y[:, None] == np.arange(len(rows.classes or ())))


def log_likelihood(law: Law, rows: LabelledRows, chosen: NDArray[np.int64]) -> Floats:
    """Compute the log density, or log probability, of rows' outcomes in chosen draws, float64 [draw, row]."""
    logs = np.empty((len(chosen), len(rows.y)))
    for batch, part in rows.batches(BATCH_ROWS):
        logs[:, batch] = law.log_densities(part.coded, part.y, part.weights, chosen)
    return logs


def log_loss(y: NDArray[np.bool_], p: Floats) -> float:
    """Compute the mean negative log of the probabilities [row, class] of the classes marked in `y`."""
    return float(-np.mean(np.log(np.clip(p[y], TINY, 1 - TINY))))


def _score_numbers(
    law: Law, rows: LabelledRows, before: Callable[[], None], *, quick: bool
) -> dict[str, Any]:
    count = len(rows.y)
    mean, below, density, crps, zero = (np.zeros(count) for _ in range(5))
    inside, expected = np.zeros((len(LEVELS), count), bool), np.tile(np.array(LEVELS)[:, None], count)
    counted = FAMILIES[law.draws.family].target == "counts"
    losses = np.zeros((len(QUANTILES), count))
    for batch, part in rows.batches(BATCH_ROWS):
        before()
        outcome_law = law.outcome_law(part.coded, part.weights)
        mean[batch] = predict(law, part.coded, level=None).mean
        density[batch] = outcome_law.log_density(part.y)
        below[batch] = outcome_law.below(part.y)
        inside[:, batch] = inside_intervals(outcome_law, part.y, below[batch], LEVELS)
        if outcome_law.has_masses:
            expected[:, batch] = [outcome_law.held(each) for each in LEVELS]
        if counted:
            zero[batch] = np.exp(outcome_law.log_density(np.zeros(len(part.y))))
        if not quick:
            crps[batch] = outcome_law.crps(part.y)
            losses[:, batch] = [pinball_loss(part.y, outcome_law.quantile(q), q) for q in QUANTILES]
    slow = {
        "crps": float(crps.mean()),
        "pinball": [{"q": q, "loss": float(loss.mean())} for q, loss in zip(QUANTILES, losses, strict=True)],
    }
    return {
        "rows": count,
        "rmse": float(np.sqrt(np.mean((mean - rows.y) ** 2))),
        **_of_units(rows.y, mean, rows.unit),
        "log_score": float(density.mean()),
        **(_of_counts(rows.y, mean, zero) if counted else {}),
        **({} if quick else slow),
        "coverage": _coverages(inside, rows.unit, expected),
        "intervals_verdict": interval_verdict(law, rows, mean, inside, expected),
    }


def _score_censored(
    law: Law, rows: LabelledRows, limits: Floats, before: Callable[[], None]
) -> dict[str, Any]:
    """Score rows some of which are censored; C and Brier scores only where all are so from the right."""
    count = len(rows.y)
    mean, below, density, low, high, expected = (np.zeros(count) for _ in range(6))
    times, events = rows.y, limits[0] == limits[1]
    from_right = bool(np.all(events | np.isinf(limits[1])))
    at = brier_times(times, events) if from_right else None
    survival = np.zeros((count, 0 if at is None else len(at)))
    inside, levels = np.zeros((len(LEVELS), count), bool), np.tile(np.array(LEVELS)[:, None], count)
    for batch, part in rows.batches(BATCH_ROWS):
        before()
        outcome_law = predictive_of(law, part.coded, part.weights)
        mean[batch] = predict(law, part.coded, level=None).mean
        expected[batch] = outcome_law.f.mean(axis=(0, 1))
        density[batch] = outcome_law.log_density(part.y)
        below[batch] = outcome_law.below(part.y)
        inside[:, batch] = inside_intervals(outcome_law, part.y, below[batch], LEVELS)
        low[batch], high[batch] = outcome_law.below_limits()
        if at is not None:
            survival[batch] = outcome_law.above(at)
    by_time = None if at is None else brier(times, events, at, survival)
    return {
        "rows": count,
        "censored": int(count - events.sum()),
        "log_score": float(density.mean()),
        "concordance": concordance(times, events, expected) if from_right else None,
        "integrated_brier": None if by_time is None else float(by_time.mean()),
        "brier_by_time": []
        if at is None or by_time is None
        else [{"time": t, "score": each} for t, each in zip(at.tolist(), by_time.tolist(), strict=True)],
        "d_calibration": d_calibration(low, high),
        "coverage": _coverages(inside, rows.unit, levels),
        "intervals_verdict": interval_verdict(law, rows, mean, inside, levels),
    }


def _of_counts(y: Floats, mean: Floats, zero: Floats) -> dict[str, Any]:
    """Compute the mean Poisson deviance of the means, and the shares of zeros observed and predicted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(y > 0, y * np.log(y / mean), 0.0) - (y - mean)
    return {
        "deviance": float(2 * each.mean()),
        "zeros": {"observed": float(np.mean(y == 0)), "predicted": float(zero.mean())},
    }


def pinball_loss(y: Floats, quantile: Floats, q: float) -> Floats:
    """Compute the loss of predicted q-quantiles, in units of y; its mean is least for the true quantile."""
    return np.asarray((y - quantile) * (q - (y < quantile)))


def _of_units(y: Floats, mean: Floats, unit: NDArray[np.int64] | None) -> dict[str, Any]:
    """Compute the number of groups, and the standard error of the RMSE by leaving out one at a time."""
    if unit is None:
        return {}
    of_row = np.unique(unit, return_inverse=True)[1]
    squares, sizes = np.bincount(of_row, (mean - y) ** 2), np.bincount(of_row)
    units = len(sizes)
    if units < 2:
        return {"units": units, "rmse_se": None}
    without = np.sqrt((squares.sum() - squares) / (sizes.sum() - sizes))
    return {"units": units, "rmse_se": float(np.sqrt((units - 1) * np.var(without)))}


def _coverages(
    inside: NDArray[np.bool_], unit: NDArray[np.int64] | None, expected: Floats
) -> list[dict[str, Any]]:
    """Compute the coverage at each of `LEVELS` from marks of the rows inside, bool [level, row].

    `expected` [level, row] is the probability of that by the law.
    """
    count = inside.shape[1]
    shares = [independent_rows(own.astype(np.float64), unit) / count for own in inside]
    counts = np.count_nonzero(inside, axis=1).tolist()
    each = zip(LEVELS, counts, shares, expected.mean(axis=1).tolist(), strict=True)
    return [
        coverage(level, number, count, share) | {"expected": round(right, 9)}
        for level, number, share, right in each
    ]


def coverage(level: float, inside: int, rows: int, share: float = 1.0) -> dict[str, Any]:
    """Compute the share of outcomes inside intervals of that level, with its own 95% interval.

    The rows count as that `share` of independent ones, and the level is what is expected of them.
    """
    lower, upper = binomial_interval(inside * share, rows * share)
    return {
        "level": level,
        "interval": "predictive",
        "coverage": inside / rows,
        "expected": level,
        "lower": lower,
        "upper": upper,
    }


def inside_intervals(law: OutcomeLaw, y: Floats, below: Floats, levels: Sequence[float]) -> NDArray[np.bool_]:
    """Mark outcomes inside their equal-tailed intervals of some levels, bool [level, row].

    `below` are the probabilities of at most y. A value that has a probability is inside with all of it: the
    ends are the first values by which the law has passed their probabilities.
    """
    less, at_most = below, below
    if law.has_masses:
        less, at_most = (law.below(y, np.full(len(y), share)) for share in (0.0, 1.0))
    tail = (1 - np.array(levels)[:, None]) / 2
    return np.asarray((tail <= at_most) & (less < 1 - tail))


def binomial_interval(count: float, rows: float) -> tuple[float, float]:
    """Compute the 95% interval of a share (Clopper and Pearson 1934)."""
    other = rows - count
    lower = betaincinv(count, other + 1, 0.025) if count else 0.0
    upper = betaincinv(count + 1, other, 0.975) if other else 1.0
    return float(lower), float(upper)
