"""Cost that parts beside the mean's trees add to a fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampler.definitions.parts import code_asked


class PartCost:
    """Cost of a part by the resolved settings of a fit with it: nothing but what a subclass says."""

    @classmethod
    def update_seconds(cls, settings: Mapping[str, Any], columns: int) -> float:  # noqa: ARG003
        """Estimate the seconds by which the update of a tree takes longer."""
        return 0.0

    @classmethod
    def sweep_seconds(cls, settings: Mapping[str, Any], rows: int, columns: int) -> float:  # noqa: ARG003
        """Estimate the seconds of an iteration of one chain."""
        return 0.0

    @classmethod
    def prepare_seconds(cls, settings: Mapping[str, Any], rows: int) -> float:  # noqa: ARG003
        """Estimate the seconds by which the preparation of the data takes longer."""
        return 0.0

    @classmethod
    def trees(cls, settings: Mapping[str, Any]) -> int:  # noqa: ARG003
        """Return the number of trees that it has of its own."""
        return 0

    @classmethod
    def row_bytes(cls, settings: Mapping[str, Any], columns: int) -> int:  # noqa: ARG003
        """Estimate the bytes that a chain takes for each row."""
        return 0

    @classmethod
    def draw_bytes(cls, settings: Mapping[str, Any]) -> int:  # noqa: ARG003
        """Estimate the bytes that each kept draw takes at the finish, beside those of its trees."""
        return 0


def trees_of_parts(settings: Mapping[str, Any]) -> int:
    """Return the number of trees that parts beside the mean have."""
    return sum(own.trees(settings) for own in costs(settings))


def costs(settings: Mapping[str, Any]) -> list[type[PartCost]]:
    """Return the costs of the parts that a fit with such settings may have, in their order."""
    return code_asked("cost", settings)
