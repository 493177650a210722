"""SHAP values of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.scalars import number_to_text
from sampler.posterior.protocol import GameKind
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import by_class


def moving_most(values: Floats) -> int:
    """Return the class whose values [row, column, class] are the largest."""
    return int(np.argmax(np.abs(values).sum(axis=(0, 1))))


@dataclass(frozen=True, repr=False)
class ShapValues(RowAnswer):
    """SHAP values of rows: means and intervals over draws; a row's values and the base add up to f.

    Attributes
    ----------
    names
        Names of the columns.
    values, lower, upper
        float64 [row, column]; for more than two classes [row, column, class].
    base_values, base_lower, base_upper
        float64 [], or [class]: f averaged over the background rows.
    data
        The rows as given, a list for each column; of reference rows each number is the middle of those that
        the model doesn't tell from it.
    level
        Probability of the intervals.
    draws
        Number of draws used, of all chains.
    game
        "interventional" or "path-dependent".
    scale
        What the values add up to, in words.
    warnings
        Warnings about the rows.
    classes
        Names of the classes; None for numbers.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    names: list[str]
    values: Floats
    lower: Floats
    upper: Floats
    base_values: Floats
    base_lower: Floats
    base_upper: Floats
    data: list[list[Any]]
    level: float
    draws: int
    game: GameKind
    scale: str
    warnings: list[str]
    classes: tuple[str, ...] | None = None
    labels: Any = field(default=None, repr=False, compare=False)

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [row] with each feature's mean value, of several classes each class's."""
        by_feature = {name: self.values[:, j] for j, name in enumerate(self.names)}
        return by_class(by_feature, self.classes)

    @property
    def f(self) -> Floats:
        """Mean of f at each row over these draws, float64 [row], or [row, class]: base plus values.

        Of all stored draws it is what `predict` gives as mean, where f is in the outcome's own unit.
        """
        return np.asarray(self.base_values + self.values.sum(axis=1))

    def waterfall(self, row: int = 0, ax: Any = None) -> Any:
        """Draw with matplotlib how the columns of a row lead from the base to f, and return the axes."""
        return plot("reasons:waterfall", ax, self, row)

    def beeswarm(self, ax: Any = None) -> Any:
        """Draw all rows' values by feature (of the class that moves most), and return the axes."""
        parts = [self.values, self.lower, self.upper]
        if self.values.ndim == 3:
            most = moving_most(self.values)
            parts = [part[..., most] for part in parts]
        return plot("reasons:beeswarm", ax, self.names, parts, self.data, self.scale)

    def explanation(self) -> Any:
        """Convert to the `shap.Explanation` that shap's plots take; needs the package shap.

        Its `lower_bounds` and `upper_bounds` are the ends of the intervals. Raises ImportError without shap.
        """
        try:
            shap = import_module("shap")
        except ImportError:
            raise ImportError("explanation() needs the package shap: pip install shap") from None
        data = np.empty((len(self.values), len(self.names)), dtype=object)
        for j, column in enumerate(self.data):
            data[:, j] = column
        return shap.Explanation(
            values=self.values,
            base_values=np.broadcast_to(self.base_values, (len(self.values), *self.base_values.shape)).copy(),
            data=data,
            feature_names=list(self.names),
            lower_bounds=self.lower,
            upper_bounds=self.upper,
        )

    def __str__(self) -> str:
        size = np.abs(self.values).mean(axis=tuple(i for i in range(self.values.ndim) if i != 1))
        width = max(map(len, self.names)) + 2
        rows = (
            f"{self.names[j]:{width}}{number_to_text(size[j]):>12}" for j in np.argsort(-size, kind="stable")
        )
        return "\n".join([f"of {self.scale}", f"{'':{width}}{'mean |SHAP|':>12}", *rows])
