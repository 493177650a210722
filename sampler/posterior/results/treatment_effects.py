"""Effects of a treatment: on average, in groups and for each row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sampler.data.scalars import cells_to_text
from sampler.posterior.core.intervals import Interval
from sampler.posterior.results.answer import RowAnswer, plot
from sampler.posterior.results.columns import ends_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class EffectEstimate(NamedTuple):
    """Average effect over some rows.

    Attributes
    ----------
    mean
        Posterior mean, in units of the outcome.
    lower, upper
        Ends of the interval for these rows, which it takes as given.
    population_lower, population_upper
        Ends of the interval for the population that they are a sample of (Bayesian bootstrap).
    positive
        Posterior probability that the average over these rows is above 0.
    rows
        Number of rows averaged over.

    """

    mean: float
    lower: float
    upper: float
    population_lower: float
    population_upper: float
    positive: float
    rows: int


class EffectSpread(NamedTuple):
    """Standard deviation of the effect from row to row, with its interval, in units of the outcome."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class TreatmentEffects(RowAnswer):
    """Effects of a treatment: how much it adds to the outcome.

    Attributes
    ----------
    difference
        In words, what is subtracted from what, with the outcome's unit if that is known.
    holds
        A sentence on what must be true for these figures to be effects of the treatment.
    of
        Rows that count: "all", "treated" or "untreated".
    average
        Average over the rows that count.
    treated, untreated
        Averages over those of them in either arm; None where there are none.
    groups
        Averages over the rows of each group that has any.
    spread
        By how much effects differ from row to row.
    mean, lower, upper
        Effect on each row, float64 [row], credible.
    positive
        Posterior probability that a row's effect is above 0, float64 [row].
    is_treated
        Whether a row was treated, bool [row].
    propensity
        Fitted probability of being treated, float64 [row]; None where none was fitted.
    level
        Probability of the intervals.
    warnings
        Sentences about rows that the data say little about.
    labels
        Labels of the rows (an index of pandas), which `to_pandas` keeps; None for rows without.

    """

    card = "cards:effects_card"

    difference: str
    holds: str
    of: str
    average: EffectEstimate
    treated: EffectEstimate | None
    untreated: EffectEstimate | None
    groups: dict[str, EffectEstimate]
    spread: EffectSpread
    mean: Floats
    lower: Floats
    upper: Floats
    positive: Floats
    is_treated: NDArray[np.bool_]
    propensity: Floats | None
    level: float
    warnings: list[str]
    labels: Any = field(default=None, repr=False, compare=False)

    def named_estimates(self) -> dict[str, EffectEstimate]:
        """Return the averages with names: of all rows that count, of the arms and of the groups."""
        named = {"average": self.average, "treated": self.treated, "untreated": self.untreated}
        return {name: each for name, each in named.items() if each is not None} | self.groups

    def __str__(self) -> str:
        averages = self.named_estimates()
        width = max(map(len, averages)) + 2
        lines = [self.difference, f"{'':{width}}{'rows':>8}{'mean':>12}{'lower':>12}{'upper':>12}"]
        lines += [
            f"{name:{width}}{each.rows:8}{cells_to_text(list(each[:3]), 12)}"
            for name, each in averages.items()
        ]
        return "\n".join([*lines, self.holds, *self.warnings])

    def columns(self) -> dict[str, Any]:
        """Arrange it by name [row]: ``effect``, ``lower_90``, ``upper_90``, ``positive`` and so on."""
        named = {"effect": self.mean} | ends_of([Interval(self.level, self.lower, self.upper)])
        named |= {"positive": self.positive, "treated": self.is_treated}
        return named | ({} if self.propensity is None else {"propensity": self.propensity})

    def plot(self, ax: Any = None) -> Any:
        """Draw the averages, those of the arms and of groups, with matplotlib; return the axes."""
        return plot("rankings:treatment_effects", ax, self)
