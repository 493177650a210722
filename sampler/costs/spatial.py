"""Cost of a surface over two coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.costs.part import PartCost
from sampler.data.spatial import WAVES

SWEEP, ROW_SECONDS = 1.5e-3, 1e-6  # per iteration, and per row of it (if each is a place of its own)
ROW = 1200  # bytes per row: sines and cosines of its place
DRAW = 32 * WAVES  # bytes per kept draw: its amplitudes as kept, packed and read


class SpatialCost(PartCost):
    """Cost of the waves of a surface."""

    @classmethod
    def sweep_seconds(cls, settings: Mapping[str, Any], rows: int, columns: int) -> float:  # noqa: ARG003
        """Estimate the seconds of drawing the surface once."""
        return SWEEP + ROW_SECONDS * rows

    @classmethod
    def row_bytes(cls, settings: Mapping[str, Any], columns: int) -> int:  # noqa: ARG003
        """Estimate the bytes of a row's waves."""
        return ROW

    @classmethod
    def draw_bytes(cls, settings: Mapping[str, Any]) -> int:  # noqa: ARG003
        """Estimate the bytes of a draw's amplitudes."""
        return DRAW
