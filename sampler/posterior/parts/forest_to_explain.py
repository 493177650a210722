"""A sum of trees whose SHAP values are asked for, with what is beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampler.array_types import Floats
from sampler.storage.draws import Draws

if TYPE_CHECKING:
    from sampler.posterior.parts.slopes import Slopes


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
