"""Predictions of several outcomes of rows together, or of some given the others."""

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from app.services.errors import Fault, InvalidRequestError
from app.services.explanations.guard import ExplainedModel, Question, check_finite
from app.services.request_bodies import ColumnsInBody, RowsInBody, Share, StrictBody
from app.services.views import schema_of
from sampler.host.posteriors import SeveralPrediction, joint_work
from sampler.host.settings import MAX_OUTCOMES


class JointBody(StrictBody, Question):
    """A request for predictions of several outcomes."""

    needs_rows: ClassVar[bool] = True
    view: ClassVar = schema_of(
        SeveralPrediction,
        "JointView",
        "model_id outcomes classes=classes level mean sd lower upper simultaneous_lower simultaneous_upper "
        "covariance radius effective_draws warnings",
    )

    rows: RowsInBody | None = Field(default=None, description="The rows, as in predict, without weights.")
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )
    given: Annotated[list[str], Field(max_length=MAX_OUTCOMES)] | None = Field(
        default=None,
        description="Outcomes that are known: the rows have their values, missing where unknown.",
    )
    level: Share = Field(default=0.9, description="The probability of intervals and regions.")

    def answer(self, model: ExplainedModel) -> SeveralPrediction:
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
        found: SeveralPrediction = several.predict(model.rows, self.level, given=self.given)
        check_finite(
            found.mean, found.sd, found.lower, found.upper, found.simultaneous_lower,
            found.simultaneous_upper, found.covariance, found.radius, found.effective_draws,
        )  # fmt: skip
        return found
