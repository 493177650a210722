"""Comparison of two models on the rows that both held out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.services.errors import ConflictError
from app.services.predictions.posteriors import find
from app.services.views import filled, schema_of
from app.store import models as store
from app.store.tables import Json, Model
from sampler.host.posteriors import ModelComparison, ScoreDifference

FEWEST_ROWS = 10  # of which the standard error of a difference tells something


schema_of(ScoreDifference, "ScoreDifferenceView", "score first second difference error better")
ComparisonView: Any = schema_of(
    ModelComparison, "ComparisonView", "model_id other_id rows differences", other_id=str
)


def compare(session: Session, owner: str, first: str, second: str) -> Any:
    """Compare two models, by name or id, on the rows that both held out.

    Raises
    ------
    NotFoundError
        A model doesn't exist.
    ConflictError
        The models are of other datasets or targets, or have too few held-out rows in common.
    """
    found = [find(session, owner, name) for name in (first, second)]
    if len({(each.dataset_id, each.target) for each in found}) > 1:
        raise ConflictError(
            "The models learn other targets or datasets: differences are of rows that both held out."
        )
    scores = [_scores(session, each) for each in found]
    common = np.intersect1d(*(each.get("row", []) for each in scores))
    if len(common) < FEWEST_ROWS:
        raise ConflictError(
            f"The models have {len(common)} held-out rows in common, and {FEWEST_ROWS} are needed: fit both "
            "with the same holdout and seed."
        )
    mine, other = (_common(each, common) for each in scores)
    compared = ModelComparison.of(mine, other)
    return filled(ComparisonView, compared, model_id=found[0].id, other_id=found[1].id)


def _scores(session: Session, model: Model) -> Json:
    scores: Json = (store.held_out(session, model.id) or {}).get("scores") or {}
    return scores


def _common(scores: Json, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    kept = np.isin(scores["row"], rows)
    return {name: np.array(values)[kept] for name, values in scores.items() if name != "row"}
