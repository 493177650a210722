"""Contrasts: differences of predictions between two settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.scalars import cells_to_text
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import by_class, ends_of


class ContrastEstimate(NamedTuple):
    """Posterior mean and interval of an average contrast, and the number of rows averaged over.

    Numbers; for more than two classes float64 [class].
    """

    mean: Any
    lower: Any
    upper: Any
    rows: int


@dataclass(frozen=True, repr=False)
class Contrast(RowAnswer):
    """Differences of the regression function between two settings of columns.

    They say how predictions differ. Whether they are effects of changing the columns depends on assumptions
    that no data can show (docs/contrasts.md).

    Attributes
    ----------
    mean, lower, upper
        float64 [row], credible; for more than two classes [row, class].
    average
        Average over these rows (ATE of the sample); its interval takes the rows as given.
    population
        Average over the population that the rows are a sample of; its interval allows for their number, by
        the Bayesian bootstrap.
    treated
        Average over the rows that have the first setting already (ATT); None if there are none.
    groups
        Averages over the rows of each level of a column that any row has, in the order of the levels.
    unlike
        For the first and the second setting, bool [row]: whether the training data have no rows like this one
        with the setting.
    level
        Probability of the intervals.
    difference
        In words, what is subtracted from what: "mpg where origin = 3, minus mpg where origin = 1".
    warnings
        Sentences about settings and rows that the data say little about.
    classes
        Names of the classes; None for numbers.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    card = "cards:contrast_card"

    mean: Floats
    lower: Floats
    upper: Floats
    average: ContrastEstimate
    population: ContrastEstimate
    treated: ContrastEstimate | None
    groups: dict[str, ContrastEstimate]
    unlike: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    level: float
    difference: str
    warnings: list[str]
    classes: tuple[str, ...] | None = None
    labels: Any = field(default=None, repr=False, compare=False)

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
        return by_class(figures, self.classes) | dict(
            zip(("unlike_first", "unlike_second"), self.unlike, strict=True)
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the averages, and those of groups, with matplotlib; return the axes."""
        return plot("rankings:contrast", ax, self)
