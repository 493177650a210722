"""Rankings of features: by permutation importance, and by their share of the split rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sampler.array_types import Floats
from sampler.data.scalars import cells_to_text, number_to_text
from sampler.posterior.protocol import Loss
from sampler.posterior.results.answer import Answer, plot
from sampler.posterior.results.columns import percent


@dataclass(frozen=True, repr=False)
class Inclusion(Answer):
    """Share of split rules that use each feature: mean and interval over draws, float64 [feature]."""

    card = "cards:ranking_card"

    names: list[str]
    mean: Floats
    lower: Floats
    upper: Floats
    level: float
    draws_without_rules: int

    headline: ClassVar[str] = "Share of the split rules"

    @property
    def order(self) -> list[int]:
        """Positions of the features, the largest share first."""
        return [int(j) for j in np.argsort(-self.mean, kind="stable")]

    def columns(self) -> dict[str, Any]:
        """Arrange it by name, the largest first: feature, mean, lower, upper."""
        return ranked_columns(self, self.order)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names) + 2
        rows = (
            f"{self.names[j]:{width}}{self.mean[j]:8.3f}{self.lower[j]:8.3f}{self.upper[j]:8.3f}"
            for j in self.order
        )
        return "\n".join([f"{'':{width}}{'mean':>8}{'lower':>8}{'upper':>8}", *rows])


@dataclass(frozen=True, repr=False)
class PermutationImportance(Answer):
    """Increase of the loss on rows with known outcomes when one feature at a time is shuffled.

    Attributes
    ----------
    names
        The features, in the order of the model.
    mean, lower, upper
        float64 [feature]: mean and interval of the increase over draws and permutations.
    loss
        "rmse", the root mean square error of the mean by a draw, in units of the outcome; or "log_loss", the
        mean of minus the log density (of classes and counts: log probability) that a draw gives the outcomes.
    baseline
        Mean over draws of that loss with nothing shuffled.
    level
        Probability of the interval.
    rows, draws, permutations
        Numbers of rows, draws and permutations used.
    units
        Number of the groups of these rows, between which features are shuffled that each has one value of;
        None where rows count.

    """

    card = "cards:ranking_card"

    names: list[str]
    mean: Floats
    lower: Floats
    upper: Floats
    loss: Loss
    baseline: float
    level: float
    rows: int
    draws: int
    permutations: int
    units: int | None = None

    @property
    def order(self) -> list[int]:
        """Positions of the features, the most important first."""
        return [int(j) for j in np.argsort(-self.mean, kind="stable")]

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values; ``features`` is a list, the most important first."""
        return {
            "loss": self.loss,
            "baseline": self.baseline,
            "level": self.level,
            "rows": self.rows,
            "draws": self.draws,
            "permutations": self.permutations,
            "units": self.units,
            "features": [
                {
                    "name": self.names[j],
                    "mean": float(self.mean[j]),
                    "lower": float(self.lower[j]),
                    "upper": float(self.upper[j]),
                }
                for j in self.order
            ],
        }

    @property
    def headline(self) -> str:
        """Description of the figures, in a phrase."""
        loss = "root mean square error" if self.loss == "rmse" else "log loss"
        return f"increase of {loss} (from {number_to_text(self.baseline)}) when the feature is shuffled"

    def columns(self) -> dict[str, Any]:
        """Arrange it by name, the most important first: feature, mean, lower, upper."""
        return ranked_columns(self, self.order)

    def plot(self, ax: Any = None) -> Any:
        """Draw the importances with matplotlib, on `ax` or a new figure, and return the axes."""
        figures = zip(*self.columns().values(), strict=True)
        return plot("rankings:importance", ax, figures, self.loss, None, self.baseline)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names) + 2
        rows = (
            f"{self.names[j]:{width}}{cells_to_text((self.mean[j], self.lower[j], self.upper[j]), 10)}"
            for j in self.order
        )
        return "\n".join([self.headline, f"{'':{width}}{'mean':>10}{'lower':>10}{'upper':>10}", *rows])


def ranked_columns(ranked: PermutationImportance | Inclusion, order: Sequence[int]) -> dict[str, Any]:
    """Arrange importances as columns by name, in that order of the features."""
    return {
        "feature": [ranked.names[j] for j in order],
        "mean": ranked.mean[order],
        f"lower_{percent(ranked.level)}": ranked.lower[order],
        f"upper_{percent(ranked.level)}": ranked.upper[order],
    }
