"""Densities of the prediction of one row: of its mean, and of a new outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import NotFoundError
from app.services.predictions.predict_rows import Predictor, translating_sampler_errors
from app.services.predictions.row_reading import with_levels
from app.services.predictions.rows import columns_of
from sampler.host.assessment import density_of_row as of_row


@dataclass(frozen=True)
class Density:
    """Densities at one row: `sampler.posterior.assessment.density`."""

    x: NDArray[np.float64]
    mean: NDArray[np.float64] | None
    outcome: NDArray[np.float64] | None
    centre: float
    intervals: dict[str, tuple[float, float]]


def density(predictor: Predictor, owner: str, model: str, row: Mapping[str, Any]) -> Density:
    """Return densities of the prediction for a row.

    Raises as `Predictor.predict`, and NotFoundError for more than two classes.
    """
    _, posterior, draws = predictor.lookup(owner, model)
    if posterior.classes is not None and len(posterior.classes) > 2:
        raise NotFoundError("More than two classes have no density: ask for their probabilities.")
    with translating_sampler_errors():
        coded = posterior.encode(with_levels(posterior, columns_of([dict(row)], None, 1)))
        return Density(**of_row(posterior.law, coded, draws))
