"""Predictive distributions of rows, and densities of the prediction of one row."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from app.services.errors import Fault, InvalidRequestError, TooLargeError
from app.services.explanations.guard import ExplainedModel, OutcomeQuestion, OutcomeView, check_finite
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_of
from app.services.request_bodies import ColumnsInBody, RowsInBody, Share, StrictBody
from sampler.host.assessment import Density, PredictiveDistribution
from sampler.host.assessment import density_of_row as of_row
from sampler.host.posteriors import distribution_work

MOST_VALUES, MOST_QUANTILES, MAX_CELLS = 1_000, 99, 300_000
Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class DistributionView(OutcomeView):
    """Predictive distributions of new outcomes of rows, at known outcomes and at values of the request."""

    model_id: str
    mean: Annotated[list[float], Field(description="The expected outcome, by row.")]
    log_prob: Annotated[
        list[float] | None,
        Field(description="Log density of each row's outcome, of a count its log probability."),
    ]
    cdf: Annotated[
        list[float] | None, Field(description="Probability of an outcome of at most the row's, by row.")
    ]
    crps: Annotated[
        list[float] | None,
        Field(description="Continuous ranked probability score, by row; null of outcomes with censoring."),
    ]
    below: Annotated[
        list[list[float]] | None,
        Field(description="Probability of at most each of `at`, [row][value]."),
    ]
    quantiles: Annotated[list[list[float]] | None, Field(description="[row][quantile].")]
    warnings: Annotated[list[str], Field(description="Warnings about the rows.")]


class DistributionBody(StrictBody, OutcomeQuestion):
    """A request for predictive distributions."""

    needs_rows: ClassVar[bool] = True
    view: ClassVar = DistributionView

    rows: RowsInBody | None = Field(default=None, description="The rows, as in predict, without weights.")
    columns: ColumnsInBody | None = Field(
        default=None, description="The rows as lists of values by column name."
    )
    outcomes: Annotated[list[Finite], Field(fail_fast=True)] | None = Field(
        default=None, description="The rows' outcomes, to score the distributions by: one for each."
    )
    at: Annotated[list[Finite], Field(min_length=1, max_length=MOST_VALUES)] | None = Field(
        default=None, description="Values of the outcome: how probable is at most each?"
    )
    quantiles: Annotated[list[Share], Field(min_length=1, max_length=MOST_QUANTILES)] | None = Field(
        default=None, description="Probabilities of the quantiles."
    )

    def answer(self, model: ExplainedModel) -> DistributionView:
        """Return the distributions of the rows."""
        posterior, count = model.posterior, model.num_rows
        at, wanted = self.at or [], self.quantiles or []
        if self.outcomes is not None and len(self.outcomes) != count:
            message = f"{len(self.outcomes)} outcomes of {count} rows: send one for each row"
            raise InvalidRequestError(errors=[Fault("outcomes", None, message, "not_accepted")])
        scored = self.outcomes is not None and not posterior.censoring
        points = len(at) + (2 if self.outcomes is not None else 0)
        figures = {"points": points, "quantiles": len(wanted), "scores": int(scored)}
        model.check_work(
            partial(distribution_work, posterior.law, model.all_draws, **figures), "Distributions"
        )
        if count * (len(at) + len(wanted)) > MAX_CELLS:
            raise TooLargeError(
                f"{len(at) + len(wanted)} figures of {count} rows are too many for one request: send fewer "
                "rows at once, or ask for fewer figures."
            )
        coded = posterior.encode(model.rows)
        law = PredictiveDistribution(posterior.law, coded)
        y = self.outcomes
        answers = {} if y is None else {"log_prob": law.log_prob(y), "cdf": law.cdf(y)}
        answers |= {"crps": law.crps(y)} if scored else {}
        answers |= {"below": law.cdf(np.array(at)[:, None]).T} if at else {}
        answers |= {"quantiles": law.quantile(wanted).T} if wanted else {}
        check_finite(law.mean, *answers.values())
        lists: dict[str, Any] = dict.fromkeys(("log_prob", "cdf", "crps", "below", "quantiles"))
        lists |= {name: figures.tolist() for name, figures in answers.items()}
        return DistributionView(
            model_id=model.head.id, mean=law.mean.tolist(), warnings=coded.warnings, **lists
        )


def density(predictor: Predictor, owner: str, model: str, row: Mapping[str, Any]) -> Density:
    """Return densities of the prediction for a row.

    Raises as `Predictor.predict`, and InvalidRequestError for more than two classes.
    """
    _, posterior, draws = predictor.lookup(owner, model)
    with translating_sampler_errors():
        coded = posterior.encode(with_levels(posterior, columns_of([dict(row)], None, 1)))
        return of_row(posterior.law, coded, draws)
