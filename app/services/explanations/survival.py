"""Survival curves of rows: the probability that an outcome exceeds each of some times, with bands."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from app.services.errors import TooLargeError
from app.services.explanations.guard import ExplainedModel, Question, check_finite
from app.services.request_bodies import ColumnsInBody, RowsInBody, Share, StrictBody
from app.services.views import filled
from sampler.host.posteriors import MOST_TIMES, check_times, survival_work

MAX_CELLS = 300_000  # rows times times


@dataclass(frozen=True, kw_only=True)
class FigureView:
    """A figure of each row, with its credible interval."""

    value: list[float]
    lower: list[float]
    upper: list[float]


@dataclass(frozen=True, kw_only=True)
class SurvivalView:
    """Survival curves by row, of outcomes that nothing censors."""

    model_id: str
    level: float
    times: list[float]
    survival: Annotated[
        list[list[float]],
        Field(description="Probabilities that the outcome is above each time, [row][time]."),
    ]
    lower: Annotated[list[list[float]], Field(description="Lower ends of their credible intervals.")]
    upper: Annotated[list[list[float]], Field(description="Upper ends of their credible intervals.")]
    median: Annotated[FigureView, Field(description="The time that half of such rows' outcomes exceed.")]
    restricted_mean: Annotated[
        FigureView,
        Field(description="The expected value of the outcome, or of the last time where that is less."),
    ]
    warnings: Annotated[list[str], Field(description="Warnings about the rows.")]


class SurvivalBody(StrictBody, Question):
    """A request for survival curves."""

    needs_rows: ClassVar[bool] = True

    rows: RowsInBody | None = Field(default=None, description="The rows, as in predict, without weights.")
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )
    times: Annotated[list[float], Field(min_length=1, max_length=MOST_TIMES)] | None = Field(
        default=None,
        description="Increasing times, or values of a target with limits; defaults to 50 that divide the "
        "range of the training outcomes evenly.",
    )
    level: Share = Field(default=0.9, description="The probability a credible interval holds.")

    def answer(self, model: ExplainedModel) -> SurvivalView:
        """Return the survival curves of the rows."""
        law, count = model.posterior.law, model.num_rows
        times = check_times(law, self.times)
        model.check_work(partial(survival_work, law, model.all_draws, times=len(times)), "Survival curves")
        if count * len(times) > MAX_CELLS:
            raise TooLargeError(
                f"{len(times)} times of {count} rows are too many for one request: send fewer rows at once, "
                "or ask for fewer times."
            )
        answer = model.posterior.survival(model.rows, times.tolist(), self.level)
        bands = {name: getattr(answer, name) for name in ("median", "restricted_mean")}
        check_finite(*(part for band in bands.values() for part in (band.value, band.lower, band.upper)))
        figures = {name: filled(FigureView, band) for name, band in bands.items()}
        return filled(SurvivalView, answer, model_id=model.head.id, **figures)
