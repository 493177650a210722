"""Convergence of a model's chains: R-hat and effective sample size by draws, even during the fit."""

from typing import Any

from app.services.predictions.predict_rows import Predictor
from sampler.posterior.assessment import convergence
from sampler.posterior.report import thinned

MAX_TRACE = 500


def growth(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """Return R-hat and effective sample size by number of draws, as `convergence.growth` computes them.

    Raises NotFoundError, and NotFinishedError while a chain has no draws.
    """
    found, posterior, draws = predictor.lookup(owner, model)
    return {"model_id": found.id, **convergence.growth(posterior, draws)}


def traces(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """Return draws of sigma by chain, thinned for display, and every n-th for ranks; raises as `growth`."""
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
