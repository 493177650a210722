"""Diagnostics of a fitted model over HTTP."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from app.api.explanations.common import json_response
from app.services.access.keys import READ
from app.services.explanations import diagnostics
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs
from sampler.posterior.verdict.reasons import ReasonCode

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)
MAX_POINTS = 500
REPRODUCIBILITY = (
    "Standard error of the pooled mean by the chains' own means: their standard deviation over the root of "
    "their number; null for one chain."
)


class OneFigures(BaseModel):
    """Diagnostics of one quantity over all draws; null where there are too few draws."""

    mean: float | None
    sd: float | None
    rhat: float | None = Field(description="Rank-normalised split R-hat.")
    ess_bulk: float | None = Field(description="Effective sample size for the centre.")
    ess_tail: float | None = Field(
        description="Effective sample size for the 5% and 95% quantiles, the smaller one."
    )
    mcse_mean: float | None = Field(description="Monte Carlo standard error of the mean.")
    reproducibility: float | None = Field(description=REPRODUCIBILITY)


class RowFigures(BaseModel):
    """Diagnostics of f, one value per reference row (up to 200 training rows)."""

    rows: int
    mean: list[float | None]
    sd: list[float | None]
    rhat: list[float | None]
    ess_bulk: list[float | None]
    ess_tail: list[float | None]
    mcse_mean: list[float | None]
    reproducibility: list[float | None] = Field(description=REPRODUCIBILITY)


class Traces(BaseModel):
    """Traces of draws, thinned evenly."""

    draws: list[int] = Field(description="Indices of the shown draws of each chain, from 0.")
    sigma: list[list[float]] | None = Field(description="By chain; null for classes.")


class MoveView(BaseModel):
    """Proposals and acceptances of a move."""

    proposed: int
    accepted: int
    acceptance: float


class ChainMoves(BaseModel):
    """The moves of a chain over all its iterations."""

    chain: int
    moves: dict[str, MoveView]


class Spread(BaseModel):
    """Distribution over all trees of all draws."""

    mean: float
    max: int
    share: dict[str, float] = Field(description="The share of trees, by the number.")


class TreesView(BaseModel):
    """Sizes of the trees."""

    leaves: Spread
    depth: Spread = Field(description="Number of splits above the deepest leaf.")


class TopologyView(BaseModel):
    """A topology of the tree: its splits regardless of their rules."""

    topology: str = Field(
        description='Pre-order notation: a leaf is ".", a split is "(", left part, right part, ")".'
    )
    probability: float = Field(description="The posterior probability.")


class ReasonView(BaseModel):
    """A reason for a verdict, for programs."""

    code: ReasonCode
    values: dict[str, float | None] = Field(description="The figures and limits behind the reason, by name.")


class PrecisionView(BaseModel):
    """By how much estimates at the reference rows may be off."""

    mean: float = Field(
        description="Two Monte Carlo standard errors of the mean that 95% of the rows don't exceed, in units "
        "of the target."
    )
    ends: float = Field(description="The same of the ends of 90% credible intervals.")
    noise: float | None = Field(
        description="Posterior mean of the noise's standard deviation in units of the target, with weights "
        "that of a row of typical weight, with a transform its mean over the rows; null for classes."
    )
    share: float | None = Field(
        None,
        description="Two Monte Carlo standard errors of the mean as a share of the noise's standard "
        "deviation of the same row, which 95% of the rows don't exceed; null for classes.",
    )
    reproducibility: float | None = Field(
        description="How far another fit, with another seed, would move means, in posterior standard "
        "deviations; null for one chain."
    )
    error_share: float | None = Field(
        None,
        description="As `share`, of the standard deviation of the prediction's error (the noise's and f's).",
    )
    another_fit: float | None = Field(None, description="`reproducibility` in units of the target.")
    unit: str | None = Field(None, description="The unit of the target, where its file had one.")
    means_usable: bool = Field(description="Whether errors of means matter little to predictions.")
    text: str = Field(description="The same as a sentence.")


class GroupFigures(OneFigures):
    """Diagnostics of the standard deviation of the intercepts of a column of groups."""

    column: str
    groups: int = Field(description="Number of groups.")


class DiagnosticsView(BaseModel):
    """The convergence verdict with all diagnostics behind it."""

    model_id: str
    classes: list[str] | None
    verdict: Literal["converged", "approximate", "not_converged"]
    reasons: list[str]
    reason_codes: list[ReasonView] = Field(description="The reasons as codes with their figures.")
    advice: str
    precision: PrecisionView | None = Field(description="Null for weighted or too few draws.")
    chains: int
    draws: int = Field(description="Number of draws per chain.")
    sigma: OneFigures | None = Field(description="Null for classes.")
    f: RowFigures
    traces: Traces
    moves: list[ChainMoves]
    trees: TreesView
    topologies: list[TopologyView] | None = Field(
        description="For single-tree methods up to 50 topologies, the most probable first; else null."
    )
    groups: list[GroupFigures] | None = Field(description="By column of groups; null without any.")


@router.get("/{model_id}/diagnostics", response_model=DiagnosticsView, responses=responses(409))
@needs(READ)
async def get_diagnostics(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    points: Annotated[
        int, Query(ge=2, le=MAX_POINTS, description="Points of a trace per chain.")
    ] = MAX_POINTS,
) -> Response:
    """Return the convergence verdict, R-hat, effective sample sizes, Monte Carlo errors, traces and moves."""
    return await gate.run(lambda: json_response(diagnostics.diagnostics(predictor, owner, model_id, points)))
