"""Recalibration of a law by rows that its fit has not seen, and by training rows left out one at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sampler.array_types import Floats
from sampler.families import FAMILIES
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.normal import NormalLaw
from sampler.posterior.predicting import predict
from sampler.posterior.recalibration.learning import (
    FEWEST,
    agree,
    learn_map,
    learn_scale,
    left_out,
    mean_shift,
    scores_of,
)
from sampler.posterior.recalibration.recalibration import Recalibration, features_of

BATCH_ROWS = 200
MOST_HELD, MOST_TRAINING = 4_000, 1_200  # rows looked at
MOST_COLUMNS = 60  # coded ones, by which the scale may differ: those that f's trees split on most


def why_not(law: Law, held_rows: int) -> str | None:
    """Say why a law is not recalibrated by so many held-out rows; None where it is."""
    header = law.draws.header
    for reason, applies in {
        "outcomes are not numbers": FAMILIES[law.draws.family].target != "numbers" or law.classes is not None,
        "the law has a point mass": law.draws.family != "gaussian",
        "the fit is no sum of trees": not isinstance(law, NormalLaw),
        "outcomes are censored": bool(header.censoring),
        "the model has a treatment": header.effects is not None,
        "the model has groups": header.groupings is not None,
        "the model has several outcomes": bool(header.others),
        f"there are {held_rows} held-out rows, and it takes {FEWEST}": held_rows < FEWEST,
    }.items():
        if applies:
            return reason
    return None


def recalibration_of(
    law: Law, held: LabelledRows, training: LabelledRows, before: Callable[[], None] = lambda: None
) -> Recalibration | None:
    """Learn the recalibration of a law by held-out rows and training rows; see `why_not`.

    `before` is called before each batch of rows. None where the law is so far from the held-out outcomes that
    a map of normal scores doesn't mend it.
    """
    law = law.before_recalibration
    assert isinstance(law, NormalLaw)
    low, high = training.y.min(), training.y.max()
    margin = (high - low) / 2
    held = held.part(spaced(len(held.y), MOST_HELD))
    training = training.part(spaced(len(training.y), MOST_TRAINING))
    z, features = _scores(law, held, before)
    of_training, of_features = _left_out(law, training, before)
    used = 0
    if agree(z, *of_training):
        used = len(training.y)
        z, features = np.concatenate([z, of_training[0]]), np.concatenate([features, of_features], axis=1)
    before()
    trees, factor, middle, scale = learn_scale(z, features, _columns(law))
    knots = learn_map(z / scale)
    if knots is None:
        return None
    by = Recalibration(
        *knots,
        low=float(low - margin),
        high=float(high + margin),
        rows=len(held.y),
        of_training=used,
        draws=law.draws.num_draws,
        trees=trees,
        factor=factor,
        middle=middle,
    )
    before()
    return by.shifted(mean_shift(_rest(law.recalibrated(by), held, training if used else None)))


def _columns(law: Law) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Choose the features of the scale: coded columns, then mean and sd."""
    coded = law.schema.coded
    shares = law.rules("mean").sum(axis=0)[[column for column, _ in coded]]
    most = np.sort(np.argsort(-shares, kind="stable")[:MOST_COLUMNS])
    return np.concatenate([most, [len(coded), len(coded) + 1]])


def _scores(law: NormalLaw, rows: LabelledRows, before: Callable[[], None]) -> tuple[Floats, Floats]:
    """Compute normal scores of outcomes [row] and features [feature, row]."""
    scores, features = [], []
    for _, part in rows.batches(BATCH_ROWS):
        before()
        scores.append(scores_of(law.outcome_law(part.coded, part.weights).below(part.y)))
        features.append(features_of(part.coded.codes, *law.moments(part.coded)))
    return np.concatenate(scores), np.concatenate(features, axis=1)


def _left_out(
    law: NormalLaw, rows: LabelledRows, before: Callable[[], None]
) -> tuple[tuple[Floats, Floats], Floats]:
    """Compute the scores [row] of rows left out of their fit with Pareto's k [row], and features."""
    scores, shape, features = [], [], []
    for _, part in rows.batches(BATCH_ROWS):
        before()
        given = law.given_draws(part.coded, part.weights)
        flat = (-1, len(part.y))
        below, k = left_out(
            given.log_density_by_draw(part.y).reshape(flat), given.below_by_draw(part.y).reshape(flat)
        )
        scores.append(scores_of(below))
        shape.append(k)
        features.append(features_of(part.coded.codes, *law.moments(part.coded)))
    return (np.concatenate(scores), np.concatenate(shape)), np.concatenate(features, axis=1)


def _rest(law: Law, held: LabelledRows, training: LabelledRows | None) -> Floats:
    """Return outcomes less their means, float64 [row]."""
    rows = [held] if training is None else [held, training]
    return np.concatenate([each.y - predict(law, each.coded, level=None).mean for each in rows])
