"""Survival curves of rows: the probability that an outcome exceeds each of some times, with bands."""

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from app.services.errors import TooLargeError
from app.services.explanations.guard import ExplainedModel, Question, check_finite
from app.services.request_bodies import ColumnsInBody, RowsInBody, Share, StrictBody
from app.services.views import schema_of
from sampler.host.posteriors import MOST_TIMES, Band, SurvivalCurves, check_times, survival_work

MAX_CELLS = 300_000  # rows times times
schema_of(Band, "FigureView", "value lower upper")


class SurvivalBody(StrictBody, Question):
    """A request for survival curves."""

    needs_rows: ClassVar[bool] = True
    view: ClassVar = schema_of(
        SurvivalCurves,
        "SurvivalView",
        "model_id level times survival lower upper median restricted_mean warnings",
    )

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

    def answer(self, model: ExplainedModel) -> SurvivalCurves:
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
        bands = (answer.median, answer.restricted_mean)
        check_finite(*(part for band in bands for part in (band.value, band.lower, band.upper)))
        return answer
