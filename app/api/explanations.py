"""Explanations of a fitted model over HTTP: diagnostics, variable importance, partial dependence, draws."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from app.api.predict import MAX_LEVELS, Columns, Rows, Share
from app.services.access.keys import PREDICT, READ
from app.services.predictions import accumulated_effects, explanations
from app.services.predictions.answers import to_arrow
from app.web.dependencies import Owner, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.negotiation import ARROW
from app.web.scopes import needs
from sampler.posterior.explanations.permutation import Loss
from sampler.posterior.verdict.reasons import ReasonCode

router = APIRouter(prefix="/models", tags=["explanations"], route_class=StrictRoute)
MAX_POINTS = 500


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


class RowFigures(BaseModel):
    """Diagnostics of f, one value per reference row (up to 200 training rows)."""

    rows: int
    mean: list[float | None]
    sd: list[float | None]
    rhat: list[float | None]
    ess_bulk: list[float | None]
    ess_tail: list[float | None]
    mcse_mean: list[float | None]


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


class DiagnosticsView(BaseModel):
    """The convergence verdict with all diagnostics behind it."""

    model_id: str
    classes: list[str] | None
    verdict: Literal["converged", "approximate", "not_converged"]
    reasons: list[str]
    reason_codes: list[ReasonView] = Field(description="The reasons as codes with their figures.")
    advice: str
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


ModelPart = Literal["mean", "noise"]
OF = "The mean of outcomes, or the noise where it differs by row (noise forest): what makes them uncertain."


class FeatureView(BaseModel):
    """A feature's importance, with its interval."""

    name: str
    mean: float
    lower: float
    upper: float


class SlopeView(BaseModel):
    """Slope of one term of a linear part, on the column's own scale."""

    feature: str
    level: str | None = Field(description="The level that the term is for; null but for categories.")
    missing: bool = Field(description="Whether the term is for missing values.")
    mean: float
    sd: float
    lower: float
    upper: float


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


def json_response(value: Any) -> Response:
    """Render plain values as JSON; call this where the work is done."""
    return Response(to_json(value), media_type="application/json")


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
    return await gate.run(lambda: json_response(explanations.diagnostics(predictor, owner, model_id, points)))


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
    numbers with normal noise of the same size everywhere, else `log_loss`, unless asked for. `features` are
    the shares of the split rules; the indicators of a category are summed.
    """
    return await gate.run(
        lambda: json_response(explanations.importance(predictor, owner, model_id, level, of, loss))
    )


class PairView(BaseModel):
    """Interaction of two features."""

    features: list[str]
    strength: float = Field(
        description="Standard deviation over rows of what the joint effect has beyond the two separate ones, "
        "in the unit of the target, or of its transform (of probabilities for classes)."
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
        lambda: json_response(explanations.interactions(predictor, owner, model_id, feature, level))
    )


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
    rows: Rows | None = Field(
        None,
        description="Rows to average over, as in predict, without weights; defaults to up to 200 training "
        "rows, evenly spaced.",
    )
    columns: Columns | None = Field(None, description="The rows as lists of values by column name.")

    def request(self) -> explanations.DependenceRequest:
        """Convert to the service's request."""
        return explanations.DependenceRequest(
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
        lambda: json_response(explanations.dependence(predictor, owner, model_id, body.request()))
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
    rows: Rows | None = Field(
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
    f: Annotated[
        bool, Query(description="Also return the regression function at up to 200 training rows.")
    ] = False,
    draws: Annotated[
        int | None, Query(ge=1, description="Number of draws per chain, from the first; default: all.")
    ] = None,
) -> Response:
    """Return the posterior draws, one row each, chain by chain.

    For ArviZ: `table = pyarrow.ipc.open_stream(body).read_all()`, then `arviz_base.from_dict({"posterior":
    {"sigma": table["sigma"].to_numpy().reshape(chains, draws)}})`, and likewise `f`, flattened, as
    `reshape(chains, draws, -1)`. The schema's metadata (`bartserve`) gives the numbers.
    """

    def work() -> Response:
        table = explanations.export(predictor, owner, model_id, f=f, draws=draws)
        return Response(to_arrow(table), media_type=ARROW)

    return await gate.run(work)
