"""Totals, means and quantiles of sets of rows, with intervals of their own."""

from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, ClassVar, Literal

from pydantic import Field

from app.services.explanations.guard import (
    ExplainedModel,
    OutcomeQuestion,
    OutcomeView,
    check_finite,
    check_succeeded,
)
from app.services.predictions.file_rows import read_rows
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.services.predictions.row_reading import RowReading
from app.services.predictions.totals import FiguresOfSets
from app.services.readers.options import Options
from app.services.request_bodies import ColumnsInBody, FirstDraws, RowsInBody
from app.services.views import ClassesOfF, DrawsPerChain, of_document
from sampler.host.posteriors import aggregate_work

OfSet = float | list[float]


@dataclass(frozen=True, kw_only=True)
class SetOfRowsView:
    """The figure of a set with its interval; lists, one number for each class, with more than two classes."""

    set: Annotated[
        dict[str, str | None], Field(description="The set's values of the columns in `by`, as text.")
    ]
    mean: OfSet
    lower: Annotated[OfSet | None, Field(description="Null where calibrated intervals have no finite end.")]
    upper: OfSet | None
    rows: int
    observed_rows: Annotated[int, Field(description="Those of the rows whose outcomes are known.")]
    new_groups: Annotated[int, Field(description="Groups that the model has not seen.")]


@dataclass(frozen=True, kw_only=True)
class AggregateView(OutcomeView):
    """Figures of sets of rows, of the rows' joint law: ends of the rows' intervals don't add up to them."""

    model_id: str
    draws: DrawsPerChain
    figure: Annotated[str, Field(description="In words, what the figure is.")]
    level: float
    interval: Literal["predictive", "credible", "calibrated"]
    classes: ClassesOfF
    sets: list[SetOfRowsView]
    claim: Annotated[str | None, Field(description="What calibrated intervals hold; null of others.")]
    warnings: list[str]


class AggregateBody(FiguresOfSets, OutcomeQuestion):
    """A request for totals, means or quantiles of sets of rows."""

    needs_rows: ClassVar[bool] = True
    view: ClassVar = AggregateView

    rows: RowsInBody | None = Field(default=None, description="The rows, as in predict, without weights.")
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )
    weights: Annotated[list[float], Field(fail_fast=True)] | None = Field(
        default=None, description="Positive factors by which the rows' outcomes count, such as areas."
    )
    observed: Annotated[list[float | None], Field(fail_fast=True)] | None = Field(
        default=None, description="Outcomes of the rows, null where not known: known ones count as they are."
    )
    draws: FirstDraws = None

    def answer(self, model: ExplainedModel) -> AggregateView:
        """Return the figures of the sets of rows."""
        posterior, draws = model.posterior, model.draws(self.draws)
        request, weighted = self.checked(), self.weights is not None
        all_draws = draws * posterior.num_chains
        sent = model.rows or {}
        named = [map(str, sent[name]) for name in request.by if name in sent]
        sets = len({*zip(*named, strict=False)}) if named else None
        model.check_work(
            lambda rows: aggregate_work(
                posterior.law, all_draws, request, rows, weighted=weighted, sets=sets
            ),
            "Totals",
        )
        answer = self.of_rows(
            posterior, model.rows, weights=self.weights, observed=self.observed, num_draws=self.draws
        )
        check_finite(answer.mean, *([] if answer.claim else [answer.lower, answer.upper]))
        document = answer.to_json() | {"classes": model.classes}
        return of_document(AggregateView, document | {"model_id": model.head.id, "draws": draws})


def aggregate_file(
    predictor: Predictor, owner: str, model: str, file: tuple[BinaryIO, Options], body: AggregateBody
) -> AggregateView:
    """Return the figures of sets of the rows of a file, with options for reading it; raises as `explain`."""
    head, posterior, present = predictor.lookup(owner, model)
    check_succeeded(head)
    table = read_rows(file[0], RowReading.of(posterior, file[1]), predictor.max_rows).rows
    by = [body.by] if isinstance(body.by, str) else body.by or []
    known = {*by, *(column.name for column in posterior.schema.inputs)}
    columns: Any = {name: table.column(name) for name in table.column_names if name in known}
    with translating_sampler_errors():
        return body.answer(ExplainedModel(predictor, head, posterior, present, columns))
