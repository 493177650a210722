"""Survival curves of rows: the probability that an outcome exceeds each of some times, with bands."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from app.services.errors import TooLargeError, UnusableDataError
from app.services.explanations.finished_models import TOO_LARGE, finished
from app.services.explanations.work import check_rows
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_of
from sampler.posterior.explanations.survival_curves import check_times
from sampler.posterior.explanations.work import survival_work
from sampler.posterior.results.survival import Band

MAX_CELLS = 300_000  # rows times times


@dataclass(frozen=True)
class SurvivalRequest:
    """A request for survival curves (`POST /models/{id}/survival`)."""

    rows: Any = None
    columns: Any = None
    times: list[float] | None = None  # None: 50 that divide the training outcomes' range evenly
    level: float = 0.9


@dataclass(frozen=True)
class RowFigure:
    """A figure of each row, with its credible interval."""

    value: list[float]
    lower: list[float]
    upper: list[float]

    @classmethod
    def of(cls, band: Band) -> "RowFigure":
        """Convert figures of the sampler."""
        return cls(band.value.tolist(), band.lower.tolist(), band.upper.tolist())


@dataclass(frozen=True)
class Survival:
    """Survival curves [row][time], and their medians and restricted means."""

    model_id: str
    level: float
    times: list[float]
    survival: list[list[float]]
    lower: list[list[float]]
    upper: list[list[float]]
    median: RowFigure
    restricted_mean: RowFigure
    warnings: list[str]


def survival(predictor: Predictor, owner: str, model: str, request: SurvivalRequest) -> Survival:
    """Return survival curves of rows.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `app.services.explanations.finished_models.finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The model has no survival curves, or the request or its rows are invalid; names the field, or the
        column and row.
    """
    rows = columns_of(request.rows, request.columns, predictor.max_rows)
    head, posterior = finished(predictor, owner, model)
    rows = with_levels(posterior, rows)
    count = len(next(iter(rows.values()), ()))
    with understood():
        times = check_times(posterior.law, request.times)
        draws = posterior.num_chains * posterior.num_draws
        work = partial(survival_work, posterior.law, draws, times=len(times))
        check_rows(work, count, "Survival curves")
        if count * len(times) > MAX_CELLS:
            raise TooLargeError(
                f"{len(times)} times of {count} rows are too many for one request: send fewer rows at once, "
                "or ask for fewer times."
            )
        answer = posterior.survival(rows, times.tolist(), request.level)
    figures = (answer.median, answer.restricted_mean)
    if not all(np.isfinite(part).all() for band in figures for part in (band.value, band.lower, band.upper)):
        raise UnusableDataError(TOO_LARGE)
    return Survival(
        head.id,
        answer.level,
        answer.times.tolist(),
        answer.survival.tolist(),
        answer.lower.tolist(),
        answer.upper.tolist(),
        RowFigure.of(answer.median),
        RowFigure.of(answer.restricted_mean),
        answer.warnings,
    )
