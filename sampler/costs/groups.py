"""Cost of intercepts and slopes of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.costs.part import PartCost

GROUP_SECONDS, SLOPE_GROUP = 8e-8, 1.2e-6  # per iteration and group; more for each slope
ROW_SECONDS, SLOPE_ROW = 4e-9, 6e-9  # per iteration, row and column of groups; more for each slope
ROW = 8  # bytes per row and column of groups: the row's group
SLOPE_CELL = 16  # per row, slope and column of groups: the row's value, and effects
DRAWN_GROUP = 48  # per kept draw and group: its intercept as kept, packed, unpacked and read


class GroupsCost(PartCost):
    """Cost of groups by their columns and number, with slopes."""

    @classmethod
    def sweep_seconds(cls, settings: Mapping[str, Any], rows: int, columns: int) -> float:  # noqa: ARG003
        """Estimate the seconds of drawing the intercepts and slopes once."""
        slopes = len(settings.get("slopes") or ())
        seconds = (ROW_SECONDS + SLOPE_ROW * slopes) * rows * len(settings["groups"])
        return seconds + (GROUP_SECONDS + SLOPE_GROUP * slopes) * int(settings.get("num_groups") or 0)

    @classmethod
    def row_bytes(cls, settings: Mapping[str, Any], columns: int) -> int:  # noqa: ARG003
        """Estimate the bytes of a row's groups and of its values for slopes."""
        slopes = len(settings.get("slopes") or ())
        return (ROW + SLOPE_CELL * slopes) * len(settings["groups"])

    @classmethod
    def draw_bytes(cls, settings: Mapping[str, Any]) -> int:
        """Estimate the bytes of a draw's intercepts and slopes."""
        return DRAWN_GROUP * (1 + len(settings.get("slopes") or ())) * int(settings.get("num_groups") or 0)
