"""What a fitted model says of itself: diagnostics, variable importance, partial dependence, its draws."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from app.api.predict import MAX_LEVELS, Columns, Rows, Share
from app.services.access.keys import PREDICT, READ
from app.services.predictions import explanations
from app.services.predictions.answers import to_arrow
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.negotiation import ARROW
from app.web.scopes import needs
from sampler.posterior.verdict import ReasonCode

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)
MAX_POINTS = 500


class OneFigures(BaseModel):
    """Of one quantity over all draws; null where there are too few draws to tell."""

    mean: float | None
    sd: float | None
    rhat: float | None = Field(description="Rank-normalised split R-hat.")
    ess_bulk: float | None = Field(description="Effective draws for the centre.")
    ess_tail: float | None = Field(description="Effective draws for the 5% and 95% quantiles, the smaller.")
    mcse_mean: float | None = Field(description="Monte Carlo standard error of the mean.")


class RowFigures(BaseModel):
    """The same of f, a value per reference row (up to 200 training rows)."""

    rows: int
    mean: list[float | None]
    sd: list[float | None]
    rhat: list[float | None]
    ess_bulk: list[float | None]
    ess_tail: list[float | None]
    mcse_mean: list[float | None]


class Traces(BaseModel):
    """Draws as they came, thinned evenly."""

    draws: list[int] = Field(description="Which draws of each chain are shown, from 0.")
    sigma: list[list[float]] | None = Field(description="By chain; null for two classes.")


class MoveView(BaseModel):
    """How often a move was made."""

    proposed: int
    accepted: int
    acceptance: float


class ChainMoves(BaseModel):
    """The moves of a chain, all its iterations counted."""

    chain: int
    moves: dict[str, MoveView]


class Spread(BaseModel):
    """Of all trees of all draws."""

    mean: float
    max: int
    share: dict[str, float] = Field(description="Of the trees, by the number.")


class TreesView(BaseModel):
    """How large the trees are."""

    leaves: Spread
    depth: Spread = Field(description="Splits above the deepest leaf.")


class TopologyView(BaseModel):
    """A shape of the tree: which splits there are, whatever their rules."""

    topology: str = Field(
        description='In pre-order: a leaf is ".", a split "(", its left and right part, ")".'
    )
    probability: float = Field(description="Given the data.")


class ReasonView(BaseModel):
    """Why a verdict is no better, for programs."""

    code: ReasonCode
    values: dict[str, float | None] = Field(description="The figures and limits that it rests on, by name.")


class DiagnosticsView(BaseModel):
    """Whether the chains agree, and all that it rests on."""

    model_id: str
    classes: list[str] | None
    verdict: Literal["converged", "approximate", "not_converged"]
    reasons: list[str]
    reason_codes: list[ReasonView] = Field(description="The same reasons, as codes with their figures.")
    advice: str
    chains: int
    draws: int = Field(description="Of each chain.")
    sigma: OneFigures | None = Field(description="Null for two classes.")
    f: RowFigures
    traces: Traces
    moves: list[ChainMoves]
    trees: TreesView
    topologies: list[TopologyView] | None = Field(
        description="Of the methods of one tree: up to 50 shapes, the most probable first; else null."
    )


class FeatureView(BaseModel):
    """The share of a feature, over draws."""

    name: str
    mean: float
    lower: float
    upper: float


class ImportanceView(BaseModel):
    """Inclusion proportions; their means sum to one."""

    model_id: str
    draws: int = Field(description="Of each chain.")
    level: float
    features: list[FeatureView] = Field(description="The largest share first.")
    draws_without_rules: int = Field(description="Draws in which no tree splits; they count for nothing.")


def json_response(value: Any) -> Response:
    """Plain values as JSON; to be called where the work is done."""
    return Response(to_json(value), media_type="application/json")


@router.get("/{model_id}/diagnostics", response_model=DiagnosticsView, responses=responses(409))
@needs(READ)
async def get_diagnostics(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    points: Annotated[int, Query(ge=2, le=MAX_POINTS, description="Of a trace, per chain.")] = MAX_POINTS,
) -> Response:
    """Whether the chains agree: R-hat, effective draws, Monte Carlo errors, traces, moves, tree sizes."""
    return await gate.run(lambda: json_response(explanations.diagnostics(predictor, owner, model_id, points)))


@router.get("/{model_id}/variable-importance", response_model=ImportanceView, responses=responses(409))
@needs(READ)
async def get_variable_importance(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    level: Annotated[float, Query(gt=0, lt=1, description="Of the intervals.")] = 0.9,
) -> Response:
    """The share of the split rules that use each feature, with intervals over draws.

    The indicators of a category are added up.
    """
    return await gate.run(lambda: json_response(explanations.importance(predictor, owner, model_id, level)))


class DependenceBody(BaseModel):
    """What to look at."""

    model_config = ConfigDict(extra="forbid", strict=True)

    features: list[str] = Field(min_length=1, max_length=2, description="One feature, or two.")
    grid: Columns | None = Field(
        None,
        description="Values to set a feature to, by its name; else every level, or up to 19 values "
        "of the training data that divide its rows evenly (one of many rows counts once). At most 10,000 "
        "points in all.",
    )
    level: Share | Annotated[list[Share], Field(max_length=MAX_LEVELS)] = Field(
        0.9, description="The probability an interval holds; one or several."
    )
    ice: bool = Field(False, description="Also of up to 50 single rows, evenly spaced; of one feature only.")
    draws: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Use the first so many kept draws of each chain."
    )
    rows: Rows | None = Field(
        None,
        description="To average over, as in predict, each alike (weights play no part); else up to 200 "
        "training rows, evenly spaced.",
    )
    columns: Columns | None = Field(None, description="The same as lists of values by the columns' names.")

    def request(self) -> explanations.DependenceRequest:
        """The same as the service wants it."""
        return explanations.DependenceRequest(
            features=self.features,
            grid=self.grid,
            levels=self.level if isinstance(self.level, list) else [self.level],
            ice=self.ice,
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
    """Curves of single rows: [row][point], of more than two classes [row][point][class]."""

    rows: list[int] = Field(description="Their numbers among the rows averaged over, from 0.")
    mean: Surface | Solid
    intervals: list[CurveInterval]


class DependenceView(BaseModel):
    """f averaged over the rows, by point: [first feature] or [first][second]; of many classes [..][class]."""

    model_id: str
    draws: int = Field(description="Of each chain.")
    classes: list[str] | None = Field(
        description="Of two, f is the probability of the second; of more, the probability of each."
    )
    features: list[str]
    grid: list[list[float | str | bool | None]] = Field(description="Of each feature; dates in ISO 8601.")
    rows: int = Field(description="Averaged over: fewer than given where the grid is large.")
    mean: Curve | Surface | Solid
    intervals: list[CurveInterval]
    ice: IceView | None


@router.post(
    "/{model_id}/partial-dependence", response_model=DependenceView, responses=responses(409, 413, 415)
)
@needs(PREDICT)
async def compute_partial_dependence(
    model_id: str, body: DependenceBody, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """How predictions move with one or two features, the others as they are in the rows; with intervals.

    The rows are the reference rows kept with the model, so that the answer is the same here, in a notebook
    and wherever its file goes, or rows of your own.
    """
    return await gate.run(
        lambda: json_response(explanations.dependence(predictor, owner, model_id, body.request()))
    )


@router.get(
    "/{model_id}/draws",
    response_class=Response,
    responses={
        **responses(409, 413),
        200: {
            "description": "An Arrow stream with the columns chain, draw, sigma and, on request, f (a list).",
            "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
)
@needs(READ)
async def get_draws(
    model_id: str,
    predictor: ThePredictor,
    gate: TheGate,
    owner: Owner,
    f: Annotated[bool, Query(description="Also the regression function at up to 200 training rows.")] = False,
    draws: Annotated[int | None, Query(ge=1, description="The first so many of each chain.")] = None,
) -> Response:
    """The posterior's draws, a row each, chain by chain.

    For ArviZ: `table = pyarrow.ipc.open_stream(body).read_all()`, then
    `arviz_base.from_dict({"posterior": {"sigma": table["sigma"].to_numpy().reshape(chains, draws)}})`, and
    `f` alike, flattened, as `reshape(chains, draws, -1)`. The schema's metadata (`bartserve`) says how many.
    """

    def work() -> Response:
        table = explanations.export(predictor, owner, model_id, f=f, draws=draws)
        return Response(to_arrow(table), media_type=ARROW)

    return await gate.run(work)
