"""Effects of features over HTTP: partial dependence and accumulated local effects."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.explanations.common import OF, ModelPart, json_response
from app.api.predict import MAX_LEVELS, Columns, RowObjects, Share
from app.services.access.keys import PREDICT
from app.services.explanations import accumulated_effects, partial_dependence
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)


class DependenceBody(BaseModel):
    """A request for partial dependence."""

    model_config = ConfigDict(extra="forbid", strict=True)

    features: list[str] = Field(min_length=1, max_length=2, description="One feature, or two.")
    grid: Columns | None = Field(
        None,
        description="Grid values by feature; defaults to every level, or to up to 19 values of the training "
        "data that divide its rows evenly (a value of many rows counts once). At most 10,000 points in all.",
    )
    level: Share | Annotated[list[Share], Field(max_length=MAX_LEVELS)] = Field(
        0.9, description="The level of the intervals; one or several."
    )
    of: ModelPart = Field("mean", description=OF)
    ice: bool = Field(
        False, description="Also return curves of up to 50 single rows, evenly spaced; one feature only."
    )
    draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Use only this many kept draws of each chain, the first."
    )
    rows: RowObjects | None = Field(
        None,
        description="Rows to average over, as in predict, without weights; defaults to up to 200 training "
        "rows, evenly spaced.",
    )
    columns: Columns | None = Field(None, description="The rows as lists of values by column name.")

    def request(self) -> partial_dependence.DependenceRequest:
        """Convert to the service's request."""
        return partial_dependence.DependenceRequest(
            features=self.features,
            grid=self.grid,
            levels=self.level if isinstance(self.level, list) else [self.level],
            ice=self.ice,
            of=self.of,
            draws=self.draws,
            rows=self.rows,
            columns=self.columns,
        )


Curve = list[float]
Surface = list[list[float]]
Solid = list[list[list[float]]]


class CurveInterval(BaseModel):
    """Equal-tailed intervals at one level, in the shape of the mean."""

    level: float
    lower: Curve | Surface | Solid
    upper: Curve | Surface | Solid


class IceView(BaseModel):
    """Curves of single rows: [row][point]; for more than two classes [row][point][class]."""

    rows: list[int] = Field(description="Indices among the rows averaged over, from 0.")
    mean: Surface | Solid
    intervals: list[CurveInterval]


class DependenceView(BaseModel):
    """Average of f over the rows by grid point: [first], or [first][second]; with classes [..][class]."""

    model_id: str
    draws: int = Field(description="Number of draws per chain.")
    classes: list[str] | None = Field(
        description="For two classes f is the probability of the second; for more, of each."
    )
    features: list[str]
    grid: list[list[float | str | bool | None]] = Field(
        description="Grid values of each feature; dates in ISO 8601."
    )
    rows: int = Field(description="Number of rows averaged over; fewer than given if the grid is large.")
    mean: Curve | Surface | Solid
    sd: Curve | Surface | Solid = Field(
        description="Posterior standard deviations, in the shape of the mean."
    )
    intervals: list[CurveInterval]
    ice: IceView | None


@router.post(
    "/{model_id}/partial-dependence", response_model=DependenceView, responses=responses(409, 413, 415)
)
@needs(PREDICT)
async def compute_partial_dependence(
    model_id: str, body: DependenceBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Return how predictions change with one or two features, averaged over the others, with intervals.

    The average is over the reference rows stored with the model, so the result is the same here, in a
    notebook, and wherever the model file goes; or over rows in the request.
    """
    return await gate.run(
        lambda: json_response(partial_dependence.dependence(predictor, owner, model_id, body.request()))
    )


class AccumulationBody(BaseModel):
    """A request for accumulated effects."""

    model_config = ConfigDict(extra="forbid", strict=True)

    feature: str = Field(description="A feature of numbers or dates.")
    level: Share | Annotated[list[Share], Field(max_length=MAX_LEVELS)] = Field(
        0.9, description="The level of the intervals; one or several."
    )
    draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Use only this many kept draws of each chain, the first."
    )
    rows: RowObjects | None = Field(
        None,
        description="Rows, as in predict, without weights; defaults to up to 200 training rows.",
    )
    columns: Columns | None = Field(None, description="The rows as lists of values by column name.")

    def request(self) -> accumulated_effects.AccumulationRequest:
        """Convert to the service's request."""
        return accumulated_effects.AccumulationRequest(
            self.feature,
            self.level if isinstance(self.level, list) else [self.level],
            self.draws,
            self.rows,
            self.columns,
        )


class AccumulationView(BaseModel):
    """Accumulated local effects by value, [value] or [value][class], with mean 0 over the rows."""

    model_id: str
    draws: int = Field(description="Number of draws per chain.")
    classes: list[str] | None = Field(
        description="For two classes f is the probability of the second; for more, of each."
    )
    feature: str
    grid: list[float | str] = Field(description="Values of the feature; dates in ISO 8601.")
    rows: list[int] = Field(description="Number of rows between each value and the next.")
    mean: Curve | Surface
    intervals: list[CurveInterval]


@router.post(
    "/{model_id}/accumulated-effects", response_model=AccumulationView, responses=responses(409, 413, 415)
)
@needs(PREDICT)
async def compute_accumulated_effects(
    model_id: str, body: AccumulationBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Return how predictions change with a feature among rows like the data's, with intervals.

    Unlike partial dependence it never sets the feature far from its value in a row, so that features that go
    together don't lead to rows which the data have nothing like.
    """
    return await gate.run(
        lambda: json_response(accumulated_effects.accumulate(predictor, owner, model_id, body.request()))
    )
