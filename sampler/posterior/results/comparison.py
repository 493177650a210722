"""A comparison of two models on the same rows: differences of scores, with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import number_to_text
from sampler.posterior.results.answer import Answer

HIGHER_IS_BETTER = ("log_score",)
ROOTS: dict[str, Any] = {"squared_error": "rmse"}  # scores that are shown as the root of their mean
TINY = 1e-300
CLEAR = 2.0  # standard errors from which on a difference is called one


@dataclass(frozen=True)
class ScoreDifference:
    """A score of two models on the same rows."""

    score: Annotated[
        Literal["log_score", "rmse", "brier"],
        "log_score: higher is better; rmse (in units of the target), brier: lower is better.",
    ]
    first: Annotated[float, "Of the model in the path."]
    second: Annotated[float, "Of the other one."]
    difference: Annotated[float, "First less second."]
    error: Annotated[float, "Standard error of the difference, from the differences of the rows."]

    @property
    def better(
        self,
    ) -> Annotated[
        Literal["first", "second", ""],
        "The better one where the difference is beyond two standard errors; else empty.",
    ]:
        """The better model, "first" or "second"; "" where the rows don't tell."""
        if abs(self.difference) <= CLEAR * self.error:
            return ""
        return "first" if (self.difference > 0) == (self.score in HIGHER_IS_BETTER) else "second"


@dataclass(frozen=True, repr=False)
class ModelComparison(Answer):
    """Two models on the rows that both held out."""

    card = "cards:comparison_card"

    rows: Annotated[int, "Held-out rows in common, of up to 2,000 of each."]
    differences: list[ScoreDifference]

    @classmethod
    def of(
        cls,
        first: Mapping[str, Floats],
        second: Mapping[str, Floats],
        unit: NDArray[np.int64] | None = None,
    ) -> ModelComparison:
        """Compare scores of the same rows, float64 [row] by name; rows of one `unit` [row] count once."""
        found = [_difference(name, first[name], second[name], unit) for name in first if name in second]
        return cls(len(next(iter(first.values()))), found)

    def columns(self) -> dict[str, Any]:
        """Arrange it by name, with a row for each score."""
        names = ("score", "first", "second", "difference", "error", "better")
        lists = {name: [getattr(each, name) for each in self.differences] for name in names}
        return {k: v if k in ("score", "better") else np.array(v, np.float64) for k, v in lists.items()}

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows; first - second, with standard errors"]
        for each in self.differences:
            figures = " ".join(number_to_text(value) for value in (each.first, each.second))
            difference = f"{number_to_text(each.difference)} ± {number_to_text(each.error, 2)}"
            told = f"the {each.better} is better" if each.better else "no clear difference"
            lines.append(f"{each.score}: {figures}  difference {difference}: {told}")
        return "\n".join(lines)


def _difference(name: str, first: Floats, second: Floats, unit: NDArray[np.int64] | None) -> ScoreDifference:
    means, apart = (float(first.mean()), float(second.mean())), first - second
    if name in ROOTS:  # a root changes by what its square does, over twice the root
        means = float(np.sqrt(means[0])), float(np.sqrt(means[1]))
        apart = first / max(2 * means[0], TINY) - second / max(2 * means[1], TINY)
    error = _error_of_mean(apart, unit)
    return ScoreDifference(ROOTS.get(name, name), *means, means[0] - means[1], error)


def _error_of_mean(apart: Floats, unit: NDArray[np.int64] | None) -> float:
    """Estimate the standard error of a mean of rows, or of rows that go together by `unit` (CR1)."""
    if unit is None:
        return float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else float("inf")
    sums = np.bincount(np.unique(unit, return_inverse=True)[1], apart - apart.mean())
    units = len(sums)
    return float(np.sqrt(units / (units - 1) * (sums @ sums)) / len(apart)) if units > 1 else float("inf")
