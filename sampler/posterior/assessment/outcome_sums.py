"""Sums of outcomes' scores over a week, from which every figure of the watch on a model is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sampler.posterior.verdict.intervals import chance_range

if TYPE_CHECKING:
    from sampler.posterior.assessment.outcome_scores import OutcomeScores

BINS = 10  # bins of the probability integral transform
FIRST_MONDAY = date(1970, 1, 5)
CENTRAL = 1.959964  # sds of a normal's central 95%


def week_of(at: datetime) -> int:
    """Return the number of the week, from Monday, in UTC; week 0 begins on 5 January 1970."""
    return (at.astimezone(UTC).date() - FIRST_MONDAY).days // 7


def monday_of(week: int) -> date:
    """Return the first day of a week."""
    return FIRST_MONDAY + timedelta(weeks=week)


def _no_bins() -> list[int]:
    return [0] * BINS


@dataclass(frozen=True)
class OutcomeSums:
    """Sums over outcomes: their number, marks, scores and squares; `bins` counts the PIT in tenths.

    Of forecasts `steps` are numbers of outcomes, and of those inside 50% and 90% intervals, by step ahead.
    """

    rows: int = 0
    inside_50: int = 0
    inside_90: int = 0
    above: int = 0
    pit: float = 0.0
    log_score: float = 0.0
    log_squares: float = 0.0
    error: float = 0.0
    error_rows: int = 0  # with a known error
    bins: list[int] = field(default_factory=_no_bins)
    steps: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, scores: OutcomeScores) -> Self:
        """Add up rows."""
        known = ~np.isnan(scores.error)
        bins = np.bincount(np.minimum((scores.pit * BINS).astype(int), BINS - 1), minlength=BINS)
        return cls(
            rows=len(scores),
            inside_50=int(scores.inside_50.sum()),
            inside_90=int(scores.inside_90.sum()),
            above=int(scores.above.sum()),
            pit=float(scores.pit.sum()),
            log_score=float(scores.log_score.sum()),
            log_squares=float(np.sum(scores.log_score**2)),
            error=float(scores.error[known].sum()),
            error_rows=int(known.sum()),
            bins=bins.tolist(),
            steps=[] if scores.steps is None else scores.steps.sum(axis=0).tolist(),
        )

    def plus(self, other: OutcomeSums, sign: int = 1) -> OutcomeSums:
        """Add other sums, or take them away with sign -1."""
        mine, theirs = vars(self), vars(other)
        added = {name: mine[name] + sign * theirs[name] for name in mine if name not in ("bins", "steps")}
        bins = [a + sign * b for a, b in zip(self.bins, other.bins, strict=True)]
        both = zip_longest(self.steps, other.steps, fillvalue=[0, 0, 0])
        steps = [[a + sign * b for a, b in zip(*each, strict=True)] for each in both]
        return OutcomeSums(**added, bins=bins, steps=steps)

    def to_json(self) -> dict[str, Any]:
        """Return the sums as JSON values."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: each for name, each in named.items() if name != "steps" or each}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned."""
        return cls(**values)

    def coverage(self, level: float) -> dict[str, float]:
        """Return the share inside intervals of level 0.5 or 0.9, and the 95% range that chance allows it."""
        inside = self.inside_50 if level == 0.5 else self.inside_90
        lower, upper = chance_range(level, self.rows)
        return {"level": level, "observed": inside / self.rows, "lower": lower, "upper": upper}

    def by_step(self) -> list[OutcomeSums]:
        """Return the numbers of forecasts of outcomes, and of those inside, of each step ahead from 1."""
        return [OutcomeSums(rows, half, most) for rows, half, most in self.steps]

    def pit_mean(self) -> dict[str, float]:
        """Return the mean PIT, and the 95% range that chance allows it around a half."""
        reach = CENTRAL / float(np.sqrt(12 * self.rows))
        return {
            "observed": self.pit / self.rows,
            "lower": max(0.0, 0.5 - reach),
            "upper": min(1.0, 0.5 + reach),
        }

    def histogram(self) -> list[dict[str, float]]:
        """Return the share of outcomes in each tenth of the PIT, and the 95% range that chance allows it."""
        lower, upper = chance_range(1 / BINS, self.rows)
        return [
            {"from": i / BINS, "observed": count / self.rows, "lower": lower, "upper": upper}
            for i, count in enumerate(self.bins)
        ]

    def log_score_sd(self) -> float:
        """Return the standard deviation of the rows' log scores; 0 for fewer than two rows."""
        if self.rows < 2:
            return 0.0
        squares = self.log_squares - self.log_score**2 / self.rows
        return float(np.sqrt(max(squares, 0.0) / (self.rows - 1)))

    def mean_log_score(self) -> float:
        """Return the mean log score."""
        return self.log_score / self.rows

    def mean_error(self) -> float | None:
        """Return the mean of the known errors; None where none is known."""
        return self.error / self.error_rows if self.error_rows else None
