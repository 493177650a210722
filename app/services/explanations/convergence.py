"""Convergence of a model's chains: R-hat and effective sample size by draws, even during the fit."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NotRequired

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import TypedDict

from app.services.explanations.guard import ExplainedModel, OutcomeQuestion, OutcomeView
from app.services.predictions.predict_rows import Predictor
from sampler.host.assessment import convergence, evenly_spaced

MAX_TRACE = 500
FiguresByDraws = list[float | None]


class ScalarGrowth(TypedDict):
    """Diagnostics of one figure, one value per number of draws."""

    rhat: FiguresByDraws
    ess_bulk: FiguresByDraws
    ess_tail: FiguresByDraws


class RowsGrowth(TypedDict):
    """Diagnostics of f at some reference rows: medians over rows, and the 95% quantile of R-hat."""

    rows: int
    rhat: NotRequired[Annotated[FiguresByDraws, Field(default=[])]]
    rhat_p95: NotRequired[Annotated[FiguresByDraws, Field(default=[])]]
    ess_bulk: NotRequired[Annotated[FiguresByDraws, Field(default=[])]]
    ess_tail: NotRequired[Annotated[FiguresByDraws, Field(default=[])]]


class LimitsView(TypedDict):
    """The largest R-hat that a verdict allows."""

    rhat: float
    sigma_rhat: float


@dataclass(frozen=True, kw_only=True)
class GrowthView(OutcomeView):
    """R-hat and effective sample size by number of draws."""

    model_id: str
    chains: int
    draws: Annotated[
        list[int],
        Field(description="Numbers of kept draws per chain, up to 12 values from 8 draws on."),
    ]
    sigma: Annotated[ScalarGrowth | None, Field(description="Null for classes.")]
    log_likelihood: Annotated[
        ScalarGrowth | None,
        Field(description="Of the reference rows' outcomes; null for models made before these were kept."),
    ]
    f: RowsGrowth
    limits: Annotated[dict[str, LimitsView], Field(description="Limits by verdict.")]


class GrowthQuery(OutcomeQuestion):
    """A question about the chains by number of draws, of fits too, once every chain has draws."""

    of_fits: ClassVar[bool] = True
    view: ClassVar = GrowthView

    def answer(self, model: ExplainedModel) -> GrowthView:
        """Return R-hat and effective sample size, as `convergence.growth` computes them."""
        return GrowthView(model_id=model.head.id, **convergence.growth(model.posterior.law, model.present))


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
