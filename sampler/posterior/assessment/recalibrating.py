"""Recalibration of a law by rows that its fit has not seen, and by training rows left out one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampler.array_types import Floats, Longs
from sampler.data.encode import encoded_again
from sampler.data.level_means import LevelOutcomes
from sampler.data.rows import Rows, read_roles
from sampler.data.scalars import counted
from sampler.data.target import finite_numbers
from sampler.families import FAMILIES
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.normal import NormalLaw
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
MOST_HELD, MOST_TRAINING = 2_000, 1_200  # rows looked at
MOST_COLUMNS = 60  # coded ones, by which the scale may differ: those that f's trees split on most


def why_not(law: Law, held_rows: int, *, declared: bool = False, several: bool = False) -> str | None:
    """Say why a law is not recalibrated by so many held-out rows; None where it is.

    `declared` tells whether new rows are to be unlike those of the fit, `several` whether it is of several
    outcomes.
    """
    header = law.draws.header
    for reason, applies in {
        "new rows are of other groups, or later": declared,
        "the model has several outcomes": several,
        "outcomes are classes": law.classes is not None,
        "outcomes are counts": FAMILIES[law.draws.family].target == "counts",
        "the law has a point mass": law.draws.family != "gaussian",
        "the fit is no sum of trees": not isinstance(law, NormalLaw),
        "its noise is a mixture, whose narrow and wide parts no change of scale has together": (
            header.settings.get("noise") == "mixture"
        ),
        "outcomes are censored": bool(header.censoring),
        "the model has a treatment": "treatment" in header.parts,
        "the model has groups": "groups" in header.parts,
        f"there are {held_rows} held-out rows, and it takes {FEWEST}": held_rows < FEWEST,
    }.items():
        if applies:
            return reason
    return None


@dataclass(frozen=True)
class Recalibrating:
    """Outcome of a recalibration: `by`, None where there is none, and in words what was done, or why not."""

    by: Recalibration | None
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return what a document of scores has of it."""
        by = self.by
        facts: dict[str, Any] = {"rows": 0, "training_rows": 0, "scale_by_row": False, "shift": 0.0}
        if by is not None:
            facts = {"rows": by.rows, "training_rows": by.of_training, "scale_by_row": by.trees is not None}
            facts["shift"] = by.shift
        return facts | {"text": self.text}


def recalibrate(
    law: Law,
    held: LabelledRows,
    training: Rows,
    before: Callable[[], None] = lambda: None,
    *,
    declared: bool = False,
    several: bool = False,
) -> Recalibrating:
    """Recalibrate a law by held-out rows, and by rows of its fit as if these were left out; see `why_not`.

    A law that is recalibrated stays so: answers by its first draws don't change when there are more.
    `before` is called before each batch of rows.
    """
    reason, by = why_not(law, len(held.y), declared=declared, several=several), law.recalibration
    if reason is None and by is None:
        known = finite_numbers(training.outcome)
        some = _of_the_fit(law, training, known, spaced(training.num_rows, MOST_TRAINING))
        by = recalibration_of(law, held, some, (float(known.min()), float(known.max())), before)
        reason = "the held-out outcomes are too far from it"
    if by is None:
        made = "Intervals" if law.classes is None or several else "Probabilities"
        return Recalibrating(
            None, f"{made} are as the model makes them, not corrected by held-out rows: {reason}."
        )
    rest = f" and {counted(by.of_training, 'training row')} left out in turn" if by.of_training else ""
    width = " Some rows are given wider ones, others narrower ones." if by.trees is not None else ""
    shift = f" Means are shifted by {by.shift:.3g}." if by.shift else ""
    return Recalibrating(
        by,
        f"Intervals are corrected by the errors of {counted(by.rows, 'held-out row')}{rest}.{width}{shift}",
    )


def _of_the_fit(law: Law, training: Rows, y: Floats, own: Longs) -> LabelledRows:
    """Encode some training rows as the fit had them: means of levels must not know their outcomes."""
    some, header = LabelledRows.of(law, training.take(own)), law.draws.header
    outcomes = LevelOutcomes.of(y, read_roles(training.roles, len(y)))
    encoded_again(some.coded, training.table, header.schema, header.grid, outcomes, own)
    return some


