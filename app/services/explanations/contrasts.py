"""Contrasts: how predictions differ between two settings of features, by row and on average."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from app.services.explanations.guard import ExplainedModel, OutcomeQuestion, OutcomeView, check_finite
from app.services.request_bodies import ColumnsInBody, FirstDraws, RowsInBody, Share, StrictBody
from app.services.views import ClassesOfF, DrawsPerChain, filled
from sampler.host.posteriors import contrast_work

Values = Annotated[dict[str, float | str | bool | None], Field(min_length=1, fail_fast=True)]
Numbers = list[float] | list[list[float]]


@dataclass(frozen=True, kw_only=True)
class AverageView:
    """An average contrast with its interval; lists, one number for each class, with more than two classes."""

    mean: float | list[float]
    lower: float | list[float]
    upper: float | list[float]
    rows: Annotated[int, Field(description="Number of rows averaged over.")]


@dataclass(frozen=True, kw_only=True)
class ContrastView(OutcomeView):
    """Differences of the regression function between two settings, first less second.

    They say how predictions differ; whether they are effects of changing the features depends on assumptions
    that no data can show.
    """

    model_id: str
    draws: DrawsPerChain
    level: float
    difference: Annotated[str, Field(description="In words, what is subtracted from what.")]
    classes: ClassesOfF
    average: Annotated[AverageView, Field(description="Over these rows, which its interval takes as given.")]
    population: Annotated[
        AverageView,
        Field(description="Over the population the rows are a sample of; by the Bayesian bootstrap."),
    ]
    treated: Annotated[
        AverageView | None,
        Field(description="Over the rows that have the first setting already; null if there are none."),
    ]
    groups: Annotated[
        dict[str, AverageView], Field(description="Over the rows of each level or quarter of `by`.")
    ]
    mean: Annotated[Numbers, Field(description="By row, [row] or [row][class].")]
    lower: Numbers
    upper: Numbers
    unlike_first: Annotated[
        list[bool],
        Field(description="For each row, whether no training row near the first setting resembles it."),
    ]
    unlike_second: list[bool]
    warnings: list[str]


class ContrastBody(StrictBody, OutcomeQuestion):
    """A request for a contrast."""

    first: Values = Field(description="The first setting: values by feature.")
    second: Values = Field(description="The second setting, of the same features; it is subtracted.")
    by: str | None = Field(
        default=None, description="A feature by whose levels, or quarters, averages are given too."
    )
    level: Share = Field(default=0.9, description="The probability an interval holds.")
    draws: FirstDraws = None
    rows: RowsInBody | None = Field(
        default=None,
        description="Rows whose other features stay as they are; defaults to up to 200 training rows, evenly "
        "spaced.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )

    def answer(self, model: ExplainedModel) -> ContrastView:
        """Return how predictions differ between the two settings."""
        posterior, draws = model.posterior, model.draws(self.draws)
        work = partial(contrast_work, posterior.law, draws * posterior.num_chains)
        model.check_work(work, "Contrasts")
        answer = posterior.contrast(
            model.rows, self.first, self.second, by=self.by, level=self.level, num_draws=self.draws
        )
        check_finite(answer.mean, answer.lower, answer.upper)
        return filled(
            ContrastView,
            answer,
            model_id=model.head.id,
            draws=draws,
            classes=model.classes,
            average=filled(AverageView, answer.average),
            population=filled(AverageView, answer.population),
            treated=answer.treated and filled(AverageView, answer.treated),
            groups={name: filled(AverageView, each) for name, each in answer.groups.items() if each.rows},
            unlike_first=answer.unlike[0].tolist(),
            unlike_second=answer.unlike[1].tolist(),
        )
