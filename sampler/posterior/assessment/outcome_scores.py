"""Scores, row by row, of outcomes that became known after a model was fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Bools, Floats
from sampler.posterior.assessment.conformal import (
    conformity,
    least_probabilities,
    membership,
    probabilities,
    subgroups_of,
)
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.scoring import TINY
from sampler.posterior.laws.law import Law
from sampler.posterior.predicting import predict
from sampler.storage.calibration_size import rows_needed
from sampler.storage.conformal_table import CalibratedLevel

LEVELS = (0.5, 0.9)  # levels of the intervals that are monitored
BATCH_ROWS = 500
FLOOR, CEILING = -1e4, 1e300  # smallest log score and largest error of a row, so that sums stay finite


@dataclass(frozen=True)
class OutcomeScores:
    """Scores of known outcomes, each an array [row].

    Attributes
    ----------
    pit
        Predictive probability of values up to the outcome, randomised for counts and censored outcomes; of
        classes that of more probable classes, plus a uniform share of that of the row's own. Uniform on
        (0, 1) if the model is right.
    score
        What a conformal table orders (`sampler.posterior.assessment.conformal`): `pit`, or of classes that
        of the row's own (`sampler.posterior.assessment.conformal.membership`).
    log_score
        Log density or log probability of the outcome, at least `FLOOR`.
    error
        Squared error of the mean, in squared units of the outcome, at most `CEILING`, NaN for a censored
        one; of classes the Brier score (of the second of two, of more the sum).
    inside_50, inside_90
        Whether the outcome is in the interval or prediction set that the model answers: the calibrated one
        where it has such, else the predictive one.
    above
        Whether an outcome is above the predicted median, calibrated or not; False for classes.
    steps
        Of forecasts: whether the outcome was forecast at each step ahead, and was inside intervals of each
        of `LEVELS` there, int64 [row, step, 1 + level]; None of others.

    """

    pit: Floats
    score: Floats
    log_score: Floats
    error: Floats
    inside_50: Bools
    inside_90: Bools
    above: Bools
    steps: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.pit)

    def part(self, rows: NDArray[np.int64] | slice) -> OutcomeScores:
        """Select some of the rows."""
        own: list[Any] = [getattr(self, each.name) for each in fields(self)]
        parts: list[Any] = [None if each is None else each[rows] for each in own]
        return OutcomeScores(*parts)


def score_outcomes(
    law: Law,
    rows: LabelledRows,
    shares: Floats,
    before: Callable[[], None] = lambda: None,
) -> OutcomeScores:
    """Score known outcomes of rows that the posterior was not fitted to.

    Parameters
    ----------
    law
        Law of the draws of numbers, counts, censored outcomes or classes.
    rows
        The rows and their outcomes.
    shares
        float64 [row], independent uniform draws, by which counts, classes and censored outcomes are
        randomised.
    before
        Called before each batch of rows.

    Returns
    -------
    OutcomeScores
        The scores, by row.

    """
    count = len(rows.y)
    pit, score, density, error = (np.zeros(count) for _ in range(4))
    best = np.zeros(count, bool)
    for batch, part in rows.batches(BATCH_ROWS):
        before()
        if law.classes is None:
            pit[batch], density[batch], error[batch] = _of_numbers(law, part, shares[batch])
            score[batch] = pit[batch]
            if law.recalibration is not None and law.draws.header.calibration is not None:
                score[batch] = conformity(law, part)
        else:
            own = _of_classes(law, part, shares[batch])
            pit[batch], score[batch], density[batch], error[batch], best[batch] = own
    half, most = (_inside(law, level, rows, pit, score) | best for level in LEVELS)
    of_classes = law.classes is not None
    above = np.zeros(count, bool) if of_classes else score > _middle(law)
    density, error = np.maximum(density, FLOOR), np.minimum(error, CEILING)
    return OutcomeScores(pit, score, density, error, half, most, above)


def _of_numbers(law: Law, rows: LabelledRows, shares: Floats) -> tuple[Floats, ...]:
    outcome_law = law.outcome_law(rows.coded, rows.weights)
    pit = np.clip(outcome_law.below(rows.y, shares), 0.0, 1.0)
    error = (predict(law, rows.coded, level=None).mean - rows.y) ** 2
    if (limits := rows.coded.limits) is not None:
        error = np.where(limits[0] == limits[1], error, np.nan)
    return pit, outcome_law.log_density(rows.y), error


def _of_classes(law: Law, rows: LabelledRows, shares: Floats) -> tuple[Floats, ...]:
    p = probabilities(predict(law, rows.coded, level=None))
    own = rows.y.astype(np.int64)
    # A class that the model doesn't know has no probability and comes last.
    p = np.pad(p, ((0, 0), (0, max(int(own.max(initial=0)) + 1 - p.shape[1], 0))))
    at = np.arange(len(own))
    mine = p[at, own]
    earlier = np.arange(p.shape[1]) < own[:, None]
    before = (p > mine[:, None]) | ((p == mine[:, None]) & earlier)
    pit = np.clip(np.sum(p * before, axis=1) + shares * mine, 0.0, 1.0)
    pit[mine == 0] = 1.0
    squares = (p - (np.arange(p.shape[1]) == own[:, None])) ** 2
    brier = squares[:, 1] if p.shape[1] == 2 else squares.sum(axis=1)
    calibrated = law.draws.header.calibration is not None
    density = np.log(np.clip(mine, TINY, 1 - TINY))
    return pit, membership(law, p)[at, own], density, brier, calibrated & (mine == p.max(axis=1))


def _inside(law: Law, level: float, rows: LabelledRows, pit: Floats, score: Floats) -> Bools:
    """Tell which outcomes are in intervals, or sets, of a level; the most probable class is added later."""
    table = law.draws.header.calibration
    if table is not None and table.rows >= rows_needed(level):
        claim = table.at(level)
        if claim.cells is not None:
            return _inside_by_subgroup(law, claim, rows, score)
        if claim.least_probability is not None:
            return np.asarray(score >= claim.least_probability)
        low, high = claim.ends or (0.0, 1.0)
        return np.asarray((low <= score) & (score <= high))
    if law.classes is not None:
        return np.asarray(pit <= level)
    tail = (1 - level) / 2
    return np.asarray((tail <= pit) & (pit <= 1 - tail))


def _inside_by_subgroup(law: Law, claim: CalibratedLevel, rows: LabelledRows, score: Floats) -> Bools:
    if law.classes is not None:
        least = least_probabilities(law, rows.coded, claim)
        own = np.minimum(rows.y.astype(np.int64), least.shape[1] - 1)
        return np.asarray(score >= least[np.arange(len(least)), own])
    assert claim.cells is not None
    ends = claim.cells.of_rows(subgroups_of(law, rows.coded, claim.cells.subgroups))
    return np.asarray((ends[:, 0] <= score) & (score <= ends[:, 1]))


def _middle(law: Law) -> float:
    """Return the probability whose predictive quantile is the median, calibrated or not."""
    table = law.draws.header.calibration
    return 0.5 if table is None else float(np.median(table.scores))
