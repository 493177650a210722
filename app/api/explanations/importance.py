"""Importance of features and interactions of pairs over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from app.api.explanations.common import OF, ModelPart, json_response
from app.services.access.keys import READ
from app.services.explanations import importance
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.scopes import needs
from sampler.posterior.protocol import Loss

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)


class FeatureView(BaseModel):
    """A feature's importance, with its interval."""

    name: str
    mean: float
    lower: float
    upper: float


class SlopeView(BaseModel):
    """Slope of one term of a linear part, on the column's own scale."""

    of_class: str | None = Field(
        None,
        description="Of classes, the class whose log odds it is of, relative to the mean of all classes.",
    )
    feature: str
    level: str | None = Field(description="The level that the term is for; null but for categories.")
    missing: bool = Field(description="Whether the term is for missing values.")
    mean: float
    sd: float
    lower: float
    upper: float
    scale: str = Field(description="Scale of the slope, in words: the target's, or its transform's.")


class PermutationView(BaseModel):
    """Increase of the loss on held-out rows when one feature at a time is shuffled."""

    loss: Loss = Field(
        description="`rmse`: root mean square error of a draw's mean outcome, in units of the target. "
        "`log_loss`: mean of minus the log density (of classes and counts: log probability) that a draw "
        "gives the outcomes."
    )
    baseline: float | None = Field(description="The mean loss of the draws with nothing shuffled.")
    level: float = Field(description="The level of the intervals, which are over draws and permutations.")
    rows: int = Field(description="Number of held-out rows used, at most 1,000.")
    draws: int = Field(description="Number of draws used, of all chains together.")
    permutations: int
    features: list[FeatureView] = Field(
        description="The largest increase first. Features with the same information share it."
    )


class ImportanceView(BaseModel):
    """Permutation importance on held-out rows, and inclusion proportions, whose means sum to one."""

    model_id: str
    draws: int = Field(description="Number of draws per chain.")
    level: float = Field(description="The level of the intervals of the shares and slopes.")
    permutation: PermutationView | None = Field(
        description="Null for a model without held-out rows: fit with `holdout`."
    )
    features: list[FeatureView] = Field(description="Shares of the split rules, the largest first.")
    draws_without_rules: int = Field(description="Draws without any split rule, which are excluded.")
    linear: list[SlopeView] | None = Field(
        description="Slopes of the linear part beside the trees, null without one. They are not effects: "
        "trees take any share of the same signal."
    )


@router.get("/{model_id}/variable-importance", response_model=ImportanceView, responses=responses(409))
@needs(READ)
async def get_variable_importance(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    level: Annotated[
        float, Query(gt=0, lt=1, description="The level of the intervals of shares and slopes.")
    ] = 0.9,
    of: Annotated[ModelPart, Query(description=f"What the shares are of. {OF}")] = "mean",
    loss: Annotated[
        Loss | None,
        Query(description="The loss that `permutation` is about; default: the model's usual one."),
    ] = None,
) -> Response:
    """Return how much worse held-out rows are predicted when a feature is shuffled, and shares of the rules.

    `permutation` ranks the features: the increase of the loss on the model's held-out rows when one feature
    at a time is shuffled among them, with intervals over draws and permutations. The loss is `rmse` for
    numbers with normal noise of the same size everywhere, else `log_loss`; `loss` names another. `features`
    are the shares of the split rules; the indicators of a category are summed.
    """
    return await gate.run(
        lambda: json_response(importance.importance(predictor, owner, model_id, level, of, loss))
    )


class PairView(BaseModel):
    """Interaction of two features."""

    features: list[str]
    strength: float = Field(
        description="Standard deviation over rows of what the joint effect has beyond the two separate ones, "
        "in units of `scale`."
    )
    strength_lower: float
    strength_upper: float
    h: float = Field(description="Friedman's H: the strength divided by the joint effect's deviation.")
    h_lower: float
    h_upper: float
    inclusion: float = Field(
        description="Share of the splits right below a split on another feature that join these two."
    )
    inclusion_lower: float
    inclusion_upper: float
    expected: float = Field(description="That share if neighbouring splits were independent.")


class InteractionsView(BaseModel):
    """Interactions of each two features, the strongest first."""

    model_id: str
    level: float
    draws: int = Field(description="Number of draws used for the strength and H, of all chains.")
    scale: str = Field(
        description="Scale of the strength in words: the target's, its transform's, or a probability's."
    )
    pairs: list[PairView]


@router.get("/{model_id}/interactions", response_model=InteractionsView, responses=responses(409, 413, 422))
@needs(READ)
async def get_interactions(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    feature: Annotated[
        list[str] | None,
        Query(description="At least two features, repeated; default: the ten that most rules use."),
    ] = None,
    level: Annotated[float, Query(gt=0, lt=1, description="Probability of the intervals.")] = 0.9,
) -> Response:
    """Return how strongly each two features act together, with intervals over draws."""
    return await gate.run(
        lambda: json_response(importance.interactions(predictor, owner, model_id, feature, level))
    )
