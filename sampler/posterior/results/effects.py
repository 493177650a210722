"""Effects of features: partial dependence and accumulated local effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.columns import by_class, ends_of

if TYPE_CHECKING:
    from sampler.posterior.core.intervals import Interval


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
    """f at single rows with the feature set to each point: mean and ends, float64 [row, point(, class)].

    `rows` holds their positions among the rows averaged over.
    """

    rows: NDArray[np.int64]
    mean: Floats
    intervals: list[Interval]


@dataclass(frozen=True, repr=False)
class PartialDependence(Answer):
    """Mean and intervals over draws of f averaged over rows, with the features set to each point of a grid.

    Attributes
    ----------
    features
        One to three names.
    grid
        Points of each feature: numbers, dates in ISO 8601, booleans, or levels (None: missing).
    mean
        float64 [point of the first feature(, of the second(, of the third))]; for more than two classes the
        probability of each, [.., class].
    sd
        Posterior standard deviation, shaped as `mean`.
    intervals
        Ends of the intervals, shaped as `mean`, at each requested level.
    rows
        Number of rows averaged over.
    ice
        Curves of single rows (individual conditional expectation), None unless requested.
    classes
        Names of the classes; None for numbers.

    """

    features: list[str]
    grid: list[list[Any]]
    mean: Floats
    sd: Floats
    intervals: list[Interval]
    rows: int
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
    """Accumulated local effects of a column, with mean 0 over the rows.

    Attributes
    ----------
    feature
        Name of the column.
    grid
        Its values, numbers or dates.
    mean
        float64 [value]; for more than two classes [value, class].
    intervals
        Ends of the intervals over draws, at each requested level.
    rows
        int64 [value - 1]: number of rows between a value and the next, from which its difference is taken.
    classes
        Names of the classes; None for numbers.

    """

    feature: str
    grid: list[Any]
    mean: Floats
    intervals: list[Interval]
    rows: NDArray[np.int64]
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
