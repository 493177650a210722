"""Scores of the rows of one fold, by a fit to the others: one unit of a choice of settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats, Longs
from sampler.data.rows import Rows
from sampler.data.splits.split_plan import Split
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.scoring import inside_intervals
from sampler.posterior.charts.fit_progress import Report
from sampler.posterior.laws.likelihood import own_probabilities
from sampler.posterior.posterior import Posterior
from sampler.preparation import prepare_rows
from sampler.running import run

_ByRow: TypeAlias = tuple[Longs, Floats, Floats, NDArray[np.bool_]]

NUM_CHAINS, NUM_DRAWS, THIN = 2, 100, 4  # lengths of a fit to all folds but one
COVERAGE = 0.9  # level of the intervals whose coverage is reported
TINY = 1e-300  # least probability of a class


@dataclass(frozen=True)
class FoldScores:
    """Scores of the rows of one fold under one candidate.

    Attributes
    ----------
    rows
        Positions of the rows, without those of a class that the fit has not seen.
    log_score
        Log density of each outcome, or log probability of its class; of several outcomes that of those that a
        row has, together.
    squares
        Squared error of each posterior mean; empty for classes. Of several outcomes the mean over a row's
        numbers, each in units of its standard deviation.
    inside
        Whether each outcome was inside its 90% predictive interval; empty for classes. Of several outcomes
        whether a row that has all of them was inside its joint region of 90%.
    seconds
        Wall-clock time of the fit.

    """

    rows: list[int]
    log_score: list[float]
    squares: list[float]
    inside: list[bool]
    seconds: float


def of_fold(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Add the seed and the short chains of a fold's fit to settings that don't say otherwise."""
    short = {"num_chains": NUM_CHAINS, "num_draws": NUM_DRAWS, "thin": THIN}
    return short | {"seed": seed} | dict(settings)


def score_fold(
    rows: Rows,
    split: Split,
    seed: int,
    settings: Mapping[str, Any],
    report: Report | None = None,
) -> FoldScores:
    """Fit to the rows of a fold's fit, and score those that it is judged by.

    Parameters
    ----------
    rows
        All rows.
    split
        Positions of both.
    seed
        Seed of the fit.
    settings
        Settings as `fit` takes them; two chains of 100 draws, four iterations apart, unless given.
    report
        Called as `sampler.running.run` does.

    Returns
    -------
    FoldScores
        Scores of the rows of the fold.

    """
    start = time.perf_counter()
    problem = prepare_rows(rows.take(split.train), **of_fold(settings, seed))
    posterior = run(problem, num_threads=1, report=report)
    seconds = time.perf_counter() - start
    score = _of_several if rows.others else _of_one
    scored, *figures = score(posterior, rows, split.test)
    log_score, squares, inside = (each.tolist() for each in figures)
    return FoldScores(scored.tolist(), log_score, squares, inside, seconds)


def _of_one(posterior: Posterior, rows: Rows, test: Longs) -> _ByRow:
    """Score each row, of numbers and counts with its squared error and coverage.

    A row of a class that the fit has not seen has none: no candidate could score it.
    """
    judged = LabelledRows.of(posterior.law, rows.take(test))
    mean = posterior.predict(judged.coded, level=None).mean
    if judged.classes is not None:
        p = mean if mean.ndim == 2 else np.stack([1 - mean, mean], axis=1)
        logs = np.log(np.maximum(own_probabilities(p, judged.y), TINY))
        seen = judged.y < p.shape[1]
        return test[seen], logs[seen], np.zeros(0), np.zeros(0, bool)
    law = posterior.law.outcome_law(judged.coded, judged.weights)
    (inside,) = inside_intervals(law, judged.y, law.below(judged.y), [COVERAGE])
    return test, law.log_density(judged.y), (mean - judged.y) ** 2, inside


def _of_several(posterior: Any, rows: Rows, test: Longs) -> _ByRow:
    """Score the outcomes of each row together."""
    judged = rows.take(test)
    y, log_score = posterior.log_scores(judged.table, judged.outcomes, judged.roles.get("weights"))
    predicted = posterior.predict(judged.table, COVERAGE)
    places = [j for j, classes in enumerate(predicted.classes) if not classes]
    numbers = [list(rows.outcomes.values())[j].numbers for j in places]
    sds = np.array([1.0 if each is None else np.nanstd(each) for each in numbers])
    squares = ((predicted.mean - y)[:, places] / np.where(sds > 0, sds, 1.0)) ** 2
    whole = ~np.isnan(y).any(axis=1) & ("weights" not in rows.roles)  # regions are of weight 1
    return test, log_score, _known_means(squares), predicted.contains(y)[1][whole]


def _known_means(values: Floats) -> Floats:
    """Average each row's known values, without rows that have none."""
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    return np.asarray(np.where(known, values, 0.0).sum(axis=1)[counts > 0] / counts[counts > 0])
