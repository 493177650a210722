"""POST /models/{id}/predict."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import to_json

from app.api.deps import Owner, TheGate, ThePredictor
from app.api.json_body import StrictRoute
from app.api.problems import responses
from app.services.predictions import PredictRequest

router = APIRouter(prefix="/models", tags=["predictions"], route_class=StrictRoute)
MAX_LEVELS, MAX_QUANTILES = 20, 100

CELL: dict[str, Any] = {
    "anyOf": [{"type": kind} for kind in ("number", "string", "boolean", "null")],
}
Share = Annotated[float, Field(gt=0, lt=1)]
# Checked by the service in a thread, cell by cell; here they are only documented.
Rows = Annotated[
    list[Any],
    WithJsonSchema(
        {"type": "array", "items": {"type": "object", "additionalProperties": CELL}, "minItems": 1}
    ),
]
Columns = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": CELL}}),
]


class PredictBody(BaseModel):
    """The rows to predict, and what to say of each."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rows: Rows | None = Field(None, description="Objects of values by the columns' names; or else columns.")
    columns: Columns | None = Field(None, description="Lists of values by the columns' names; or else rows.")
    level: Share | Annotated[list[Share], Field(max_length=MAX_LEVELS)] = Field(
        0.9, description="The probability an interval holds; one or several."
    )
    interval: Literal["credible", "predictive"] = Field(
        "credible", description="For the regression function, or for a new outcome."
    )
    quantiles: Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | None = Field(
        None, description="Further quantiles, of the same distribution as the intervals."
    )
    draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Use the first so many kept draws of each chain: the same answer for ever."
    )
    require: Literal["converged", "approximate"] | None = Field(
        None, description="Refuse with 409 when the model's verdict is worse."
    )

    def predict_request(self) -> PredictRequest:
        """The same as the service wants it."""
        return PredictRequest(
            rows=self.rows,
            columns=self.columns,
            levels=self.level if isinstance(self.level, list) else [self.level],
            interval=self.interval,
            quantiles=self.quantiles,
            draws=self.draws,
            require=self.require,
        )


class IntervalView(BaseModel):
    """Equal-tailed intervals at one level, a bound per row."""

    level: float
    lower: list[float]
    upper: list[float]


class QuantileView(BaseModel):
    """One quantile, a value per row."""

    q: float
    values: list[float]


class PredictionView(BaseModel):
    """The answer, in the order of the rows."""

    model_id: str
    draws: int = Field(description="Kept draws of each chain that were used.")
    interval: Literal["credible", "predictive"]
    mean: list[float]
    sd: list[float]
    intervals: list[IntervalView]
    quantiles: list[QuantileView]
    verdict: Literal["converged", "approximate", "not_converged"] | None = Field(
        description="Whether the model's chains agree."
    )
    warnings: list[str]


@router.post("/{model_id}/predict", response_model=PredictionView, responses=responses(409, 413, 415))
async def predict(
    model_id: str, body: PredictBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Predict new rows with intervals. `model_id` may be a name: then its newest succeeded model answers.

    Columns are matched by name. Columns of the training data that the model doesn't use are ignored and named
    in the warnings, as are levels never seen; any other name, an absent column and a value of another type
    are a 422.
    """
    request = body.predict_request()

    def answer() -> bytes:
        return to_json(predictor.predict(owner, model_id, request))

    return Response(await gate.run(answer), media_type="application/json")
