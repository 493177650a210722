"""Accumulated local effects of a feature: how predictions change with it among rows like the data's."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from app.services.errors import UnusableDataError
from app.services.explanations.finished_models import TOO_LARGE, classes_of, finished
from app.services.explanations.partial_dependence import CurveBounds
from app.services.explanations.work import check_rows
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_if_any
from sampler.posterior.explanations.work import accumulation_work


@dataclass(frozen=True)
class AccumulationRequest:
    """A request for accumulated effects (`POST /models/{id}/accumulated-effects`)."""

    feature: str
    levels: Sequence[float] = (0.9,)
    draws: int | None = None
    rows: Any = None  # list of objects; without rows and columns: the reference rows
    columns: Any = None


@dataclass(frozen=True)
class Accumulation:
    """Effects [value], of several classes [value][class]; `rows` between each value and the next."""

    model_id: str
    draws: int
    classes: list[str] | None
    feature: str
    grid: list[Any]
    rows: list[int]
    mean: list[Any]
    intervals: list[CurveBounds]


def accumulate(predictor: Predictor, owner: str, model: str, request: AccumulationRequest) -> Accumulation:
    """Return accumulated effects with intervals.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `app.services.explanations.finished_models.finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request or its rows are invalid; names the field, or the column and row.
    """
    rows = columns_if_any(request.rows, request.columns, predictor.max_rows)
    head, posterior = finished(predictor, owner, model)
    rows = with_levels(posterior, rows)
    draws = min(request.draws or posterior.num_draws, posterior.num_draws)
    count = posterior.reference.num_rows if rows is None else len(next(iter(rows.values()), ()))
    work = partial(accumulation_work, posterior.law, draws * posterior.num_chains)
    check_rows(work, count, "Accumulated effects")
    with understood():
        effects = posterior.accumulated_effects(
            request.feature, rows, list(request.levels), num_draws=request.draws
        )
    ends = [(each.level, each.lower, each.upper) for each in effects.intervals]
    if not all(np.isfinite(part).all() for part in (effects.mean, *(p for _, *both in ends for p in both))):
        raise UnusableDataError(TOO_LARGE)
    return Accumulation(
        head.id,
        draws,
        classes_of(posterior),
        effects.feature,
        effects.grid,
        effects.rows.tolist(),
        effects.mean.tolist(),
        [CurveBounds(level, lower.tolist(), upper.tolist()) for level, lower, upper in ends],
    )
