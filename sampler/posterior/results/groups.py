"""Intercepts and slopes of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import cells_to_text, number_to_text, range_to_text
from sampler.posterior.results.answer import Answer

FIGURES = ("mean", "sd", "lower", "upper")


@dataclass(frozen=True)
class GroupSlopes:
    """Slopes of one feature by group, beside those that all groups share.

    Attributes
    ----------
    feature
        Name of the feature.
    mean, sd, lower, upper
        Change for one more unit of the feature, by group, over draws, float64 [group].
    standard_deviation
        Of the slopes of all groups, as of the intercepts.
    correlation
        Of slopes with the intercepts, which are at the feature's mean: ``mean, lower, upper``.

    """

    feature: str
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    standard_deviation: dict[str, float | None]
    correlation: dict[str, float]


@dataclass(frozen=True, repr=False)
class GroupEffects(Answer):
    """Intercepts of the groups of one column, with those of their standard deviation.

    Attributes
    ----------
    column
        Name of the column.
    scale
        What intercepts are in units of, in words.
    groups
        Names of the groups.
    rows
        Training rows of each group, int64 [group].
    mean, sd, lower, upper
        Of the intercepts over draws, float64 [group].
    level
        Probability of the intervals.
    standard_deviation
        Of the intercepts of all groups, new ones included: ``mean, sd, lower, upper, rhat, ess_bulk,
        ess_tail``; undefined figures are None.
    share
        Mean of the share of the variance beside f that is between the groups: of this column, other columns
        and the noise.
    slopes
        Slopes by group of each feature that has such; intercepts are then at these features' means.

    """

    column: str
    scale: str
    groups: tuple[str, ...]
    rows: NDArray[np.int64]
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    level: float
    standard_deviation: dict[str, float | None]
    share: float
    slopes: tuple[GroupSlopes, ...] = ()

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with a row for each group: group, rows, mean, sd, lower, upper.

        Slopes have the columns mean, sd, lower and upper too, after the feature's name and a colon.
        """
        columns: dict[str, Any] = {"group": list(self.groups), "rows": self.rows}
        columns |= {name: getattr(self, name) for name in FIGURES}
        for each in self.slopes:
            columns |= {f"{each.feature}: {name}": getattr(each, name) for name in FIGURES}
        return columns

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, with a list of groups."""
        lists = [list(self.groups), self.rows.tolist(), *(getattr(self, name).tolist() for name in FIGURES)]
        names = ("group", "rows", *FIGURES)
        return {
            "column": self.column,
            "scale": self.scale,
            "level": self.level,
            "standard_deviation": self.standard_deviation,
            "share": self.share,
            "groups": [dict(zip(names, each, strict=True)) for each in zip(*lists, strict=True)],
            "slopes": [
                {
                    "feature": each.feature,
                    "standard_deviation": each.standard_deviation,
                    "correlation": each.correlation,
                    "groups": [
                        dict(zip(("group", *FIGURES), own, strict=True))
                        for own in zip(
                            self.groups, *(getattr(each, name).tolist() for name in FIGURES), strict=True
                        )
                    ],
                }
                for each in self.slopes
            ],
        }

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
