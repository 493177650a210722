"""Cost of monotone features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sampler.costs.part import PartCost

MONOTONE = 9e-7  # more for a tree's update where all columns are monotone
MONOTONE_SHARES = 1e-4  # per iteration: drawing the shares of columns


class MonotoneCost(PartCost):
    """Cost of monotone features: order of leaves, and shares of columns that are drawn."""

    @classmethod
    def update_seconds(cls, settings: Mapping[str, Any], columns: int) -> float:
        """Estimate the seconds by which the update of a tree takes longer: by the root of their share."""
        return MONOTONE * math.sqrt(min(1.0, len(settings["monotone"]) / columns))

    @classmethod
    def sweep_seconds(cls, settings: Mapping[str, Any], rows: int, columns: int) -> float:  # noqa: ARG003
        """Estimate the seconds that the shares of columns take in an iteration."""
        return MONOTONE_SHARES
