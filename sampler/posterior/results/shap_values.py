"""SHAP values of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, Literal

import numpy as np

from sampler.array_types import Axes, ByClass, ByRowAndClass, Floats
from sampler.data.scalars import number_to_text
from sampler.posterior.protocol import GameKind
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import by_class

NEAR = 1e-6  # difference of f and the base below which the slope at f stands for that between them


def moving_most(values: Floats) -> int:
    """Return the class whose values [row, column, class] are the largest."""
    return int(np.argmax(np.abs(values).sum(axis=(0, 1))))


ByColumn = Annotated[Floats, Axes("row", "column", "class?")]


@dataclass(frozen=True, repr=False)
class OutcomeReasons:
    """SHAP values through the inverse of what the trees learn, so that they are about the outcome itself.

    Where trees learn a logarithm each value is a factor, and the base times a row's factors is its outcome.
    Elsewhere they are differences, each value times the slope between base and row, and add up to that of
    the outcomes: of a number its median (before recalibration, if there is any), of two classes the
    probability of the second.
    """

    kind: Literal["factors", "differences"]
    values: Annotated[Floats, Axes("row", "column"), "Means, [row][feature]."]
    lower: Annotated[Floats, Axes("row", "column"), "Lower ends of the intervals."]
    upper: Annotated[Floats, Axes("row", "column"), "Upper ends of the intervals."]
    base: Annotated[float, "The outcome that the base stands for."]
    outcome: Annotated[Floats, Axes("row"), "The outcome that each row's f stands for."]


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
    inverse_link
        Function from `f` to the outcome that it stands for; None where f is that, or of several classes.

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
    inverse_link: Callable[[Floats], Floats] | None = field(default=None, repr=False, compare=False)

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

    @property
    def of_outcome(
        self,
    ) -> Annotated[
        OutcomeReasons | None,
        "The values through the inverse of a transform or link; null where `scale` is the target in its own "
        "unit, and for several classes.",
    ]:
        """The values as factors of the outcome, or as differences in its unit; None where they are these."""
        link = self.inverse_link
        if link is None:
            return None
        base, f = float(self.base_values), self.f
        at_base, outcome = float(link(np.array(base))), np.asarray(link(f))
        if link is np.exp:
            values, lower, upper = (np.exp(each) for each in (self.values, self.lower, self.upper))
            return OutcomeReasons("factors", values, lower, upper, at_base, outcome)
        near = np.abs(f - base) < NEAR
        low, high = np.where(near, f - NEAR, base), np.where(near, f + NEAR, f)
        slope = ((link(high) - link(low)) / (high - low))[:, None]
        values, lower, upper = (slope * each for each in (self.values, self.lower, self.upper))
        return OutcomeReasons("differences", values, lower, upper, at_base, outcome)

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