def recalibration_of(
    law: Law,
    held: LabelledRows,
    training: LabelledRows,
    ends: tuple[float, float],
    before: Callable[[], None] = lambda: None,
) -> Recalibration | None:
    """Learn the recalibration of a law by held-out rows and training rows.

    `ends` are the least and the largest training outcome; `before` is called before each batch of rows. None
    where the law is so far from the held-out outcomes that a map of normal scores doesn't mend it.
    """
    law = law.before_recalibration
    assert isinstance(law, NormalLaw)
    (low, high), margin = ends, (ends[1] - ends[0]) / 2
    held = held.part(spaced(len(held.y), MOST_HELD))
    z, features, moments = _scores(law, held, before)
    of_training, of_features, of_moments = _left_out(law, training, before)
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
    rows = [(held, moments), (training, of_moments)][: 2 if used else 1]
    shifted = by.shifted(mean_shift(_rest(law.recalibrated(by), rows)))
    lower = shifted.shift and _crps(law, shifted, *rows[0]) < _crps(law, by, *rows[0])
    return shifted if lower else by


def _columns(law: Law) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Choose the features of the scale: coded columns, then mean and sd."""
    coded = law.schema.coded
    shares = law.rules("mean").sum(axis=0)[[column for column, _ in coded]]
    most = np.sort(np.argsort(-shares, kind="stable")[:MOST_COLUMNS])
    return np.concatenate([most, [len(coded), len(coded) + 1]])


def _scores(law: NormalLaw, rows: LabelledRows, before: Callable[[], None]) -> tuple[Floats, Floats, Floats]:
    """Compute normal scores of outcomes [row], features [feature, row] and moments [mean or sd, row]."""
    scores, features, moments = [], [], []
    for _, part in rows.batches(BATCH_ROWS):
        before()
        scores.append(scores_of(law.outcome_law(part.coded, part.weights).below(part.y)))
        moments.append(law.moments(part.coded))
        features.append(features_of(part.coded.codes, *moments[-1]))
    return np.concatenate(scores), np.concatenate(features, axis=1), np.concatenate(moments, axis=1)


def _left_out(
    law: NormalLaw, rows: LabelledRows, before: Callable[[], None]
) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Compute the scores [row] of rows left out of their fit with Pareto's k [row]; features and moments."""
    scores, shape, features, moments = [], [], [], []
    for _, part in rows.batches(BATCH_ROWS):
        before()
        given = law.given_draws(part.coded, part.weights)
        flat = (-1, len(part.y))
        below, k = left_out(
            given.log_density_by_draw(part.y).reshape(flat), given.below_by_draw(part.y).reshape(flat)
        )
        scores.append(scores_of(below))
        shape.append(k)
        moments.append(law.moments(part.coded))
        features.append(features_of(part.coded.codes, *moments[-1]))
    found = np.concatenate(scores), np.concatenate(shape)
    return found, np.concatenate(features, axis=1), np.concatenate(moments, axis=1)


def _crps(law: NormalLaw, by: Recalibration, rows: LabelledRows, moments: Floats) -> float:
    """Score outcomes: a few far ones may move the mean of a skewed law, all of which a shift would spoil."""
    own = law.recalibrated(by)
    scores = [
        own.outcome_law_of(part.coded, part.weights, moments=(moments[0, at], moments[1, at])).crps(part.y)
        for at, part in rows.batches(BATCH_ROWS)
    ]
    return float(np.concatenate(scores).mean())


def _rest(law: NormalLaw, rows: Sequence[tuple[LabelledRows, Floats]]) -> Floats:
    """Return outcomes of rows with such moments less their means, float64 [row]."""
    return np.concatenate(
        [
            part.y - law.recalibrated_mean(part.coded, (moments[0, at], moments[1, at]))
            for each, moments in rows
            for at, part in each.batches(BATCH_ROWS)
        ]
    )
