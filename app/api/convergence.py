"""How far a model can be trusted, over HTTP: its agreement as it grew, and the rows it never saw."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.api.explanations import json_response
from app.services.access.keys import READ
from app.services.predictions import convergence, explanations
from app.web.dependencies import Owner, Reading, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)
Figures = list[float | None]


class SigmaGrowth(BaseModel):
    """Of sigma, a value per count of draws."""

    rhat: Figures
    ess_bulk: Figures
    ess_tail: Figures


class RowsGrowth(BaseModel):
    """Of f at some reference rows: their medians, and the R-hat that 95% of them don't exceed."""

    rows: int
    rhat: Figures = []
    rhat_p95: Figures = []
    ess_bulk: Figures = []
    ess_tail: Figures = []


class LimitsView(BaseModel):
    """The most that a verdict allows."""

    rhat: float
    sigma_rhat: float


class GrowthView(BaseModel):
    """R-hat and effective draws as the draws grew."""

    model_id: str
    chains: int
    draws: list[int] = Field(
        description="Kept draws of each chain, up to 12 counts; fewer than 8 tell nothing."
    )
    sigma: SigmaGrowth | None = Field(description="Null for two classes.")
    f: RowsGrowth
    limits: dict[str, LimitsView] = Field(description="By verdict.")


class HeldOutRows(BaseModel):
    """Held-out rows, evenly spaced among all, a value each."""

    row: list[int] = Field(description="In the dataset, from 1.")
    actual: list[float] = Field(description="Of classes their number, from 0.")
    predicted: list[int] | None = Field(
        None, description="Of more than two classes the number of the most probable one; else null."
    )
    mean: list[float | None] = Field(
        description="Of two classes the probability of the second, of more that of the row's own class."
    )
    lower: list[float | None]
    upper: list[float | None]


class CalibrationView(BaseModel):
    """How often something held, with its 95% binomial interval."""

    level: float = Field(description="What the model claims: of an interval, or a probability.")
    observed: float
    lower: float
    upper: float
    rows: int


class HeldOutView(BaseModel):
    """The rows that the model never saw."""

    model_id: str
    interval: Literal["credible", "predictive"]
    level: float = Field(
        description="Of the rows' intervals; they are for outcomes of the rows' own weights."
    )
    classes: list[str] | None = Field(description="Last those that no training row has.")
    rows: HeldOutRows
    calibration: list[CalibrationView] = Field(
        description="Of numbers: predictive intervals by level, of the rows' own weights. Of two classes: "
        "by bins of the probability; of more: by bins of the largest probability, how often that class is "
        "right."
    )


@router.get("/{model_id}/diagnostics/growth", response_model=GrowthView, responses=responses(409))
@needs(READ)
async def get_diagnostics_growth(
    model_id: str, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """R-hat and effective draws of sigma and f as the draws grew; also of a model that is being fitted."""
    return await gate.run(lambda: json_response(convergence.growth(predictor, owner, model_id)))


@router.get("/{model_id}/holdout", responses=responses(409))
@needs(READ)
def get_holdout(model_id: str, session: Reading, owner: Owner) -> HeldOutView:
    """Up to 500 of the held-out rows with their predictions, and the calibration on up to 2,000 of them."""
    found: dict[str, Any] = explanations.held_out(session, owner, model_id)
    return HeldOutView.model_validate(found)
