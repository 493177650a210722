"""SHAP values of rows: how much each feature moves their predictions."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import TooLargeError, UnusableDataError
from app.services.explanations.finished_models import TOO_LARGE, classes_of, finished
from app.services.explanations.work import FEWEST_DRAWS, affordable, check_rows
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_if_any
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.explanations.work import SHAP_CELLS, num_figures, shap_work
from sampler.posterior.protocol import GameKind
from sampler.posterior.results.shap_values import moving_most

MAX_CELLS = 300_000  # rows times features (times classes) of one answer
REFERENCE_ROWS = 200  # explained where the request has no rows
MAX_DRAWN = SHAP_CELLS  # draws times features of one row, which are in memory at once


@dataclass(frozen=True)
class ShapRequest:
    """A request for SHAP values (`POST /models/{id}/shap`)."""

    level: float = 0.9
    game: GameKind = "interventional"
    draws: int | None = None  # most; None: all, or as many as are affordable
    rows: Any = None  # list of objects; without rows and columns: the reference rows
    columns: Any = None
    num_rows: int = REFERENCE_ROWS  # most reference rows


@dataclass(frozen=True)
class ExplainedRows:
    """SHAP values [row][feature], or [row][feature][class]; their base, a number, or one for each class."""

    model_id: str
    draws: int
    level: float
    game: GameKind
    scale: str
    classes: list[str] | None
    features: list[str]
    base: Any
    base_lower: Any
    base_upper: Any
    f: list[Any]
    values: list[Any]
    lower: list[Any]
    upper: list[Any]
    data: list[list[Any]] | None  # cells of the reference rows explained, [row][feature]
    warnings: list[str]


def explain(predictor: Predictor, owner: str, model: str, request: ShapRequest) -> ExplainedRows:
    """Return the SHAP values of rows, exact on every draw used, with intervals.

    Unless a number is asked for it takes all draws, or as many as are affordable; without rows in the request
    it takes reference rows, as many as are affordable then.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `app.services.explanations.finished_models.finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request or its rows are invalid; names the field, or the column and row.
    """
    sent = columns_if_any(request.rows, request.columns, predictor.max_rows)
    head, posterior = finished(predictor, owner, model)
    sent = with_levels(posterior, sent)
    classes = classes_of(posterior)
    law, columns, reference = posterior.law, len(posterior.schema.columns), posterior.reference
    stored, most = posterior.num_chains * posterior.num_draws, MAX_CELLS // (columns * num_figures(law))
    rows: Any = sent
    count = min(reference.num_rows, request.num_rows, most)
    if sent is not None:
        count = len(next(iter(sent.values()), ()))
    draws = request.draws
    if draws is None:
        draws = affordable(lambda draws: shap_work(law, draws, count), min(stored, MAX_DRAWN // columns))
        draws = max(draws, min(stored, FEWEST_DRAWS))
    work = partial(shap_work, law, min(draws, stored))
    if sent is None:
        rows = reference.part(spaced(reference.num_rows, max(1, affordable(work, count))))
    elif count > most:
        raise TooLargeError(
            f"SHAP values of {count} rows are too many for one answer: send at most {most} rows at once."
        )
    else:
        check_rows(work, count, "SHAP values")
    if min(draws, stored) * columns > MAX_DRAWN:
        raise TooLargeError(
            f"SHAP values of {columns} features by {draws} draws take too much memory: ask for fewer draws, "
            f"at most {MAX_DRAWN // columns}."
        )
    with understood():
        answer = posterior.shap(rows, level=request.level, game=request.game, max_draws=draws)
    if not all(np.isfinite(part).all() for part in (answer.values, answer.lower, answer.upper)):
        raise UnusableDataError(TOO_LARGE)
    return ExplainedRows(
        head.id,
        answer.draws,
        answer.level,
        answer.game,
        answer.scale,
        classes if np.ndim(answer.base_values) else None,
        answer.names,
        np.asarray(answer.base_values).tolist(),
        np.asarray(answer.base_lower).tolist(),
        np.asarray(answer.base_upper).tolist(),
        answer.f.tolist(),
        answer.values.tolist(),
        answer.lower.tolist(),
        answer.upper.tolist(),
        None if sent is not None else [list(row) for row in zip(*answer.data, strict=True)],
        answer.warnings,
    )


@dataclass(frozen=True)
class FeatureReasons:
    """Size of a feature's SHAP values: their mean size, and rows whose interval is on one side of zero."""

    name: str
    position: int
    size: float
    rows_beyond_zero: int


@dataclass(frozen=True)
class ReasonsOfRows:
    """SHAP values of rows, float64 [row, feature], of numbers or of one class; features by their size."""

    scale: str
    label: str | None  # the class
    values: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    features: list[FeatureReasons]
    warnings: list[str]


def reasons_of(explained: ExplainedRows) -> ReasonsOfRows:
    """Rank features by the mean size of their values; of several classes take the one that moves most."""
    values, lower, upper = (
        np.array(part, float) for part in (explained.values, explained.lower, explained.upper)
    )
    label = None
    if values.ndim == 3:
        k = moving_most(values)
        values, lower, upper = values[..., k], lower[..., k], upper[..., k]
        label = (explained.classes or [])[k]
    size = np.abs(values).mean(axis=0)
    beyond = ((lower > 0) | (upper < 0)).sum(axis=0)
    features = [
        FeatureReasons(explained.features[j], int(j), float(size[j]), int(beyond[j]))
        for j in np.argsort(-size, kind="stable")
    ]
    return ReasonsOfRows(explained.scale, label, values, lower, upper, features, explained.warnings)
