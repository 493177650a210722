"""Importance of features and interactions of pairs."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from app.services.errors import Fault, InvalidRequestError, TooLargeError
from app.services.explanations.guard import (
    FEWEST_DRAWS,
    ExplainedModel,
    OutcomeQuestion,
    affordable,
)
from app.services.explanations.partial_dependence import OF, ModelPart
from app.services.predictions.rows import Columns
from app.services.views import lines_of, of_document, schema_of
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import Model
from sampler.host.posteriors import (
    H_COLUMNS,
    H_ROWS,
    Inclusion,
    Interactions,
    Loss,
    PermutationImportance,
    Slope,
    interactions_work,
    usage_work,
)

MOST_FEATURES = 12  # with more features, pairs are not compared: these take about a second of a core


FEATURE = "name=names mean lower upper"
PERMUTATION = schema_of(
    PermutationImportance,
    "PermutationView",
    "loss baseline level rows draws=draws permutations units? features",
    features=lines_of(
        PermutationImportance,
        "FeatureView",
        FEATURE,
        "A feature's importance, with its interval.",
        "The largest increase first. Features with the same information share it.",
    ),
)
SLOPE = schema_of(Slope, "SlopeView", "of_class? feature level missing mean sd lower upper scale")
OfPermutation = Annotated[
    PERMUTATION | None,  # type: ignore[valid-type]
    Field(description="Null for a model without held-out rows: fit with `holdout`."),
]
OfLine = Annotated[
    list[SLOPE] | None,  # type: ignore[valid-type]
    Field(
        description="Slopes of the linear part beside the trees, null without one. They are not effects: "
        "trees take any share of the same signal."
    ),
]


class ImportanceQuery(OutcomeQuestion):
    """A question about the importance of features."""

    view: ClassVar = schema_of(
        Inclusion,
        "ImportanceView",
        "outcome model_id draws level permutation features draws_without_rules linear",
        "Permutation importance on held-out rows, and inclusion proportions, whose means sum to one.",
        permutation=OfPermutation,
        features=lines_of(
            Inclusion,
            "FeatureView",
            FEATURE,
            "A feature's importance, with its interval.",
            "Shares of the split rules, or of the rows at them, the largest first.",
        ),
        linear=OfLine,
    )

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
        default=None,
        description="The loss that `permutation` is about; default: rmse where the outcome is a number.",
    )

    def answer(self, model: ExplainedModel) -> Inclusion:
        """Return each feature's share of the split rules. Raises TooLargeError, by rows."""
        posterior, rows = model.posterior, model.num_rows
        work = partial(usage_work, posterior.law, model.all_draws)
        if self.by == "rows" and affordable(work, rows) < rows:
            raise TooLargeError(
                "To count rules by rows is more work than one request may take: leave by out."
            )
        return posterior.inclusion(self.level, self.of, self.by)

    def facts(self, model: ExplainedModel, answer: Inclusion) -> Mapping[str, Any]:
        """Return what each feature does for held-out rows, and linear slopes, too.

        ``permutation`` is the increase of a loss on the held-out rows (`worker.fits.scoring`); None for
        a model without them, or finished by an earlier version.
        """
        own = {"permutation": self._permutation(model), "linear": model.posterior.linear_part(self.level)}
        return {**super().facts(model, answer), **own}

    def _permutation(self, model: ExplainedModel) -> Any:
        with session_scope(model.predictor.engine, read_only=True) as session:
            stored = session.get_one(Model, model.head.id)
            held_out = store.of_outcome(stored, store.held_out(session, stored.id), model.predictor.outcome)
            by_loss = (held_out or {}).get("importance") or []
        if not by_loss:
            return None
        by_loss = sorted(
            by_loss, key=lambda each: each["loss"] != "rmse"
        )  # an earlier version had others first
        ranked = next((each for each in by_loss if self.loss in {None, each["loss"]}), None)
        if ranked is None:
            named = " or ".join(each["loss"] for each in by_loss)
            raise InvalidRequestError(errors=[Fault("loss", None, f"this model's importance is by {named}")])
        return of_document(PERMUTATION, ranked)


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
