"""Intercepts and slopes of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from sampler.array_types import Axes, Floats, Longs
from sampler.data.scalars import cells_to_text, number_to_text, range_to_text
from sampler.posterior.protocol import Document
from sampler.posterior.results.answer import Answer

FIGURES = ("mean", "sd", "lower", "upper")


ByGroup = Annotated[Floats, Axes("group")]


@dataclass(frozen=True, eq=False, repr=False)
class GroupDeviation(Document):
    """Standard deviation of the intercepts, or slopes, of all groups, new ones included."""

    mean: float
    sd: float
    lower: float
    upper: float
    rhat: Annotated[float | None, "Rank-normalised split R-hat; null with too few draws."]
    ess_bulk: float | None
    ess_tail: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Correlation(Document):
    """Correlation over groups of slopes with intercepts."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class GroupSlopes:
    """Slopes of one feature by group, beside what all groups share.

    Attributes
    ----------
    mean, sd, lower, upper
        Change for one more unit of the feature, by group, over draws.
    correlation
        Of slopes with the intercepts, which are at the feature's mean.

    """

    feature: str
    groups: tuple[str, ...] = field(compare=False)
    mean: ByGroup
    sd: ByGroup
    lower: ByGroup
    upper: ByGroup
    standard_deviation: GroupDeviation
    correlation: Correlation


@dataclass(frozen=True, repr=False)
class GroupEffects(Answer):
    """Intercepts, and slopes, of the groups of one column.

    Attributes
    ----------
    mean, sd, lower, upper
        Of the intercepts over draws.
    share
        The variance is that of this column, other columns and the noise.

    """

    column: str
    scale: Annotated[str, "What intercepts are in units of."]
    groups: tuple[str, ...]
    rows: Annotated[Longs, Axes("group"), "Number of training rows of the group."]
    mean: ByGroup
    sd: ByGroup
    lower: ByGroup
    upper: ByGroup
    level: Annotated[float, "The level of the intervals."]
    standard_deviation: GroupDeviation
    share: Annotated[float, "Share of the variance beside f between these groups."]
    slopes: Annotated[
        tuple[GroupSlopes, ...],
        "Of each feature whose slope differs by group; intercepts are at these features' means.",
    ] = ()

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with a row for each group: group, rows, mean, sd, lower, upper.

        Slopes have the columns mean, sd, lower and upper too, after the feature's name and a colon.
        """
        columns: dict[str, Any] = {"group": list(self.groups), "rows": self.rows}
        columns |= {name: getattr(self, name) for name in FIGURES}
        for each in self.slopes:
            columns |= {f"{each.feature}: {name}": getattr(each, name) for name in FIGURES}
        return columns

    def __str__(self) -> str:
        width = max(map(len, (*self.groups, self.column))) + 2
        lines = [
            f"standard deviation {_with_interval(self.standard_deviation)}, "
            f"{self.share:.0%} of the variance beside f",
            f"{self.column:{width}}{'rows':>8}{'mean':>10}{'lower':>10}{'upper':>10}",
        ]
        for name, count, *figures in zip(
            self.groups, self.rows, self.mean, self.lower, self.upper, strict=True
        ):
            lines.append(f"{name:{width}}{count:8}" + cells_to_text(figures, 10))
        for each in self.slopes:
            lines += [
                "",
                f"slope of {each.feature}: standard deviation {_with_interval(each.standard_deviation)}, "
                f"correlation with the intercept {_with_interval(each.correlation)}",
            ]
            for name, *figures in zip(self.groups, each.mean, each.lower, each.upper, strict=True):
                lines.append(f"{name:{width + 8}}" + cells_to_text(figures, 10))
        return "\n".join(lines)


def _with_interval(figures: Mapping[str, float | None]) -> str:
    return f"{number_to_text(figures['mean'])} ({range_to_text(figures['lower'], figures['upper'])})"
