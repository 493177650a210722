"""Explanations of fitted models over HTTP: each route takes a question, and one function answers all."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.services.access.keys import PREDICT, READ
from app.services.explanations import diagnostics
from app.services.explanations.accumulated_effects import AccumulationBody
from app.services.explanations.aggregates import AggregateBody
from app.services.explanations.comparison import ComparisonView, compare
from app.services.explanations.contrasts import ContrastBody
from app.services.explanations.convergence import GrowthQuery
from app.services.explanations.densities import DistributionBody
from app.services.explanations.diagnostics import DiagnosticsQuery, HeldOutView
from app.services.explanations.effects import EffectsBody
from app.services.explanations.groups import GroupsQuery
from app.services.explanations.guard import Question, explain
from app.services.explanations.importance import ImportanceQuery, InteractionsQuery
from app.services.explanations.joint import JointBody
from app.services.explanations.partial_dependence import DependenceBody
from app.services.explanations.shap_values import ShapBody
from app.services.explanations.survival import SurvivalBody
from app.services.predictions.answers import to_arrow
from app.web.dependencies import OutcomePredictor, Owner, Reading, TheGate, ThePredictor
from app.web.errors import responses
from app.web.json_body import StrictRoute
from app.web.json_pieces import written
from app.web.negotiation import ARROW
from app.web.scopes import KEY, MAX_JSON_BYTES, Endpoint, check_sees_kept_rows, needs

router = APIRouter(prefix="/models/{model_id}", route_class=StrictRoute)
AnswerQuestion = Callable[[Question], Awaitable[Response]]


async def answerer_of(
    model_id: str, predictor: ThePredictor, gate: TheGate, owner: Owner, request: Request
) -> AnswerQuestion:
    """Return the function that answers a question about a model as JSON, at a place for work.

    Without rows in it, a question is about rows that the service keeps: the answer shows their figures.
    """

    def answer(question: Question) -> Awaitable[Response]:
        if question.is_of_kept_rows:
            check_sees_kept_rows(request.scope[KEY])

        def work() -> Response:
            explained = explain(predictor, owner, model_id, question)
            return Response(written(explained.shown()), media_type="application/json")

        return gate.run(work)

    return answer


TheAnswer = Annotated[AnswerQuestion, Depends(answerer_of)]


def _asked(path: str, question: type[Question], *statuses: int) -> Callable[[Endpoint], Endpoint]:
    """Register a route that asks about a model: by GET, with query parameters."""
    documented = responses(409, *statuses)
    register = router.get(path, response_model=question.view, responses=documented, tags=["explanations"])
    return lambda endpoint: register(needs(READ)(endpoint))


def _asked_of_rows(
    path: str, question: type[Question], tag: str = "explanations"
) -> Callable[[Endpoint], Endpoint]:
    """Register a route that asks about a model and rows: by POST, with a body."""
    documented = responses(409, 413, 415)
    register = router.post(path, response_model=question.view, responses=documented, tags=[tag])
    return lambda endpoint: register(needs(PREDICT, body=MAX_JSON_BYTES)(endpoint))


@_asked("/diagnostics", DiagnosticsQuery)
async def get_diagnostics(query: Annotated[DiagnosticsQuery, Query()], answer: TheAnswer) -> Response:
    """Return the convergence verdict, R-hat, effective sample sizes, Monte Carlo errors, traces and moves."""
    return await answer(query)


@_asked("/groups", GroupsQuery)
async def get_groups(query: Annotated[GroupsQuery, Query()], answer: TheAnswer) -> Response:
    """Return the intercepts, and slopes, of a model's groups, with intervals over draws.

    A prediction adds the intercepts of a row's groups, and their slopes times the features, to the trees' f.
    The standard deviation says how much groups differ, and with it how far a new group may be from the mean
    of all.
    """
    return await answer(query)


@_asked("/variable-importance", ImportanceQuery, 413)
async def get_variable_importance(query: Annotated[ImportanceQuery, Query()], answer: TheAnswer) -> Response:
    """Return how much worse held-out rows are predicted when a feature is shuffled, and shares of the rules.

    `permutation` ranks the features: the increase of the loss on the model's held-out rows when one feature
    at a time is shuffled among them, with intervals over draws and permutations. The loss is `rmse` for
    numbers with normal noise of the same size everywhere, else `log_loss`; `loss` names another. `features`
    are the shares of the split rules; the indicators of a category are summed.
    """
    return await answer(query)


@_asked("/interactions", InteractionsQuery, 413, 422)
async def get_interactions(query: Annotated[InteractionsQuery, Query()], answer: TheAnswer) -> Response:
    """Return how strongly each two features act together, with intervals over draws."""
    return await answer(query)


@_asked_of_rows("/partial-dependence", DependenceBody)
async def compute_partial_dependence(body: DependenceBody, answer: TheAnswer) -> Response:
    """Return how predictions change with one to three features, averaged over the others, with intervals.

    The average is over the reference rows stored with the model, so the result is the same here, in a
    notebook, and wherever the model file goes; or over rows in the request.
    """
    return await answer(body)


@_asked_of_rows("/accumulated-effects", AccumulationBody)
async def compute_accumulated_effects(body: AccumulationBody, answer: TheAnswer) -> Response:
    """Return how predictions change with a feature among rows like the data's, with intervals.

    Unlike partial dependence it never sets the feature far from its value in a row, so that features that go
    together don't lead to rows which the data have nothing like.
    """
    return await answer(body)


@router.get(
    "/draws",
    tags=["explanations"],
    response_class=Response,
    responses={
        **responses(409, 413),
        200: {
            "description": "An Arrow stream with the columns chain, draw, sigma, log_likelihood and, on "
            "request, f (a list).",
            "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        },
    },
)
@needs(READ)
async def get_draws(
    model_id: str,
    predictor: OutcomePredictor,
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
        table = diagnostics.export(predictor, owner, model_id, f=f, draws=draws)
        return Response(to_arrow(table), media_type=ARROW)

    return await gate.run(work)


@_asked_of_rows("/shap", ShapBody)
async def compute_shap(body: ShapBody, answer: TheAnswer) -> Response:
    """Return how much each feature moves the prediction of each row, with intervals over draws.

    The values are exact on every draw; a row's values and the base add up to f at the row.
    """
    return await answer(body)


@_asked_of_rows("/survival", SurvivalBody, tag="predictions")
async def compute_survival(body: SurvivalBody, answer: TheAnswer) -> Response:
    """Return the survival curves of rows, with credible bands, medians and restricted means.

    The model must have been fitted with `event`, `lower` or `upper`.
    """
    return await answer(body)


@_asked_of_rows("/distribution", DistributionBody, tag="predictions")
async def compute_distribution(body: DistributionBody, answer: TheAnswer) -> Response:
    """Return the predictive distributions of rows: scores of known outcomes, probabilities and quantiles.

    Classes have none: predict gives their probabilities.
    """
    return await answer(body)


@_asked_of_rows("/joint", JointBody, tag="predictions")
async def predict_jointly(body: JointBody, answer: TheAnswer) -> Response:
    """Predict several outcomes of rows together: intervals for all at once, regions, some given the others.

    The model must have been fitted with a list of targets.
    """
    return await answer(body)


@_asked_of_rows("/aggregate", AggregateBody, tag="predictions")
async def compute_aggregate(body: AggregateBody, answer: TheAnswer) -> Response:
    """Return totals, means or quantiles of sets of rows, with intervals of their own.

    Rows share the regression function, and those of one new group its intercept, so the ends of their
    intervals must not be added up.
    """
    return await answer(body)


@_asked_of_rows("/contrast", ContrastBody)
async def compute_contrast(body: ContrastBody, answer: TheAnswer) -> Response:
    """Return how predictions differ between two settings of features, by row and on average."""
    return await answer(body)


@_asked_of_rows("/effects", EffectsBody)
async def compute_effects(body: EffectsBody, answer: TheAnswer) -> Response:
    """Return what a treatment adds to the outcome, of a model fitted with `treatment`.

    On average, in groups and for each row, with intervals; for whom it is larger; whether rows have
    comparable rows in the other arm; how far apart the arms are; how strong a hidden cause would have to be;
    and a sentence on what must hold for the figures to be effects.
    """
    return await answer(body)


@_asked("/diagnostics/growth", GrowthQuery)
async def get_diagnostics_growth(query: Annotated[GrowthQuery, Query()], answer: TheAnswer) -> Response:
    """Return R-hat and effective sample size of f, sigma and the log-likelihood by draws, also in a fit."""
    return await answer(query)


@router.get(
    "/comparison/{other_id}",
    response_model=ComparisonView,
    tags=["explanations"],
    responses=responses(409),
)
@needs(READ)
def get_comparison(model_id: str, session: Reading, owner: Owner, other_id: str) -> Any:
    """Compare two models of a dataset on the rows that both held out, with the errors of the differences.

    Fit both with the same `holdout` and `seed`: then they hold out the same rows.
    """
    return compare(session, owner, model_id, other_id)


@router.get("/holdout", tags=["explanations"], responses=responses(409))
@needs(READ)
def get_holdout(model_id: str, session: Reading, predictor: OutcomePredictor, owner: Owner) -> HeldOutView:
    """Return up to 500 held-out rows with predictions, and the calibration on up to 2,000 of them."""
    return diagnostics.held_out(session, owner, model_id, predictor.outcome)
