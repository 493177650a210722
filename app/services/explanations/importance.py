"""Importance of features and interactions of pairs."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from app.services.errors import Fault, InvalidRequestError, TooLargeError
from app.services.explanations.guard import (
    FEWEST_DRAWS,
    ExplainedModel,
    OutcomeQuestion,
    OutcomeView,
    affordable,
)
from app.services.explanations.partial_dependence import OF, ModelPart
from app.services.predictions.rows import Columns
from app.services.views import DrawsPerChain, lines_of, of_document, schema_of
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import Model
from sampler.host.posteriors import H_COLUMNS, H_ROWS, Interactions, Loss, interactions_work, usage_work

MOST_FEATURES = 12  # with more features, pairs are not compared: these take about a second of a core


@dataclass(frozen=True)
class FeatureView:
    """A feature's importance, with its interval."""

    name: str
    mean: float
    lower: float
    upper: float


class SlopeView(TypedDict):
    """Slope of one term of a linear part, on the column's own scale."""

    of_class: NotRequired[
        Annotated[
            str | None,
            Field(
                default=None,
                description="Of classes, the class whose log odds it is of, relative to the mean of all "
                "classes.",
            ),
        ]
    ]
    feature: str
    level: Annotated[
        str | None, Field(description="The level that the term is for; null but for categories.")
    ]
    missing: Annotated[bool, Field(description="Whether the term is for missing values.")]
    mean: float
    sd: float
    lower: float
    upper: float
    scale: Annotated[
        str, Field(description="Scale of the slope, in words: the target's, or its transform's.")
    ]


@dataclass(frozen=True, kw_only=True)
class PermutationView:
    """Increase of the loss on held-out rows when one feature at a time is shuffled."""

    loss: Annotated[
        Loss,
        Field(
            description="`rmse`: root mean square error of a draw's mean outcome, in units of the target. "
            "`log_loss`: mean of minus the log density (of classes and counts: log probability) that a draw "
            "gives the outcomes."
        ),
    ]
    baseline: Annotated[float | None, Field(description="The mean loss of the draws with nothing shuffled.")]
    level: Annotated[
        float, Field(description="The level of the intervals, which are over draws and permutations.")
    ]
    rows: Annotated[int, Field(description="Number of held-out rows used, at most 1,000.")]
    draws: Annotated[int, Field(description="Number of draws used, of all chains together.")]
    permutations: int
    units: Annotated[
        int | None,
        Field(
            description="Groups of these rows, where new rows are declared to be of other ones: a feature "
            "with one value in each is shuffled between groups. Null where rows count."
        ),
    ] = None
    features: Annotated[
        list[FeatureView],
        Field(description="The largest increase first. Features with the same information share it."),
    ]


@dataclass(frozen=True, kw_only=True)
class ImportanceView(OutcomeView):
    """Permutation importance on held-out rows, and inclusion proportions, whose means sum to one."""

    model_id: str
    draws: DrawsPerChain
    level: Annotated[float, Field(description="The level of the intervals of the shares and slopes.")]
    permutation: Annotated[
        PermutationView | None,
        Field(description="Null for a model without held-out rows: fit with `holdout`."),
    ]
    features: Annotated[
        list[FeatureView],
        Field(description="Shares of the split rules, or of the rows at them, the largest first."),
    ]
    draws_without_rules: Annotated[
        int, Field(description="Draws without any split rule, which are excluded.")
    ]
    linear: Annotated[
        list[SlopeView] | None,
        Field(
            description="Slopes of the linear part beside the trees, null without one. They are not effects: "
            "trees take any share of the same signal."
        ),
    ]


class ImportanceQuery(OutcomeQuestion):
    """A question about the importance of features."""

    view: ClassVar = ImportanceView

    level: float = Field(
        default=0.9, gt=0, lt=1, description="The level of the intervals of shares and slopes."
    )
    of: ModelPart = Field(default="mean", description=f"What the shares are of. {OF}")
    by: Literal["rules", "rows"] = Field(
        default="rules",
        description="Whether each rule counts once, or once for each of up to 200 training rows that reach "
        "it, so that the first rules of trees weigh more.",
    )
    loss: Loss | None = Field(
        default=None, description="The loss that `permutation` is about; default: the model's usual one."
    )

    def answer(self, model: ExplainedModel) -> ImportanceView:
        """Return what each feature does for held-out rows, its share of the split rules, and linear slopes.

        ``permutation`` is the increase of a loss on the held-out rows (`worker.fits.scoring`); None for
        a model without them, or finished by an earlier version. Raises TooLargeError, by rows.
        """
        posterior, rows = model.posterior, model.num_rows
        work = partial(usage_work, posterior.law, model.all_draws)
        if self.by == "rows" and affordable(work, rows) < rows:
            raise TooLargeError(
                "To count rules by rows is more work than one request may take: leave by out."
            )
        shares = posterior.inclusion(self.level, self.of, self.by)
        columns = (shares.names, shares.mean.tolist(), shares.lower.tolist(), shares.upper.tolist())
        slopes: Any = posterior.linear_part(self.level)
        features = [FeatureView(*each) for each in zip(*columns, strict=True)]
        return ImportanceView(
            model_id=model.head.id,
            draws=posterior.num_draws,
            level=self.level,
            permutation=self._permutation(model),
            features=sorted(features, key=lambda feature: -feature.mean),
            draws_without_rules=shares.draws_without_rules,
            linear=slopes,
        )

    def _permutation(self, model: ExplainedModel) -> PermutationView | None:
        with session_scope(model.predictor.engine, read_only=True) as session:
            stored = session.get_one(Model, model.head.id)
            held_out = store.of_outcome(stored, store.held_out(session, stored.id), model.predictor.outcome)
            by_loss = (held_out or {}).get("importance") or []
        if not by_loss:
            return None
        ranked = next((each for each in by_loss if self.loss in {None, each["loss"]}), None)
        if ranked is None:
            named = " or ".join(each["loss"] for each in by_loss)
            raise InvalidRequestError(errors=[Fault("loss", None, f"this model's importance is by {named}")])
        return of_document(PermutationView, ranked)


PAIRS = lines_of(
    Interactions,
    "PairView",
    "features=pairs strength strength_lower strength_upper h h_lower h_upper inclusion inclusion_lower "
    "inclusion_upper expected",
    "Interaction of two features.",
)


class InteractionsQuery(OutcomeQuestion):
    """A question about pairs of features."""

    view: ClassVar = schema_of(
        Interactions,
        "InteractionsView",
        "outcome model_id level draws=draws scale pairs",
        pairs=PAIRS,
    )

    feature: list[str] | None = Field(
        default=None, description="At least two features, repeated; default: the ten that most rules use."
    )
    level: float = Field(default=0.9, gt=0, lt=1, description="Probability of the intervals.")

    def sent_rows(self, max_rows: int) -> Columns | None:
        """Check the number of features; raises TooLargeError."""
        if len(self.feature or ()) > MOST_FEATURES:
            raise TooLargeError(f"Interactions are of at most {MOST_FEATURES} features at once.")
        return super().sent_rows(max_rows)

    def answer(self, model: ExplainedModel) -> Interactions:
        """Return the interactions of each two features, by all draws or as many as are affordable."""
        posterior, names = model.posterior, self.feature
        many = len(names) if names is not None else min(H_COLUMNS, len(posterior.schema.columns))
        draws = affordable(
            lambda draws: interactions_work(posterior.law, draws, many, H_ROWS), model.all_draws
        )
        return posterior.interactions(names, level=self.level, max_draws=max(draws, FEWEST_DRAWS))
