"""Times until which the rows of a fit were followed in each arm, as far as effects can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampler.array_types import Bools, Floats

PARTS = 100  # equal parts of an arm's rows by their times
FEW = 0.1  # share of an arm's rows that are followed as long as effects are asked for by default


@dataclass(frozen=True)
class FollowUp:
    """Times of the rows of a fit by arm, of events or until which there was none; of a dose all are one arm.

    Attributes
    ----------
    times
        Times that divide the rows into a hundred parts, the first and last included, float64 [arm, part].
    survival
        Kaplan and Meier's curve at these, each row weighted by the inverse of its arm's probability.
    rows, events
        Numbers of rows, and of events seen, by arm.

    """

    times: Floats
    survival: Floats
    rows: tuple[int, ...]
    events: tuple[int, ...]

    @classmethod
    def of(cls, times: Floats, events: Bools, arms: Sequence[Bools], weights: Sequence[Floats]) -> FollowUp:
        """Sum up times of rows [row], the rows of each arm, and the weights [row] of each."""
        parts, curves = np.empty((2, len(arms), PARTS + 1))
        for own, (part, curve, weight) in zip(arms, zip(parts, curves, weights, strict=True), strict=True):
            order = np.lexsort((~events[own], times[own]))
            at, seen, w = times[own][order], events[own][order], weight[own][order]
            at_risk: Floats = np.cumsum(w[::-1])[::-1]
            left = np.cumprod(np.maximum(1.0 - np.where(seen, w, 0.0) / at_risk, 0.0))
            part[:] = np.quantile(at, np.linspace(0, 1, PARTS + 1), method="inverted_cdf")
            curve[:] = left[np.searchsorted(at, part, side="right") - 1]
        for numbers in (parts, curves):  # equal files on machines whose last digits differ
            numbers[:] = [[float(f"{number:.9g}") for number in each] for each in numbers]
        rows = tuple(int(own.sum()) for own in arms)
        return cls(parts, curves, rows, tuple(int((own & events).sum()) for own in arms))

    def at_risk(self, arm: int, time: float) -> float:
        """Return the share of an arm's rows that were followed until a time, to one part in a hundred."""
        return max(1.0 - int(np.searchsorted(self.times[arm], time)) / PARTS, 0.0)

    def default(self, arms: Sequence[int]) -> float:
        """Return the time until which a tenth of the rows of each of these arms were followed."""
        return float(self.times[[*arms], round(PARTS * (1 - FEW))].min())

    def curve(self, arm: int, at: Floats) -> Floats:
        """Return Kaplan and Meier's curve of an arm at some times."""
        place = np.searchsorted(self.times[arm], at, side="right")
        return np.concatenate([[1.0], self.survival[arm]])[place]

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        return {name: np.asarray(each).tolist() for name, each in vars(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, Any], num_arms: int) -> FollowUp:
        """Read and check what `to_json` returned; raises ValueError for what no model has."""
        times, survival = (np.array(values[name], np.float64) for name in ("times", "survival"))
        rows, events = (tuple(map(int, values[name])) for name in ("rows", "events"))
        shape = (num_arms, PARTS + 1)
        if times.shape != shape or survival.shape != shape or not len(rows) == len(events) == num_arms:
            raise ValueError("its times don't fit its arms")
        if not (np.all(np.isfinite(times)) and np.all(times > 0) and np.all(np.diff(times) >= 0)):
            raise ValueError("its times don't rise")
        if not np.all((survival >= 0) & (survival <= 1)) or min(rows) < 1 or min(events) < 0:
            raise ValueError("its curves are no shares")
        return cls(times, survival, rows, events)
