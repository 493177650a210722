"""Calibration: predictions of new rows beside their outcomes, and coverage of intervals by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.families import FAMILIES
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.scoring import binomial_interval, places_in_order
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import predict
from sampler.posterior.results.prediction import Prediction

MAX_ROWS = 2_000  # used for calibration
MAX_SHOWN = 500  # reported one by one
LEVEL = 0.9  # level of the intervals reported row by row
LEVELS = (*(round(0.05 * i, 2) for i in range(1, 20)), 0.99)
BINS = 10  # bins of predicted probabilities
BATCH_ROWS = 500


def row_by_row(
    law: Law,
    rows: LabelledRows,
    numbers: NDArray[np.int64],
    before: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Compare predictions of rows with their outcomes, row by row and by level of the intervals.

    Parameters
    ----------
    law
        Law of the draws fitted without these rows.
    rows
        The rows and their outcomes.
    numbers
        The rows' numbers in their table, 0-based.
    before
        Called before each batch of rows.

    Returns
    -------
    dict
        ``rows``, up to 500, evenly spaced: lists ``row`` (from 1), ``actual, mean, lower, upper``; ``level``
        and ``interval``, those of the bounds; ``classes``, the classes (last those that no training row has),
        of which ``actual`` is the index. Figures are the probability of the second of two classes; of more,
        of the row's own class, with ``predicted`` the index of the most probable one. Intervals of numbers
        are those of an outcome of the row's own weight, where rows have weights. ``calibration``, of up to
        2,000 rows: for numbers, by ``level``, the share of outcomes inside predictive intervals
        (``observed``); for two classes, by bin of the predicted probability, its mean (``level``) and the
        share of the second class; for more, by bin of the largest probability, the share of rows that are of
        that class; for more than two ordered ones, for each class but the last (``up_to``) by bin of the
        probability of it or a lower one, the share of rows that are; each with its 95% binomial interval
        (``lower``, ``upper``) and the number of ``rows`` used.

    """
    chosen = _spaced(len(numbers), MAX_ROWS)
    examined = rows.part(chosen)
    y, classes = examined.y, rows.classes
    several = len(classes or ()) > 2
    in_order = several and FAMILIES[law.draws.family].has_order
    p = np.zeros((len(y), len(classes or ()) if in_order else 0))
    predicted, most = np.zeros(len(y), np.int64), np.zeros(len(y))
    summaries = {name: np.zeros(len(y)) for name in ("mean", "lower", "upper")}
    inside = np.zeros(len(LEVELS), np.int64)
    for batch, part in examined.batches(BATCH_ROWS):
        before()
        answer = predict(law, part.coded, LEVEL, "credible" if classes else "predictive")
        if several:
            figures = _of_each_class(answer)
            predicted[batch], most[batch] = figures["mean"].argmax(axis=1), figures["mean"].max(axis=1)
            if in_order:
                p[batch, : figures["mean"].shape[1]] = figures["mean"]
            own = part.y.astype(np.int64)
            known = np.flatnonzero(own < figures["mean"].shape[1])  # any other class has no probability
            for name, values in summaries.items():
                values[batch.start + known] = figures[name][known, own[known]]
            continue
        summaries["mean"][batch], summaries["lower"][batch], summaries["upper"][batch] = (
            answer.mean,
            answer.lower,
            answer.upper,
        )
        if classes:
            continue
        outcome_law = law.outcome_law(part.coded, part.weights)
        # Randomised where values have a probability: a right law is then on the diagonal.
        central = np.abs(2 * outcome_law.below(part.y) - 1)
        inside += [np.count_nonzero(central <= level) for level in LEVELS]
        if part.weights is not None:
            summaries["lower"][batch], summaries["upper"][batch] = outcome_law.interval(LEVEL)
    shown = _spaced(len(y), MAX_SHOWN)
    return {
        "interval": "credible" if classes else "predictive",
        "level": LEVEL,
        "classes": list(classes) if classes else None,
        "rows": {
            "row": (numbers[chosen[shown]] + 1).tolist(),
            "actual": y[shown].tolist(),
            **{name: values[shown].tolist() for name, values in summaries.items()},
            **({"predicted": predicted[shown].tolist()} if several else {}),
        },
        "calibration": _by_threshold(y, p, places_in_order(law, rows), classes or ())
        if in_order
        else _by_bins(y == predicted, most)
        if several
        else _by_bins(y, summaries["mean"])
        if classes
        else [_share(level, int(count), len(y)) for level, count in zip(LEVELS, inside, strict=True)],
    }


def _of_each_class(answer: Prediction) -> dict[str, Floats]:
    """Arrange figures as [row, class], also for two classes."""
    if answer.mean.ndim == 2:
        return {"mean": answer.mean, "lower": answer.lower, "upper": answer.upper}
    ends = {"mean": (answer.mean, answer.mean), "lower": (answer.upper, answer.lower)}
    ends["upper"] = (answer.lower, answer.upper)
    return {name: np.stack([1 - first, second], axis=1) for name, (first, second) in ends.items()}


def _by_threshold(y: Floats, p: Floats, order: list[int], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Compare probabilities of each class or a lower one with the rows that are, by bins."""
    place = np.argsort(order)[y.astype(np.int64)]
    below = np.clip(np.cumsum(p[:, order], axis=1), 0, 1)
    return [
        entry | {"up_to": classes[own]}
        for k, own in enumerate(order[:-1])
        for entry in _by_bins(place <= k, below[:, k])
    ]


def _by_bins(y: NDArray[Any], p: Floats) -> list[dict[str, Any]]:
    at = np.minimum((p * BINS).astype(int), BINS - 1)
    return [
        _share(float(p[at == i].mean()), int(y[at == i].sum()), int(np.count_nonzero(at == i)))
        for i in range(BINS)
        if np.any(at == i)
    ]


def _share(level: float, count: int, rows: int) -> dict[str, Any]:
    lower, upper = binomial_interval(count, rows)
    return {"level": level, "observed": count / rows, "lower": lower, "upper": upper, "rows": rows}


def _spaced(count: int, most: int) -> NDArray[np.int64]:
    """Choose at most `most` of `count` positions, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))
