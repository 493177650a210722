"""Accumulated local effects of a feature: how predictions change with it among rows like the data's."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from app.services.explanations.guard import ExplainedModel, OutcomeQuestion, OutcomeView, check_finite
from app.services.explanations.partial_dependence import Curve, CurveInterval, Surface
from app.services.request_bodies import (
    ColumnsInBody,
    FirstDraws,
    Levels,
    RowsInBody,
    StrictBody,
    levels_of,
)
from app.services.views import ClassesOfF, DrawsPerChain, filled
from sampler.host.posteriors import accumulation_work


@dataclass(frozen=True, kw_only=True)
class AccumulationView(OutcomeView):
    """Accumulated local effects by value, [value] or [value][class], with mean 0 over the rows."""

    model_id: str
    draws: DrawsPerChain
    classes: ClassesOfF
    feature: str
    grid: Annotated[list[float | str], Field(description="Values of the feature; dates in ISO 8601.")]
    rows: Annotated[list[int], Field(description="Number of rows between each value and the next.")]
    mean: Curve | Surface
    intervals: list[CurveInterval]


class AccumulationBody(StrictBody, OutcomeQuestion):
    """A request for accumulated effects."""

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

    def answer(self, model: ExplainedModel) -> AccumulationView:
        """Return the effects with intervals."""
        posterior, draws = model.posterior, model.draws(self.draws)
        work = partial(accumulation_work, posterior.law, draws * posterior.num_chains)
        model.check_work(work, "Accumulated effects")
        levels = levels_of(self.level)
        effects = posterior.accumulated_effects(self.feature, model.rows, levels, num_draws=self.draws)
        check_finite(effects.mean, *(part for each in effects.intervals for part in each))
        return filled(
            AccumulationView,
            effects,
            model_id=model.head.id,
            draws=draws,
            classes=model.classes,
            intervals=[filled(CurveInterval, each) for each in effects.intervals],
        )
