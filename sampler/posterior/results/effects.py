"""Effects of features: partial dependence and accumulated local effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sampler.array_types import Axes, ByPoint, ByRowAndClass, Floats, Longs
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.columns import by_class, ends_of


@dataclass(frozen=True)
class FeatureRows:
    """Values of a feature in the rows of the data; nothing where they are unknown.

    `values` are up to 200 numbers, or dates in ISO 8601, at even quantiles; `counts` the rows of each level
    of a category (None: missing), `unit` is that of the model's file.
    """

    values: list[Any] | None = None
    counts: dict[str | None, int] | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Ice:
    """Curves of single rows: [row][point]; for more than two classes [row][point][class]."""

    rows: Annotated[Longs, Axes("row"), "Indices among the rows averaged over, from 0."]
    mean: Annotated[Floats, Axes("row", "point", "class?")]
    intervals: list[Interval]


@dataclass(frozen=True, repr=False)
class PartialDependence(Answer):
    """Average of f over the rows by grid point: [first][second][third], as many; with classes [..][class].

    Attributes
    ----------
    classes
        Names of the classes; None for numbers.

    """

    features: list[str]
    grid: Annotated[list[list[float | str | bool | None]], "Grid values of each feature; dates in ISO 8601."]
    mean: ByPoint
    sd: Annotated[ByPoint, "Posterior standard deviations, in the shape of the mean."]
    intervals: list[Interval]
    rows: Annotated[int, "Number of rows averaged over; fewer than given if the grid is large."]
    ice: Ice | None = None
    classes: tuple[str, ...] | None = None

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [point]: the features, ``mean``, ``sd``, ``lower_90`` and so on."""
        mesh = np.meshgrid(*(np.arange(len(points)) for points in self.grid), indexing="ij")
        named: dict[str, Any] = {
            name: [points[i] for i in index.ravel()]
            for name, points, index in zip(self.features, self.grid, mesh, strict=True)
        }
        figures = {"mean": self.mean, "sd": self.sd} | ends_of(self.intervals)
        points = mesh[0].size
        flat = {
            name: values.reshape(points, *values.shape[mesh[0].ndim :]) for name, values in figures.items()
        }
        return named | by_class(flat, self.classes)

    @property
    def lower(self) -> Floats:
        """Lower ends of the first interval."""
        return self.intervals[0].lower

    @property
    def upper(self) -> Floats:
        """Upper ends of the first interval."""
        return self.intervals[0].upper


@dataclass(frozen=True, repr=False)
class AccumulatedEffects(Answer):
    """Accumulated local effects by value, [value] or [value][class], with mean 0 over the rows.

    Attributes
    ----------
    classes
        Names of the classes; None for numbers.

    """

    feature: str
    grid: Annotated[list[float | str], "Values of the feature; dates in ISO 8601."]
    mean: ByRowAndClass
    intervals: list[Interval]
    rows: Annotated[Longs, Axes("step"), "Number of rows between each value and the next."]
    classes: tuple[str, ...] | None = None

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with one row per value: the feature, ``mean``, ``lower_90`` and so on."""
        return {self.feature: self.grid} | by_class(
            {"mean": self.mean} | ends_of(self.intervals), self.classes
        )

    @property
    def lower(self) -> Floats:
        """Lower ends of the first interval."""
        return self.intervals[0].lower

    @property
    def upper(self) -> Floats:
        """Upper ends of the first interval."""
        return self.intervals[0].upper
