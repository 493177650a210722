"""Intercepts and slopes of groups over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from app.api.explanations.common import json_response
from app.services.access.keys import READ
from app.services.explanations import groups
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)


class GroupView(BaseModel):
    """A group and its intercept."""

    group: str
    rows: int = Field(description="Number of training rows of the group.")
    mean: float
    sd: float
    lower: float
    upper: float


class GroupSlopeView(BaseModel):
    """A group and its slope."""

    group: str
    mean: float
    sd: float
    lower: float
    upper: float


class CorrelationView(BaseModel):
    """Correlation over groups of slopes with intercepts."""

    mean: float
    lower: float
    upper: float


class GroupDeviationView(BaseModel):
    """Standard deviation of the intercepts, or slopes, of all groups, new ones included."""

    mean: float
    sd: float
    lower: float
    upper: float
    rhat: float | None = Field(description="Rank-normalised split R-hat; null with too few draws.")
    ess_bulk: float | None
    ess_tail: float | None


class SlopesView(BaseModel):
    """Slopes of one feature by group, beside what all groups share."""

    feature: str
    standard_deviation: GroupDeviationView
    correlation: CorrelationView
    groups: list[GroupSlopeView]


class GroupingView(BaseModel):
    """Intercepts, and slopes, of the groups of one column."""

    column: str
    scale: str = Field(description="What intercepts are in units of.")
    level: float = Field(description="The level of the intervals.")
    standard_deviation: GroupDeviationView
    share: float = Field(description="Share of the variance beside f between these groups.")
    groups: list[GroupView]
    slopes: list[SlopesView] = Field(
        description="Of each feature whose slope differs by group; intercepts are at these features' means."
    )


class GroupsView(BaseModel):
    """Intercepts and slopes of groups beside the trees, by column of groups; empty without any."""

    model_id: str
    draws: int = Field(description="Number of draws per chain.")
    level: float
    columns: list[GroupingView]


@router.get("/{model_id}/groups", response_model=GroupsView, responses=responses(409))
@needs(READ)
async def get_groups(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    level: Annotated[float, Query(gt=0, lt=1, description="The level of the intervals.")] = 0.9,
) -> Response:
    """Return the intercepts, and slopes, of a model's groups, with intervals over draws.

    A prediction adds the intercepts of a row's groups, and their slopes times the features, to the trees' f.
    The standard deviation says how much groups differ, and with it how far a new group may be from the mean
    of all.
    """
    return await gate.run(lambda: json_response(groups.groups(predictor, owner, model_id, level)))
