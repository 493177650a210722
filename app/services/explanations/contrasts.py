"""Contrasts: how predictions differ between two settings of features, by row and on average."""

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from app.services.explanations.guard import Explained, ExplainedModel, OutcomeQuestion, check_finite
from app.services.request_bodies import ColumnsInBody, FirstDraws, RowsInBody, Share, StrictBody
from app.services.views import schema_of
from sampler.host.posteriors import Contrast, ContrastEstimate, contrast_work

Values = Annotated[dict[str, float | str | bool | None], Field(min_length=1, fail_fast=True)]
schema_of(ContrastEstimate, "AverageView", "mean lower upper rows")

ExplainedContrast = Explained[Contrast]


class ContrastBody(StrictBody, OutcomeQuestion):
    """A request for a contrast."""

    view: ClassVar = schema_of(
        Contrast,
        "ContrastView",
        "outcome model_id draws level difference classes average population treated groups mean lower upper "
        "unlike_first unlike_second warnings",
    )

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

    def answer(self, model: ExplainedModel) -> Contrast:
        """Return how predictions differ between the two settings."""
        posterior, draws = model.posterior, model.draws(self.draws)
        work = partial(contrast_work, posterior.law, draws * posterior.num_chains)
        model.check_work(work, "Contrasts")
        answer = posterior.contrast(
            model.rows, self.first, self.second, by=self.by, level=self.level, num_draws=self.draws
        )
        check_finite(answer.mean, answer.lower, answer.upper)
        return answer
