"""Contrasts over HTTP: how predictions differ between two settings of features."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.explanations.common import json_response
from app.api.predict import Columns, RowObjects, Share
from app.services.access.keys import PREDICT
from app.services.explanations import contrasts
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)

Values = Annotated[dict[str, float | str | bool | None], Field(min_length=1)]
Numbers = list[float] | list[list[float]]


class ContrastBody(BaseModel):
    """A request for a contrast."""

    model_config = ConfigDict(extra="forbid", strict=True)

    first: Values = Field(description="The first setting: values by feature.")
    second: Values = Field(description="The second setting, of the same features; it is subtracted.")
    by: str | None = Field(
        None, description="A feature by whose levels, or quarters, averages are given too."
    )
    level: Share = Field(0.9, description="The probability an interval holds.")
    draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Use only this many kept draws of each chain, the first."
    )
    rows: RowObjects | None = Field(
        None,
        description="Rows whose other features stay as they are; defaults to up to 200 training rows, evenly "
        "spaced.",
    )
    columns: Columns | None = Field(None, description="The rows as lists of values by column name.")

    def request(self) -> contrasts.ContrastRequest:
        """Convert to the service's request."""
        return contrasts.ContrastRequest(
            self.first, self.second, self.by, self.level, self.draws, self.rows, self.columns
        )


class AverageView(BaseModel):
    """An average contrast with its interval; lists, one number for each class, with more than two classes."""

    mean: float | list[float]
    lower: float | list[float]
    upper: float | list[float]
    rows: int = Field(description="Number of rows averaged over.")


class ContrastView(BaseModel):
    """Differences of the regression function between two settings, first less second.

    They say how predictions differ; whether they are effects of changing the features depends on assumptions
    that no data can show.
    """

    model_id: str
    draws: int = Field(description="Number of draws per chain.")
    level: float
    difference: str = Field(description="In words, what is subtracted from what.")
    classes: list[str] | None = Field(
        description="For two classes f is the probability of the second; for more, of each."
    )
    average: AverageView = Field(description="Over these rows, which its interval takes as given.")
    population: AverageView = Field(
        description="Over the population the rows are a sample of; by the Bayesian bootstrap."
    )
    treated: AverageView | None = Field(
        description="Over the rows that have the first setting already; null if there are none."
    )
    groups: dict[str, AverageView] = Field(description="Over the rows of each level or quarter of `by`.")
    mean: Numbers = Field(description="By row, [row] or [row][class].")
    lower: Numbers
    upper: Numbers
    unlike_first: list[bool] = Field(
        description="For each row, whether no training row near the first setting resembles it."
    )
    unlike_second: list[bool]
    warnings: list[str]


@router.post("/{model_id}/contrast", response_model=ContrastView, responses=responses(409, 413, 415))
@needs(PREDICT)
async def compute_contrast(
    model_id: str, body: ContrastBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Return how predictions differ between two settings of features, by row and on average."""
    return await gate.run(
        lambda: json_response(contrasts.contrast(predictor, owner, model_id, body.request()))
    )
