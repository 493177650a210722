"""Convergence by number of draws, and predictions of held-out rows, over HTTP."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.explanations.common import json_response
from app.services.access.keys import READ
from app.services.explanations import comparison, convergence, diagnostics
from app.web.dependencies import Owner, Reading, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)
FiguresByDraws = list[float | None]


class SigmaGrowth(BaseModel):
    """Diagnostics of sigma, one value per number of draws."""

    rhat: FiguresByDraws
    ess_bulk: FiguresByDraws
    ess_tail: FiguresByDraws


class RowsGrowth(BaseModel):
    """Diagnostics of f at some reference rows: medians over rows, and the 95% quantile of R-hat."""

    rows: int
    rhat: FiguresByDraws = []
    rhat_p95: FiguresByDraws = []
    ess_bulk: FiguresByDraws = []
    ess_tail: FiguresByDraws = []


class LimitsView(BaseModel):
    """The largest R-hat that a verdict allows."""

    rhat: float
    sigma_rhat: float


class GrowthView(BaseModel):
    """R-hat and effective sample size by number of draws."""

    model_id: str
    chains: int
    draws: list[int] = Field(description="Numbers of kept draws per chain, up to 12 values from 8 draws on.")
    sigma: SigmaGrowth | None = Field(description="Null for classes.")
    f: RowsGrowth
    limits: dict[str, LimitsView] = Field(description="Limits by verdict.")


class HeldOutRows(BaseModel):
    """Held-out rows, evenly spaced among all, one value each."""

    row: list[int] = Field(description="Row numbers in the dataset, from 1.")
    actual: list[float] = Field(description="Outcomes; for classes their index, from 0.")
    predicted: list[int] | None = Field(
        None, description="The index of the most probable class for more than two classes; else null."
    )
    mean: list[float | None] = Field(
        description="For two classes the probability of the second, for more that of the row's own class."
    )
    lower: list[float | None]
    upper: list[float | None]


class CalibrationView(BaseModel):
    """An observed frequency with its 95% binomial interval."""

    level: float = Field(description="The nominal level of an interval, or the predicted probability.")
    observed: float
    lower: float
    upper: float
    rows: int


class HeldOutView(BaseModel):
    """Predictions of held-out rows."""

    model_id: str
    interval: Literal["credible", "predictive"]
    level: float = Field(
        description="The level of the intervals, which are for outcomes with the rows' own weights."
    )
    classes: list[str] | None = Field(description="The classes; last those that no training row has.")
    rows: HeldOutRows
    calibration: list[CalibrationView] = Field(
        description="For numbers: coverage of predictive intervals by level, with the rows' own weights. For "
        "two classes: by bins of the probability; for more: accuracy of the most probable class, by bins of "
        "its probability."
    )


@router.get("/{model_id}/diagnostics/growth", response_model=GrowthView, responses=responses(409))
@needs(READ)
async def get_diagnostics_growth(
    model_id: str, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Return R-hat and effective sample size of sigma and f by number of draws, also during a fit."""
    return await gate.run(lambda: json_response(convergence.growth(predictor, owner, model_id)))


class ScoreDifferenceView(BaseModel):
    """A score of two models on the same rows."""

    model_config = ConfigDict(from_attributes=True)

    score: Literal["log_score", "rmse", "brier"] = Field(
        description="log_score: higher is better; rmse (in units of the target), brier: lower is better."
    )
    first: float = Field(description="Of the model in the path.")
    second: float = Field(description="Of the other one.")
    difference: float = Field(description="First less second.")
    error: float = Field(description="Standard error of the difference, from the differences of the rows.")
    better: Literal["first", "second", ""] = Field(
        description="The better one where the difference is beyond two standard errors; else empty."
    )


class ComparisonView(BaseModel):
    """Two models on the rows that both held out."""

    model_id: str
    other_id: str
    rows: int = Field(description="Held-out rows in common, of up to 2,000 of each.")
    differences: list[ScoreDifferenceView]


@router.get("/{model_id}/comparison/{other_id}", responses=responses(409))
@needs(READ)
def get_comparison(
    model_id: str,
    session: Reading,
    owner: Owner,
    other_id: str,
) -> ComparisonView:
    """Compare two models of a dataset on the rows that both held out, with the errors of the differences.

    Fit both with the same `holdout` and `seed`: then they hold out the same rows.
    """
    found = comparison.compare(session, owner, model_id, other_id)
    differences = [ScoreDifferenceView.model_validate(each) for each in found.figures.differences]
    return ComparisonView(
        model_id=found.model_id, other_id=found.other_id, rows=found.figures.rows, differences=differences
    )


@router.get("/{model_id}/holdout", responses=responses(409))
@needs(READ)
def get_holdout(model_id: str, session: Reading, owner: Owner) -> HeldOutView:
    """Return up to 500 held-out rows with predictions, and the calibration on up to 2,000 of them."""
    held_out = diagnostics.held_out(session, owner, model_id)
    return HeldOutView.model_validate(held_out, from_attributes=True)
