"""Contrasts: how predictions differ between two settings of features, by row and on average."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from app.services.errors import UnusableDataError
from app.services.explanations.finished_models import TOO_LARGE, classes_of, finished
from app.services.explanations.work import check_rows
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_if_any
from sampler.posterior.explanations.work import contrast_work
from sampler.posterior.results.contrasts import ContrastEstimate


@dataclass(frozen=True)
class ContrastRequest:
    """A request for a contrast (`POST /models/{id}/contrast`)."""

    first: Mapping[str, Any]
    second: Mapping[str, Any]
    by: str | None = None
    level: float = 0.9
    draws: int | None = None
    rows: Any = None  # list of objects; without rows and columns: the reference rows
    columns: Any = None


@dataclass(frozen=True)
class AverageContrast:
    """An average over rows: numbers, or one for each of more than two classes."""

    mean: Any
    lower: Any
    upper: Any
    rows: int


@dataclass(frozen=True)
class ContrastOfRows:
    """Differences by row, [row] or [row][class], and their averages."""

    model_id: str
    draws: int
    level: float
    difference: str
    classes: list[str] | None
    average: AverageContrast
    population: AverageContrast
    treated: AverageContrast | None
    groups: dict[str, AverageContrast]
    mean: list[Any]
    lower: list[Any]
    upper: list[Any]
    unlike_first: list[bool]
    unlike_second: list[bool]
    warnings: list[str]


def contrast(predictor: Predictor, owner: str, model: str, request: ContrastRequest) -> ContrastOfRows:
    """Return how predictions differ between two settings of features.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `app.services.explanations.finished_models.finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request or its data are invalid; names the field, or the column and row.
    """
    rows = columns_if_any(request.rows, request.columns, predictor.max_rows)
    head, posterior = finished(predictor, owner, model)
    rows = with_levels(posterior, rows)
    draws = min(request.draws or posterior.num_draws, posterior.num_draws)
    count = posterior.reference.num_rows if rows is None else len(next(iter(rows.values())))
    work = partial(contrast_work, posterior.law, draws * posterior.num_chains)
    check_rows(work, count, "Contrasts")
    with understood():
        answer = posterior.contrast(
            rows,
            request.first,
            request.second,
            by=request.by,
            level=request.level,
            num_draws=request.draws,
        )
    if not all(np.isfinite(part).all() for part in (answer.mean, answer.lower, answer.upper)):
        raise UnusableDataError(TOO_LARGE)
    classes = classes_of(posterior)
    return ContrastOfRows(
        head.id,
        draws,
        answer.level,
        answer.difference,
        classes,
        _average(answer.average),
        _average(answer.population),
        None if answer.treated is None else _average(answer.treated),
        {name: _average(estimate) for name, estimate in answer.groups.items() if estimate.rows},
        answer.mean.tolist(),
        answer.lower.tolist(),
        answer.upper.tolist(),
        answer.unlike[0].tolist(),
        answer.unlike[1].tolist(),
        answer.warnings,
    )


def _average(estimate: ContrastEstimate) -> AverageContrast:
    mean, lower, upper = (np.asarray(part).tolist() for part in estimate[:3])
    return AverageContrast(mean, lower, upper, estimate.rows)
