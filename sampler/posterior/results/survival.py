"""Survival curves of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.posterior.results.answer import Answer


@dataclass(frozen=True)
class Band:
    """A figure of each row, with the ends of its credible interval, float64 [row]."""

    value: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, repr=False)
class SurvivalCurves(Answer):
    """Survival curves of rows, at the same times.

    Attributes
    ----------
    times
        float64 [time], increasing.
    survival, lower, upper
        Probability that the outcome of a row is above the time, and the ends of its credible interval,
        float64 [row, time].
    median
        The time that half of such rows' outcomes exceed, and its credible interval.
    restricted_mean
        The expected value of the outcome, or of the last time where that is less, and its credible interval.
    level
        Probability of the intervals.
    warnings
        Sentences about the rows.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    times: Floats
    survival: Floats
    lower: Floats
    upper: Floats
    median: Band
    restricted_mean: Band
    level: float
    warnings: list[str]
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
