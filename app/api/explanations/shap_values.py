"""SHAP values over HTTP: how much each feature moves the prediction of each row, with intervals."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.explanations.common import json_response
from app.api.predict import Columns, RowObjects, Share
from app.services.access.keys import PREDICT
from app.services.explanations import shap_values
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs
from sampler.posterior.protocol import GameKind

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)


class ShapBody(BaseModel):
    """A request for SHAP values."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowObjects | None = Field(
        None,
        description="Rows to explain, as in predict, without weights; defaults to up to 200 training rows, "
        "evenly spaced.",
    )
    columns: Columns | None = Field(None, description="The rows as lists of values by column name.")
    level: Share = Field(0.9, description="The probability an interval holds.")
    game: GameKind = Field(
        "interventional",
        description="interventional: a feature left out takes its values from up to 100 training rows; "
        "path-dependent: it goes both ways at its splits, by the shares of those rows.",
    )
    draws: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="Most draws used, evenly spaced over all chains; default: all, or for many rows as "
        "many as two seconds of a core allow.",
    )

    def request(self) -> shap_values.ShapRequest:
        """Convert to the service's request."""
        return shap_values.ShapRequest(self.level, self.game, self.draws, self.rows, self.columns)


class ShapView(BaseModel):
    """SHAP values by row and feature; a row's values and the base add up to its f.

    For more than two classes each number is a list with one for each class.
    """

    model_id: str
    draws: int = Field(description="Number of draws used, of all chains.")
    level: float
    game: GameKind
    scale: str = Field(description="What the values add up to, in words.")
    classes: list[str] | None = Field(description="The classes, if each number is a list; else null.")
    features: list[str]
    base: float | list[float] = Field(description="Mean of f over the training rows that were compared with.")
    base_lower: float | list[float]
    base_upper: float | list[float]
    f: list[float] | list[list[float]] = Field(
        description="Mean of f at each row over the draws used; of all predict's mean, if `scale` is the "
        "target in its own unit."
    )
    values: list[list[float]] | list[list[list[float]]] = Field(description="Means, [row][feature].")
    lower: list[list[float]] | list[list[list[float]]] = Field(description="Lower ends of the intervals.")
    upper: list[list[float]] | list[list[list[float]]] = Field(description="Upper ends of the intervals.")
    data: list[list[float | str | bool | None]] | None = Field(
        description="Cells of the training rows that were explained, [row][feature], where the request has "
        "no rows: each number is the middle of those that the model doesn't tell from it."
    )
    warnings: list[str] = Field(description="Warnings about the rows.")


@router.post("/{model_id}/shap", response_model=ShapView, responses=responses(409, 413, 415))
@needs(PREDICT)
async def compute_shap(
    model_id: str, body: ShapBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Return how much each feature moves the prediction of each row, with intervals over draws.

    The values are exact on every draw; a row's values and the base add up to f at the row.
    """
    return await gate.run(
        lambda: json_response(shap_values.explain(predictor, owner, model_id, body.request()))
    )
