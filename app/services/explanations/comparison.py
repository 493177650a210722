"""Comparison of two models on the rows that both held out."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sqlalchemy.orm import Session
from typing_extensions import TypedDict

from app.services.errors import ConflictError
from app.services.predictions.posteriors import find
from app.store import models as store
from app.store.tables import Json, Model
from sampler.host.posteriors import ModelComparison

FEWEST_ROWS = 10  # of which the standard error of a difference tells something


class ScoreDifferenceView(TypedDict):
    """A score of two models on the same rows."""

    score: Annotated[
        Literal["log_score", "rmse", "brier"],
        Field(
            description="log_score: higher is better; rmse (in units of the target), brier: lower is better."
        ),
    ]
    first: Annotated[float, Field(description="Of the model in the path.")]
    second: Annotated[float, Field(description="Of the other one.")]
    difference: Annotated[float, Field(description="First less second.")]
    error: Annotated[
        float,
        Field(description="Standard error of the difference, from the differences of the rows."),
    ]
    better: Annotated[
        Literal["first", "second", ""],
        Field(description="The better one where the difference is beyond two standard errors; else empty."),
    ]


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    """Two models on the rows that both held out."""

    model_id: str
    other_id: str
    rows: Annotated[int, Field(description="Held-out rows in common, of up to 2,000 of each.")]
    differences: list[ScoreDifferenceView]


def compare(session: Session, owner: str, first: str, second: str) -> ComparisonView:
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
    compared = ModelComparison.of(mine, other).to_json()
    return ComparisonView(model_id=found[0].id, other_id=found[1].id, **compared)


def _scores(session: Session, model: Model) -> Json:
    scores: Json = (store.held_out(session, model.id) or {}).get("scores") or {}
    return scores


def _common(scores: Json, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    kept = np.isin(scores["row"], rows)
    return {name: np.array(values)[kept] for name, values in scores.items() if name != "row"}
