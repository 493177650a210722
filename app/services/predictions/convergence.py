"""How a model's chains came to agree: R-hat and effective draws as the draws grew, even during the fit."""

from typing import Any

from app.services.predictions.predict_rows import Predictor
from sampler.posterior.assessment import convergence
from sampler.posterior.report import thinned

MAX_TRACE = 500


def growth(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """R-hat and effective draws of a model, by number of draws, as `assessment.convergence.growth` has them.

    Raises NotFoundError, and NotFinishedError where a chain has no draw yet.
    """
    found, posterior, draws = predictor.lookup(owner, model)
    return {"model_id": found.id, **convergence.growth(posterior, draws)}


def traces(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """Draws of sigma by chain, thinned to be shown, and one in `every` to be ranked; raises as `growth`."""
    found, posterior, draws = predictor.lookup(owner, model)
    shown = thinned(draws, MAX_TRACE)
    sigma = convergence.sigma_of(posterior, draws)
    every = 1 if sigma is None else convergence.independent_every(sigma)
    return {
        "model_id": found.id,
        "draws": draws,
        "shown": shown,
        "every": every,
        "ranked": None if sigma is None else sigma[:, ::every],
        "trace": None if sigma is None else sigma[:, shown],
    }
