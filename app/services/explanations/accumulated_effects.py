"""Accumulated local effects of a feature: how predictions change with it among rows like the data's."""

from functools import partial
from typing import ClassVar

from pydantic import Field

from app.services.explanations.guard import Explained, ExplainedModel, OutcomeQuestion, check_finite
from app.services.request_bodies import (
    ColumnsInBody,
    FirstDraws,
    Levels,
    RowsInBody,
    StrictBody,
    levels_of,
)
from app.services.views import schema_of
from sampler.host.posteriors import AccumulatedEffects, accumulation_work

ExplainedAccumulation = Explained[AccumulatedEffects]


class AccumulationBody(StrictBody, OutcomeQuestion):
    """A request for accumulated effects."""

    view: ClassVar = schema_of(
        AccumulatedEffects,
        "AccumulationView",
        "outcome model_id draws classes feature grid rows mean intervals",
    )

    feature: str = Field(description="A feature of numbers or dates.")
    level: Levels = 0.9
    draws: FirstDraws = None
    rows: RowsInBody | None = Field(
        default=None,
        description="Rows, as in predict, without weights; defaults to up to 200 training rows.",
    )
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )

    def answer(self, model: ExplainedModel) -> AccumulatedEffects:
        """Return the effects with intervals."""
        posterior, draws = model.posterior, model.draws(self.draws)
        work = partial(accumulation_work, posterior.law, draws * posterior.num_chains)
        model.check_work(work, "Accumulated effects")
        levels = levels_of(self.level)
        effects = posterior.accumulated_effects(self.feature, model.rows, levels, num_draws=self.draws)
        check_finite(effects.mean, *(part for each in effects.intervals for part in each))
        return effects
