"""Totals, means and quantiles of sets of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import cells_to_text
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.columns import by_class, ends_of

COUNTS = ("rows", "observed_rows", "new_groups")


@dataclass(frozen=True, repr=False)
class Aggregate(Answer):
    """A figure of sets of rows, with intervals of its own: they are no sums of intervals of rows.

    Attributes
    ----------
    figure
        In words, what the figure is: "total of mpg that will be observed".
    sets
        The value of each set, by column, in the order of the figures; None for rows without one.
    mean, lower, upper
        Figure of each set and the ends of its interval, float64 [set]; of more than two classes [set, class].
    rows, observed_rows
        Rows of each set, and those of them whose outcomes are known, int64 [set].
    new_groups
        Groups of each set that the model has not seen, int64 [set]; each row without a group is one.
    level
        Probability of the intervals.
    interval
        "predictive", of the outcomes that will be observed, "credible", of what is expected, or "calibrated".
    warnings
        Sentences about rows unlike the training data, and sets that are left out.
    classes
        Names of the classes, where there are figures of each; else None.
    claim
        What calibrated intervals hold, in words; None of others.

    """

    figure: str
    sets: dict[str, list[str | None]]
    mean: Floats
    lower: Floats
    upper: Floats
    rows: NDArray[np.int64]
    observed_rows: NDArray[np.int64]
    new_groups: NDArray[np.int64]
    level: float
    interval: str
    warnings: list[str]
    classes: tuple[str, ...] | None = None
    claim: str | None = None

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with a line for each set: its values, rows, mean, lower_90, upper_90, ..."""
        figures = {"mean": self.mean} | ends_of([Interval(self.level, self.lower, self.upper)])
        counts = {name: getattr(self, name) for name in COUNTS}
        return self.sets | by_class(figures, self.classes) | counts

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, with a list of sets; figures of classes are lists."""
        figures = {name: getattr(self, name) for name in ("mean", "lower", "upper", *COUNTS)}
        ends = {name: np.where(np.isinf(figures[name]), None, figures[name]) for name in ("lower", "upper")}
        figures = {name: values.tolist() for name, values in (figures | ends).items()}
        sets = [dict(zip(self.sets, own, strict=True)) for own in zip(*self.sets.values(), strict=True)]
        sets = sets or [{}] * len(self.rows)
        return {
            "figure": self.figure,
            "level": self.level,
            "interval": self.interval,
            "classes": None if self.classes is None else list(self.classes),
            "sets": [
                {"set": own} | {name: values[k] for name, values in figures.items()}
                for k, own in enumerate(sets)
            ],
            "claim": self.claim,
            "warnings": self.warnings,
        }

    def __str__(self) -> str:
        labels = [", ".join(str(value) for value in own) for own in zip(*self.sets.values(), strict=True)]
        labels = labels or ["all rows"] * len(self.rows)
        width = max(map(len, [*labels, ", ".join(self.sets)])) + 2
        lines = [
            f"{self.figure}, {self.level:.0%} intervals",
            f"{', '.join(self.sets):{width}}{'rows':>8}{'mean':>12}{'lower':>12}{'upper':>12}",
        ]
        for k, (label, rows) in enumerate(zip(labels, self.rows, strict=True)):
            ends = np.stack([np.atleast_1d(each[k]) for each in (self.mean, self.lower, self.upper)], axis=1)
            for j, own in enumerate(ends):
                of = f"  {self.classes[j]}" if self.classes is not None else ""
                lines.append(f"{'' if j else label:{width}}{rows:8}{cells_to_text(own, 12)}{of}")
        return "\n".join([*lines, *([self.claim] if self.claim else []), *self.warnings])
