"""Convergence of a model's chains: R-hat and effective sample size by draws, even during the fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.services.predictions.predict_rows import Predictor
from app.store.tables import Json
from sampler.posterior.assessment import convergence
from sampler.posterior.assessment.diagnostics import evenly_spaced

MAX_TRACE = 500


@dataclass(frozen=True)
class Growth:
    """R-hat and effective sample sizes by number of draws: `sampler.posterior.assessment.convergence`."""

    model_id: str
    draws: list[int]
    chains: int
    sigma: Json | None
    f: Json
    limits: dict[str, Json]


@dataclass(frozen=True)
class SigmaTraces:
    """Draws of sigma, float64 [chain, draw]: at the positions `shown`, and each `every`-th, for ranks."""

    shown: NDArray[np.int64]
    trace: NDArray[np.float64]
    every: int
    ranked: NDArray[np.float64]


def growth(predictor: Predictor, owner: str, model: str) -> Growth:
    """Return R-hat and effective sample size by number of draws, as `convergence.growth` computes them.

    Raises NotFoundError, and NotFinishedError while a chain has no draws.
    """
    stored, posterior, draws = predictor.lookup(owner, model)
    return Growth(stored.id, **convergence.growth(posterior.law, draws))


def sigma_traces(predictor: Predictor, owner: str, model: str) -> SigmaTraces | None:
    """Return the draws of sigma by chain, or None for classes, which have none; raises as `growth`."""
    _, posterior, draws = predictor.lookup(owner, model)
    sigma = convergence.sigma_of(posterior.law, draws)
    if sigma is None:
        return None
    places = evenly_spaced(draws, MAX_TRACE)
    every = convergence.independent_every(sigma)
    return SigmaTraces(places, sigma[:, places], every, sigma[:, ::every])
