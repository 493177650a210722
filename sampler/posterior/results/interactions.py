"""Interactions of pairs of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.scalars import cells_to_text
from sampler.posterior.results.answer import Answer, plot
from sampler.posterior.results.columns import percent


@dataclass(frozen=True, repr=False)
class Interactions(Answer):
    """Pairs of columns, the strongest first.

    Attributes
    ----------
    pairs
        Names of the two columns.
    strength, strength_lower, strength_upper
        float64 [pair]: standard deviation over rows of what the joint effect has beyond the two separate
        ones, in units of `scale`.
    h, h_lower, h_upper
        float64 [pair]: Friedman's H, that standard deviation divided by the joint effect's; 0 for no
        interaction, 1 for nothing else. It is large by chance where two columns have hardly any effect.
    inclusion, inclusion_lower, inclusion_upper
        float64 [pair]: share of the splits right below another one that join these two columns.
    expected
        float64 [pair]: that share if the columns of neighbouring splits were independent.
    level
        Probability of the intervals.
    draws
        Number of draws used for strength and H, of all chains.
    draws_without_pairs
        Number of draws left out of `inclusion`: no split of theirs is below one of another column.
    scale
        Scale of the strength, in words: the outcome's, its transform's, or that of a probability.

    """

    card = "cards:pairs_card"

    pairs: list[tuple[str, str]]
    strength: Floats
    strength_lower: Floats
    strength_upper: Floats
    h: Floats
    h_lower: Floats
    h_upper: Floats
    inclusion: Floats
    inclusion_lower: Floats
    inclusion_upper: Floats
    expected: Floats
    level: float
    draws: int
    draws_without_pairs: int
    scale: str

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with one row per pair, the strongest first."""
        named: dict[str, Any] = {
            "first": [a for a, _ in self.pairs],
            "second": [b for _, b in self.pairs],
        }
        for name in ("strength", "h", "inclusion"):
            named[name] = getattr(self, name)
            named |= {
                f"{name}_{end}_{percent(self.level)}": getattr(self, f"{name}_{end}")
                for end in ("lower", "upper")
            }
        return named | {"expected": self.expected}

    def plot(self, ax: Any = None) -> Any:
        """Draw the strengths with matplotlib, the strongest pairs on top, and return the axes."""
        return plot("rankings:interactions", ax, self)

    def __str__(self) -> str:
        names = [f"{a} : {b}" for a, b in self.pairs]
        width = max(map(len, names), default=0) + 2
        head = f"{'':{width}}{'strength':>10}{'lower':>10}{'upper':>10}{'H':>7}{'share':>8}{'expected':>10}"
        strengths = np.array([self.strength, self.strength_lower, self.strength_upper])
        rows = (
            f"{name:{width}}{cells_to_text(strengths[:, i], 10, 3)}{self.h[i]:7.2f}{self.inclusion[i]:8.3f}"
            f"{self.expected[i]:10.3f}"
            for i, name in enumerate(names)
        )
        return "\n".join([f"strength: standard deviation over rows, of {self.scale}", head, *rows])
