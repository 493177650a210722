"""Survival curves of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from sampler.array_types import Axes, ByRow, Floats
from sampler.posterior.results.answer import Answer

ByRowAndTime = Annotated[Floats, Axes("row", "time")]


@dataclass(frozen=True)
class Band:
    """A figure of each row, with its credible interval."""

    value: ByRow
    lower: ByRow
    upper: ByRow


@dataclass(frozen=True, repr=False)
class SurvivalCurves(Answer):
    """Survival curves by row, of outcomes that nothing censors.

    Attributes
    ----------
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    times: Annotated[Floats, Axes("time")]
    survival: Annotated[ByRowAndTime, "Probabilities that the outcome is above each time, [row][time]."]
    lower: Annotated[ByRowAndTime, "Lower ends of their credible intervals."]
    upper: Annotated[ByRowAndTime, "Upper ends of their credible intervals."]
    median: Annotated[Band, "The time that half of such rows' outcomes exceed."]
    restricted_mean: Annotated[
        Band, "The expected value of the outcome, or of the last time where that is less."
    ]
    level: float
    warnings: Annotated[list[str], "Warnings about the rows."]
    labels: Any = field(default=None, repr=False, compare=False)

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with a line for each row and time: row, time, survival, lower, upper.

        `row` is the row's label, or else its number from 1.
        """
        rows, count = self.survival.shape
        return {
            "row": np.repeat(np.arange(1, rows + 1) if self.labels is None else self.labels, count),
            "time": np.tile(self.times, rows),
            "survival": self.survival.reshape(-1),
            "lower": self.lower.reshape(-1),
            "upper": self.upper.reshape(-1),
        }
