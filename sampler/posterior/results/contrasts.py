"""Contrasts: differences of predictions between two settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from sampler.array_types import Bools, BoolsByRow, ByClass, ByRowAndClass
from sampler.data.scalars import cells_to_text
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import by_class, ends_of


class ContrastEstimate(NamedTuple):
    """An average contrast with its interval; lists, one number for each class, with more than two classes."""

    mean: ByClass
    lower: ByClass
    upper: ByClass
    rows: Annotated[int, "Number of rows averaged over."]


@dataclass(frozen=True, repr=False)
class Contrast(RowAnswer):
    """Differences of the regression function between two settings, first less second.

    They say how predictions differ; whether they are effects of changing the features depends on assumptions
    that no data can show.

    Attributes
    ----------
    unlike
        For the first and the second setting, bool [row]: whether the training data have no rows like this one
        with the setting.
    classes
        Names of the classes; None for numbers.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    card = "cards:contrast_card"

    mean: Annotated[ByRowAndClass, "By row, [row] or [row][class]."]
    lower: ByRowAndClass
    upper: ByRowAndClass
    average: Annotated[ContrastEstimate, "Over these rows, which its interval takes as given."]
    population: Annotated[
        ContrastEstimate, "Over the population the rows are a sample of; by the Bayesian bootstrap."
    ]
    treated: Annotated[
        ContrastEstimate | None,
        "Over the rows that have the first setting already; null if there are none.",
    ]
    groups: Annotated[dict[str, ContrastEstimate], "Over the rows of each level or quarter of `by`."]
    unlike: tuple[Bools, Bools]
    level: float
    difference: Annotated[str, "In words, what is subtracted from what."]
    warnings: list[str]
    classes: tuple[str, ...] | None = None
    labels: Any = field(default=None, repr=False, compare=False)

    @property
    def unlike_first(
        self,
    ) -> Annotated[BoolsByRow, "For each row, whether no training row near the first setting resembles it."]:
        """Rows that no training row near the first setting resembles."""
        return self.unlike[0]

    @property
    def unlike_second(self) -> BoolsByRow:
        """Rows that no training row near the second setting resembles."""
        return self.unlike[1]

    def named_estimates(self) -> dict[str, ContrastEstimate]:
        """Return the averages with names: of the rows, the population, the treated and the groups."""
        averages = {"average": self.average, "population": self.population}
        averages |= {} if self.treated is None else {"treated": self.treated}
        return averages | self.groups

    def __str__(self) -> str:
        averages = self.named_estimates()
        width = max(map(len, averages)) + 2
        lines = [self.difference, f"{'':{width}}{'rows':>8}{'mean':>12}{'lower':>12}{'upper':>12}"]
        for name, estimate in averages.items():
            for k, ends in enumerate(np.stack(np.atleast_1d(*estimate[:3]), axis=-1)):
                label = name if not k else ""
                of = f"  {self.classes[k]}" if self.classes is not None and np.ndim(estimate.mean) else ""
                lines.append(f"{label:{width}}{estimate.rows:8}{cells_to_text(ends, 12)}{of}")
        return "\n".join([*lines, *self.warnings])

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [row] with ``mean``, ``lower_90``, ``upper_90`` and where rows are unlike."""
        figures = {"mean": self.mean} | ends_of([Interval(self.level, self.lower, self.upper)])
        unlike = {"unlike_first": self.unlike_first, "unlike_second": self.unlike_second}
        return by_class(figures, self.classes) | unlike

    def plot(self, ax: Any = None) -> Any:
        """Draw the averages, and those of groups, with matplotlib; return the axes."""
        return plot("rankings:contrast", ax, self)
