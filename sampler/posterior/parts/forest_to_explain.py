"""A sum of trees whose SHAP values are asked for, with what is beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sampler.posterior.parts.slopes import Slopes
    from sampler.storage.draws import Draws

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ForestToExplain:
    """A sum of trees to explain.

    Attributes
    ----------
    draws
        Trees of all draws.
    leaf
        float64 [node], leaf values in the unit of the answer, anything at splits.
    offset
        What f has besides the trees and the linear part.
    slopes
        Of the linear part beside the trees; None without one.

    """

    draws: Draws
    leaf: Floats
    offset: float
    slopes: Slopes | None = None
