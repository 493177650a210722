"""Survival curves over HTTP: how probable it is that an outcome exceeds each of some times."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.explanations.common import json_response
from app.api.predict import Columns, RowObjects, Share
from app.services.access.keys import PREDICT
from app.services.explanations import survival
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs
from sampler.posterior.explanations.survival_curves import MOST_TIMES

router = APIRouter(prefix="/models", tags=["predictions"], route_class=StrictRoute)


class SurvivalBody(BaseModel):
    """A request for survival curves."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: RowObjects | None = Field(None, description="The rows, as in predict, without weights.")
    columns: Columns | None = Field(None, description="The rows as lists of values by column name.")
    times: Annotated[list[float], Field(min_length=1, max_length=MOST_TIMES)] | None = Field(
        None,
        description="Increasing times, or values of a target with limits; defaults to 50 that divide the "
        "range of the training outcomes evenly.",
    )
    level: Share = Field(0.9, description="The probability a credible interval holds.")

    def request(self) -> survival.SurvivalRequest:
        """Convert to the service's request."""
        return survival.SurvivalRequest(self.rows, self.columns, self.times, self.level)


class FigureView(BaseModel):
    """A figure of each row, with its credible interval."""

    value: list[float]
    lower: list[float]
    upper: list[float]


class SurvivalView(BaseModel):
    """Survival curves by row, of outcomes that nothing censors."""

    model_id: str
    level: float
    times: list[float]
    survival: list[list[float]] = Field(
        description="Probabilities that the outcome is above each time, [row][time]."
    )
    lower: list[list[float]] = Field(description="Lower ends of their credible intervals.")
    upper: list[list[float]] = Field(description="Upper ends of their credible intervals.")
    median: FigureView = Field(description="The time that half of such rows' outcomes exceed.")
    restricted_mean: FigureView = Field(
        description="The expected value of the outcome, or of the last time where that is less."
    )
    warnings: list[str] = Field(description="Warnings about the rows.")


@router.post("/{model_id}/survival", response_model=SurvivalView, responses=responses(409, 413, 415))
@needs(PREDICT)
async def compute_survival(
    model_id: str, body: SurvivalBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Return the survival curves of rows, with credible bands, medians and restricted means.

    The model must have been fitted with `event`, `lower` or `upper`.
    """
    return await gate.run(
        lambda: json_response(survival.survival(predictor, owner, model_id, body.request()))
    )
