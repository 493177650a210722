"""Diagnostics of a fitted model, its held-out rows, topologies and draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NotRequired

import numpy as np
import pyarrow as pa
from pydantic import Field
from sqlalchemy.orm import Session
from typing_extensions import TypedDict

from app.services.errors import (
    Fault,
    InvalidRequestError,
    NotFoundError,
    TooLargeError,
)
from app.services.explanations.guard import ExplainedModel, OutcomeQuestion, classes_of, finished
from app.services.fits import models
from app.services.predictions.answers import with_facts
from app.services.predictions.posteriors import find
from app.services.predictions.predict_rows import Predictor
from app.services.views import of_document, schema_of
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import Json
from sampler.host.assessment import (
    MAX_POINTS,
    ChainMoves,
    Diagnosis,
    GroupFigures,
    OneFigures,
    Proposals,
    RowFigures,
    Spread,
    Traces,
    TreeShape,
    TreeSizes,
    diagnose,
)
from sampler.host.data import named_with
from sampler.host.posteriors import AGREEMENT_LIMITS as LIMITS
from sampler.host.posteriors import Precision, ReasonCode

MAX_CELLS = 10_000_000  # draws times rows in one export: 80 MB


def converged_rhat(chains: int) -> float:
    """Return the largest R-hat of f that counts as converged with that number of chains."""
    return LIMITS["converged"].of(chains).rhat


class ReasonView(TypedDict):
    """A reason for a verdict, for programs."""

    code: ReasonCode
    values: Annotated[
        dict[str, float | None], Field(description="The figures and limits behind the reason, by name.")
    ]


schema_of(
    Precision,
    "PrecisionView",
    "mean ends noise share? reproducibility error_share? another_fit? unit? means_usable text",
)
FIGURES = "mean sd rhat ess_bulk ess_tail mcse_mean reproducibility"
schema_of(OneFigures, "OneFigures", FIGURES)
schema_of(RowFigures, "RowFigures", f"rows {FIGURES}")
schema_of(GroupFigures, "GroupFigures", f"{FIGURES} column groups")
schema_of(Traces, "Traces", "draws=draws sigma log_likelihood")
schema_of(Proposals, "MoveView", "proposed accepted acceptance")
schema_of(ChainMoves, "ChainMoves", "chain moves")
schema_of(Spread, "Spread", "mean max share")
schema_of(TreeSizes, "TreesView", "leaves depth")
schema_of(TreeShape, "TopologyView", "topology probability")


ReasonCodes = Annotated[list[ReasonView], Field(description="The reasons as codes with their figures.")]


class DiagnosticsQuery(OutcomeQuestion):
    """A question about convergence."""

    view: ClassVar = schema_of(
        Diagnosis,
        "DiagnosticsView",
        "outcome model_id classes verdict reasons reason_codes advice precision chains draws sigma "
        "log_likelihood f traces moves trees topologies groups effects? num_trees?",
        reason_codes=ReasonCodes,
        classes=list[str] | None,
    )

    points: int = Field(default=MAX_POINTS, ge=2, le=MAX_POINTS, description="Points of a trace per chain.")

    def answer(self, model: ExplainedModel) -> Diagnosis:
        """Return the convergence diagnostics, with traces and acceptance counts."""
        with session_scope(model.predictor.engine, read_only=True) as session:
            chains = store.chains(session, [model.head.id])[model.head.id]
        statistics = [chain.statistics or {} for chain in chains]
        return diagnose(model.posterior.law, self.points, statistics)

    def facts(self, model: ExplainedModel, answer: Diagnosis) -> Mapping[str, Any]:
        """Return the codes of the reasons too, which are documents of the verdict."""
        return {**super().facts(model, answer), "reason_codes": answer.reason_codes}


class HeldOutRows(TypedDict):
    """Held-out rows, evenly spaced among all, one value each."""

    row: Annotated[list[int], Field(description="Row numbers in the dataset, from 1.")]
    actual: Annotated[list[float], Field(description="Outcomes; for classes their index, from 0.")]
    predicted: NotRequired[
        Annotated[
            list[int] | None,
            Field(
                default=None,
                description="The index of the most probable class for more than two classes; else null.",
            ),
        ]
    ]
    mean: Annotated[
        list[float | None],
        Field(
            description="For two classes the probability of the second, for more that of the row's own class."
        ),
    ]
    lower: list[float | None]
    upper: list[float | None]


class CalibrationView(TypedDict):
    """An observed frequency with its 95% binomial interval."""

    level: Annotated[
        float, Field(description="The nominal level of an interval, or the predicted probability.")
    ]
    observed: float
    lower: float
    upper: float
    rows: int
    up_to: NotRequired[
        Annotated[
            str, Field(description="Of ordered classes: the probability is of this one or a lower one.")
        ]
    ]


@dataclass(frozen=True, kw_only=True)
class HeldOutView:
    """Predictions of held-out rows."""

    model_id: str
    target: Annotated[str, Field(description="The outcome.")]
    interval: Literal["credible", "predictive"]
    level: Annotated[
        float,
        Field(description="The level of the intervals, which are for outcomes with the rows' own weights."),
    ]
    classes: Annotated[
        list[str] | None, Field(description="The classes; last those that no training row has.")
    ]
    rows: HeldOutRows
    calibration: Annotated[
        list[CalibrationView],
        Field(
            description="For numbers: coverage of predictive intervals by level, with the rows' own weights, "
            "randomised where values have a probability. For two classes: by bins of the probability; for "
            "more: accuracy of the most probable class, by bins of its probability; for ordered "
            "ones: of each class or a lower one, by bins of that probability."
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class HeldOut(HeldOutView):
    """Predictions of held-out rows with what charts show besides: scores, and transforms of numbers."""

    scores: Json
    pit: list[float] | None = None  # of up to 2,000 rows of numbers, and their predictions
    predicted: list[float] | None = None


def held_out(session: Session, owner: str, model: str, outcome: str | None = None) -> HeldOut:
    """Return the held-out rows of a model with their predictions, of the first outcome or another.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`; or the model has no holdout.
    """
    stored = find(session, owner, model)
    models.check_outcome(stored, outcome)
    rows = store.of_outcome(stored, store.held_out(session, stored.id), outcome)
    if rows is None:
        raise NotFoundError("The model has no holdout, or was fitted before held-out rows were stored.")
    scores = store.of_outcome(stored, stored.holdout, outcome) or {}
    own = {"model_id": stored.id, "target": outcome or stored.target, "scores": scores}
    return of_document(HeldOut, rows | own)


def held_out_by(predictor: Predictor, owner: str, model: str) -> HeldOut:
    """Return `held_out` in a transaction of its own."""
    with session_scope(predictor.engine, read_only=True) as session:
        return held_out(session, owner, model, predictor.outcome)


def topologies(predictor: Predictor, owner: str, model: str) -> list[Json] | None:
    """Return the topologies of a model's tree, the most probable first, or None when it has none."""
    with session_scope(predictor.engine, read_only=True) as session:
        probabilities: list[Json] | None = (find(session, owner, model).diagnostics or {}).get("topologies")
        return probabilities


def unit_of(predictor: Predictor, owner: str, model: str, name: str | None = None) -> str | None:
    """Return the unit of a column, without a name of the target; None for none, and for classes."""
    _, posterior, _ = predictor.lookup(owner, model)
    return posterior.unit if name is None else posterior.header.units.get(name)


def target_of(predictor: Predictor, owner: str, model: str) -> str:
    """Return the name of a model's target with its unit: "rent (EUR)"."""
    _, posterior, _ = predictor.lookup(owner, model)
    return named_with(posterior.schema.target.name, posterior.unit)


def export(predictor: Predictor, owner: str, model: str, *, f: bool, draws: int | None) -> pa.Table:
    """Return the draws as columns: `chain`, `draw`, scalars, and `f` at the reference rows.

    Scalars are `sigma` (not for classes) and the `log_likelihood` of the reference rows where it is known.
    There is one row per draw, chain by chain, so columns have the shape [chain, draw], and `f` [chain, draw,
    row].

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, TooLargeError
        The model has fewer draws, or the response would be too large.
    """
    head, posterior = finished(predictor, owner, model)
    used = posterior.num_draws if draws is None else draws
    reference = posterior.reference
    classes = classes_of(posterior)
    figures = reference.num_rows * (len(classes) if classes and len(classes) > 2 else 1)
    if f and posterior.num_chains * used * figures > MAX_CELLS:
        raise TooLargeError("These draws of f are too many for one response: ask for fewer draws.")
    if not 1 <= used <= posterior.num_draws:
        message = f"draws must be from 1 to {posterior.num_draws}, not {used}"
        raise InvalidRequestError(errors=[Fault("draws", None, message)])
    chain, draw = np.indices((posterior.num_chains, used)).reshape(2, -1)
    named: dict[str, pa.Array] = {"chain": pa.array(chain), "draw": pa.array(draw)}
    for name, values in posterior.law.scalars(used).items():
        named[name] = pa.array(np.ascontiguousarray(values).reshape(-1))
    if f:
        sampled = posterior.sample(reference, used).reshape(len(chain), -1)
        named["f"] = pa.FixedSizeListArray.from_arrays(pa.array(sampled.reshape(-1)), sampled.shape[1])
    facts = {
        "model_id": head.id,
        "outcome": posterior.schema.target.name,
        "chains": posterior.num_chains,
        "draws": used,
        "classes": classes,
        "verdict": predictor.verdict(head, posterior, used),
    }
    return with_facts(pa.table(named), facts)
