"""Interactions of pairs of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sampler.array_types import Axes, Floats
from sampler.data.scalars import cells_to_text
from sampler.posterior.results.answer import Answer, plot
from sampler.posterior.results.columns import percent

ByPair = Annotated[Floats, Axes("pair")]


@dataclass(frozen=True, repr=False)
class Interactions(Answer):
    """Interactions of each two features, the strongest first.

    Attributes
    ----------
    pairs
        Names of the two features.
    h
        It is 0 for no interaction, 1 for nothing else, and large by chance where two features have hardly any
        effect.
    draws_without_pairs
        Number of draws left out of `inclusion`: no split of theirs is below one of another feature.

    """

    card = "cards:pairs_card"

    pairs: list[tuple[str, str]]
    strength: Annotated[
        ByPair,
        "Standard deviation over rows of what the joint effect has beyond the two separate ones, in units of "
        "`scale`.",
    ]
    strength_lower: ByPair
    strength_upper: ByPair
    h: Annotated[ByPair, "Friedman's H: the strength divided by the joint effect's deviation."]
    h_lower: ByPair
    h_upper: ByPair
    inclusion: Annotated[
        ByPair, "Share of the splits right below a split on another feature that join these two."
    ]
    inclusion_lower: ByPair
    inclusion_upper: ByPair
    expected: Annotated[ByPair, "That share if neighbouring splits were independent."]
    level: float
    draws: Annotated[int, "Number of draws used for the strength and H, of all chains."]
    draws_without_pairs: int
    scale: Annotated[
        str, "Scale of the strength in words: the target's, its transform's, or a probability's."
    ]

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
