"""Rankings of features: by permutation importance, and by their share of the split rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from sampler.array_types import Axes, Floats
from sampler.data.scalars import cells_to_text, number_to_text
from sampler.posterior.protocol import Loss
from sampler.posterior.results.answer import Answer, plot
from sampler.posterior.results.columns import percent

ByFeature = Annotated[Floats, Axes("feature")]


@dataclass(frozen=True, repr=False)
class Inclusion(Answer):
    """Share of split rules that use each feature: mean and interval over draws, float64 [feature]."""

    card = "cards:ranking_card"

    names: list[str]
    mean: ByFeature
    lower: ByFeature
    upper: ByFeature
    level: Annotated[float, "The level of the intervals of the shares and slopes."]
    draws_without_rules: Annotated[int, "Draws without any split rule, which are excluded."]

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
    """Increase of the loss on held-out rows when one feature at a time is shuffled."""

    card = "cards:ranking_card"

    names: list[str]
    mean: ByFeature
    lower: ByFeature
    upper: ByFeature
    loss: Annotated[
        Loss,
        "`rmse`: root mean square error of a draw's mean outcome, in units of the target. "
        "`log_loss`: mean of minus the log density (of classes and counts: log probability) that a draw "
        "gives the outcomes.",
    ]
    baseline: Annotated[float | None, "The mean loss of the draws with nothing shuffled."]
    level: Annotated[float, "The level of the intervals, which are over draws and permutations."]
    rows: Annotated[int, "Number of held-out rows used, at most 1,000."]
    draws: Annotated[int, "Number of draws used, of all chains together."]
    permutations: int
    units: Annotated[
        int | None,
        "Groups of these rows, where new rows are declared to be of other ones: a feature "
        "with one value in each is shuffled between groups. Null where rows count.",
    ] = None

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
