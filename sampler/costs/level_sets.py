"""Cost of rules "x in A" of categories: a coded column for each set of levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.costs.part import PartCost
from sampler.data.level_sets import MOST_SETS

PER_INDICATOR = MOST_SETS / 8  # columns of sets to a coded column, at most: the 127 of eight levels


class LevelSetsCost(PartCost):
    """Cost of the columns of sets; how many coded columns are of categories isn't known."""

    @classmethod
    def row_bytes(cls, settings: Mapping[str, Any], columns: int) -> int:  # noqa: ARG003
        """Estimate the bytes of a row's codes, at most."""
        return round(PER_INDICATOR * columns)
