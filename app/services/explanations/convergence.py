"""Convergence of a model's chains: R-hat and effective sample size by draws, even during the fit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from app.services.explanations.guard import ExplainedModel, OutcomeQuestion
from app.services.predictions.predict_rows import Predictor
from app.services.views import schema_of
from sampler.host.assessment import Convergence, Limits, RowsGrowth, ScalarGrowth, convergence, evenly_spaced

MAX_TRACE = 500
schema_of(ScalarGrowth, "ScalarGrowth", "rhat ess_bulk ess_tail")
schema_of(RowsGrowth, "RowsGrowth", "rows rhat? rhat_p95? ess_bulk? ess_tail?")
schema_of(Limits, "LimitsView", "rhat sigma_rhat")


class GrowthQuery(OutcomeQuestion):
    """A question about the chains by number of draws, of fits too, once every chain has draws."""

    of_fits: ClassVar[bool] = True
    view: ClassVar = schema_of(
        Convergence, "GrowthView", "outcome model_id chains draws=draws sigma log_likelihood f limits"
    )

    def answer(self, model: ExplainedModel) -> Convergence:
        """Return R-hat and effective sample size, as `convergence.growth` computes them."""
        return convergence.growth(model.posterior.law, model.present)


@dataclass(frozen=True)
class ScalarTraces:
    """Draws of a figure, float64 [chain, draw]: at the positions `shown`, and each `every`-th, for ranks."""

    shown: NDArray[np.int64]
    trace: NDArray[np.float64]
    every: int
    ranked: NDArray[np.float64]


def scalar_traces(predictor: Predictor, owner: str, model: str, name: str) -> ScalarTraces | None:
    """Return the draws of "sigma" or "log_likelihood" by chain, or None without such; raises as `lookup`."""
    _, posterior, draws = predictor.lookup(owner, model)
    values = posterior.law.scalars(draws).get(name)
    if values is None:
        return None
    places = evenly_spaced(draws, MAX_TRACE)
    every = convergence.independent_every(values)
    return ScalarTraces(places, values[:, places], every, values[:, ::every])
