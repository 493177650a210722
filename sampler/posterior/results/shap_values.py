"""SHAP values of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any

import numpy as np

from sampler.array_types import Axes, ByClass, ByRowAndClass, Floats
from sampler.data.scalars import number_to_text
from sampler.posterior.protocol import GameKind
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import by_class


def moving_most(values: Floats) -> int:
    """Return the class whose values [row, column, class] are the largest."""
    return int(np.argmax(np.abs(values).sum(axis=(0, 1))))


ByColumn = Annotated[Floats, Axes("row", "column", "class?")]


@dataclass(frozen=True, repr=False)
class ShapValues(RowAnswer):
    """SHAP values by row and feature; a row's values and the base add up to its f.

    For more than two classes each number is a list with one for each class.

    Attributes
    ----------
    data
        The rows as given, a list for each column; of reference rows each number is the middle of those that
        the model doesn't tell from it.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    names: list[str]
    values: Annotated[ByColumn, "Means, [row][feature]."]
    lower: Annotated[ByColumn, "Lower ends of the intervals."]
    upper: Annotated[ByColumn, "Upper ends of the intervals."]
    base_values: Annotated[ByClass, "Mean of f over the training rows that were compared with."]
    base_lower: ByClass
    base_upper: ByClass
    data: list[list[Any]]
    level: float
    draws: Annotated[int, "Number of draws used, of all chains."]
    game: GameKind
    scale: Annotated[str, "What the values add up to, in words."]
    warnings: Annotated[list[str], "Warnings about the rows."]
    classes: Annotated[tuple[str, ...] | None, "The classes, if each number is a list; else null."] = None
    labels: Any = field(default=None, repr=False, compare=False)

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [row] with each feature's mean value, of several classes each class's."""
        by_feature = {name: self.values[:, j] for j, name in enumerate(self.names)}
        return by_class(by_feature, self.classes)

    @property
    def f(
        self,
    ) -> Annotated[
        ByRowAndClass,
        "Mean of f at each row over the draws used; of all predict's mean, if `scale` is the target in its "
        "own unit.",
    ]:
        """Mean of f at each row over these draws, float64 [row], or [row, class]: base plus values."""
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
