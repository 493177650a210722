"""A comparison of two models on the same rows: differences of scores, with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import number_to_text
from sampler.posterior.results.answer import Answer

HIGHER_IS_BETTER = ("log_score",)
ROOTS = {"squared_error": "rmse"}  # scores that are shown as the root of their mean
TINY = 1e-300
CLEAR = 2.0  # standard errors from which on a difference is called one


@dataclass(frozen=True)
class ScoreDifference:
    """A score of two models on the same rows.

    Attributes
    ----------
    score
        "log_score" (higher is better), "rmse" (in units of the outcome) or "brier" (lower is better).
    first, second
        The scores of both.
    difference
        First minus second.
    error
        Standard error of the difference, from the differences of rows; of rows that count once together,
        from their sums.

    """

    score: str
    first: float
    second: float
    difference: float
    error: float

    @property
    def better(self) -> str:
        """The better model, "first" or "second"; "" where the rows don't tell."""
        if abs(self.difference) <= CLEAR * self.error:
            return ""
        return "first" if (self.difference > 0) == (self.score in HIGHER_IS_BETTER) else "second"


@dataclass(frozen=True, repr=False)
class ModelComparison(Answer):
    """Differences of the scores of two models on `rows` rows that neither was fitted to."""

    card = "cards:comparison_card"

    rows: int
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

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "rows": self.rows,
            "differences": [asdict(e) | {"better": e.better} for e in self.differences],
        }

    def columns(self) -> dict[str, Any]:
        """Arrange it by name, with a row for each score."""
        named = self.to_json()["differences"]
        lists = {name: [each[name] for each in named] for name in named[0]}
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
