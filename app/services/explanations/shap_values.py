"""SHAP values of rows: how much each feature moves their predictions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.services.errors import TooLargeError, UnusableDataError
from app.services.explanations.finished_models import TOO_LARGE, classes_of, finished
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.rows import columns_of
from sampler.posterior.explanations.shap_values import GameKind

MAX_WORK = 5e8  # leaves of all draws times rows: about a second of a core
MAX_CELLS = 300_000  # rows times features (times classes) of one answer
MAX_DRAWN = 20_000_000  # draws times features (times classes) of one row, which are in memory at once


@dataclass(frozen=True)
class ShapRequest:
    """A request for SHAP values (`POST /models/{id}/shap`)."""

    level: float = 0.9
    game: GameKind = "interventional"
    draws: int = 200
    rows: Any = None  # list of objects, or
    columns: Any = None  # lists of values by name


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
    warnings: list[str]


def explain(predictor: Predictor, owner: str, model: str, request: ShapRequest) -> ExplainedRows:
    """Return the SHAP values of rows, exact on every draw used, with intervals.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `app.services.explanations.finished_models.finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request or its rows are invalid; names the field, or the column and row.
    """
    rows = columns_of(request.rows, request.columns, predictor.max_rows)
    count = len(next(iter(rows.values()), ()))
    found, posterior = finished(predictor, owner, model)
    classes = classes_of(posterior)
    draws = min(request.draws, posterior.num_chains * posterior.num_draws)
    leaves = draws * float(posterior.leaf_counts.sum(axis=2).mean())
    most = int(MAX_WORK / leaves)
    each = len(posterior.schema.columns) * (len(classes) if classes and len(classes) > 2 else 1)
    if count > max(most, 1) or count * each > MAX_CELLS or draws * each > MAX_DRAWN:
        raise TooLargeError(
            f"SHAP values of {count} rows are too much work for one request: send fewer rows at once, or ask "
            "for fewer draws."
        )
    with understood():
        answer = posterior.shap(rows, level=request.level, game=request.game, max_draws=request.draws)
    if not all(np.isfinite(part).all() for part in (answer.values, answer.lower, answer.upper)):
        raise UnusableDataError(TOO_LARGE)
    return ExplainedRows(
        found.id,
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
        answer.warnings,
    )
