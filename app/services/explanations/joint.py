"""Predictions of several outcomes of rows together, or of some given the others."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from app.services.errors import Fault, InvalidRequestError
from app.services.explanations.guard import ExplainedModel, Question, check_finite
from app.services.request_bodies import ColumnsInBody, RowsInBody, Share, StrictBody
from sampler.host.posteriors import joint_work
from sampler.host.settings import MAX_OUTCOMES

ByOutcome = list[list[float]]  # [row][outcome]


@dataclass(frozen=True, kw_only=True)
class JointView:
    """Predictions of several outcomes of rows; figures are [row][outcome]. A known outcome has no spread.

    Those of two classes are about the probability of the second, 0 or 1 where the class is known.
    """

    model_id: str
    outcomes: list[str]
    classes: Annotated[
        list[list[str]], Field(description="Of each outcome its two classes; none of numbers.")
    ]
    level: float
    mean: ByOutcome
    sd: Annotated[ByOutcome, Field(description="Of new outcomes; of probabilities over draws.")]
    lower: Annotated[
        ByOutcome,
        Field(description="Lower ends of each outcome's own predictive interval, of a probability credible."),
    ]
    upper: Annotated[ByOutcome, Field(description="Upper ends of these.")]
    simultaneous_lower: Annotated[
        ByOutcome, Field(description="Lower ends of intervals that hold all numbers of a row at once.")
    ]
    simultaneous_upper: Annotated[ByOutcome, Field(description="Upper ends of these.")]
    covariance: Annotated[
        list[ByOutcome], Field(description="Of new outcomes, [row][outcome][outcome]; 0 of known ones.")
    ]
    radius: Annotated[
        list[float],
        Field(
            description="By row: the numbers y that aren't known are in the region "
            "(y - mean)' covariance^-1 (y - mean) <= radius^2 with probability `level`."
        ),
    ]
    effective_draws: Annotated[
        list[float],
        Field(description="How many draws count, by how well they predict known outcomes."),
    ]
    warnings: Annotated[list[str], Field(description="Warnings about the rows.")]


class JointBody(StrictBody, Question):
    """A request for predictions of several outcomes."""

    needs_rows: ClassVar[bool] = True

    rows: RowsInBody | None = Field(default=None, description="The rows, as in predict, without weights.")
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )
    given: Annotated[list[str], Field(max_length=MAX_OUTCOMES)] | None = Field(
        default=None,
        description="Outcomes that are known: the rows have their values, missing where unknown.",
    )
    level: Share = Field(default=0.9, description="The probability of intervals and regions.")

    def answer(self, model: ExplainedModel) -> JointView:
        """Return the predictions of the rows; raises InvalidRequestError for a model of one outcome."""
        several = model.posterior.several
        if several is None:
            message = "the model has one outcome: ask predict, or fit with a list of targets"
            raise InvalidRequestError(errors=[Fault("target", None, message, "not_applicable")])
        law, size = model.posterior.law, len(several.outcomes)
        sent = model.rows or {}
        cells = ([value is not None for value in sent[name]] for name in self.given or () if name in sent)
        known = [*zip(*cells, strict=False)]
        work = partial(
            joint_work,
            law,
            model.all_draws,
            outcomes=size,
            given=bool(self.given),
            unknown=size - sum(map(sum, known)) / max(1, len(known)),
            patterns=len({*known}),
        )
        model.check_work(work, "Joint predictions")
        found = several.predict(model.rows, self.level, given=self.given)
        names = (
            "mean", "sd", "lower", "upper", "simultaneous_lower", "simultaneous_upper", "covariance",
            "radius", "effective_draws",
        )  # fmt: skip
        figures = {name: getattr(found, name) for name in names}
        check_finite(*figures.values())
        return JointView(
            model_id=model.head.id,
            outcomes=list(found.outcomes),
            classes=[list(names) for names in found.classes],
            level=self.level,
            warnings=found.warnings,
            **{name: values.tolist() for name, values in figures.items()},
        )
