"""Scores of single rows, by which models are compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sampler.array_types import Floats
from sampler.posterior.assessment.conformal import probabilities
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.scoring import BATCH_ROWS, TINY, one_hot
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.likelihood import own_probabilities
from sampler.posterior.predicting import predict
from sampler.posterior.refusals import check


def row_scores(law: Law, rows: LabelledRows, before: Callable[[], None] = lambda: None) -> dict[str, Floats]:
    """Score rows that the posterior was not fitted to one by one.

    Parameters
    ----------
    law
        Law of the draws.
    rows
        The rows and their outcomes.
    before
        Called before each batch of rows.

    Returns
    -------
    dict
        float64 [row] by score: ``log_score``, the log density or probability of the outcome; of numbers and
        counts ``squared_error`` of the mean; of classes ``brier``, the squared distance of the probabilities
        from the row's class, half of it for two classes.

    Raises
    ------
    SettingsError
        For a model of censored outcomes.

    """
    check("squared error", law)
    name = "brier" if rows.classes else "squared_error"
    scores = {"log_score": np.zeros(len(rows.y)), name: np.zeros(len(rows.y))}
    for batch, part in rows.batches(BATCH_ROWS):
        before()
        prediction = predict(law, part.coded, level=None)
        if rows.classes is None:
            scores["log_score"][batch] = law.outcome_law(part.coded, part.weights).log_density(part.y)
            scores[name][batch] = (prediction.mean - part.y) ** 2
            continue
        p = probabilities(prediction)
        known = np.zeros((len(p), len(rows.classes)))
        known[:, : p.shape[1]] = p
        scores["log_score"][batch] = np.log(np.maximum(own_probabilities(p, part.y), TINY))
        apart = np.sum((known - one_hot(part)) ** 2, axis=1)
        scores[name][batch] = apart / 2 if len(rows.classes) == 2 else apart
    return scores
