"""Answers about several outcomes: predictions with joint regions, and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Axes, ByRow, Floats
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.scores import Scores

ByOutcome = Annotated[Floats, Axes("row", "outcome")]


@dataclass(frozen=True, repr=False)
class SeveralPrediction(Answer):
    """Predictions of several outcomes of rows; figures are [row][outcome]. A known outcome has no spread.

    Those of two classes are about the probability of the second, 0 or 1 where the class is known.

    Attributes
    ----------
    effective_draws
        Fewer than there are where outcomes are known.
    known
        Which outcomes were known, bool [row, outcome].
    labels
        Row labels of the table, or None.

    """

    outcomes: tuple[str, ...]
    level: float
    mean: ByOutcome
    sd: Annotated[ByOutcome, "Of new outcomes; of probabilities over draws."]
    lower: Annotated[
        ByOutcome, "Lower ends of each outcome's own predictive interval, of a probability credible."
    ]
    upper: Annotated[ByOutcome, "Upper ends of these."]
    simultaneous_lower: Annotated[
        ByOutcome, "Lower ends of intervals that hold all numbers of a row at once."
    ]
    simultaneous_upper: Annotated[ByOutcome, "Upper ends of these."]
    covariance: Annotated[
        Floats,
        Axes("row", "outcome", "outcome"),
        "Of new outcomes, [row][outcome][outcome]; 0 of known ones.",
    ]
    radius: Annotated[
        ByRow,
        "By row: the numbers y that aren't known are in the region "
        "(y - mean)' covariance^-1 (y - mean) <= radius^2 with probability `level`.",
    ]
    effective_draws: Annotated[ByRow, "How many draws count, by how well they predict known outcomes."]
    known: NDArray[np.bool_]
    warnings: Annotated[list[str], "Warnings about the rows."]
    labels: Any = None
    classes: Annotated[tuple[tuple[str, ...], ...], "Of each outcome its two classes; none of numbers."] = ()

    @property
    def _are_classes(self) -> NDArray[np.bool_]:
        """Marks of outcomes of classes, bool [outcome]."""
        return np.array([bool(each) for each in self.classes] or [False] * len(self.outcomes))

    def contains(self, Y: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell whether outcomes are in the simultaneous intervals, and in the regions, of their rows.

        Y is float64 [row, outcome], of classes 0 or 1; both answers are bool [row].
        """
        y = np.asarray(Y, np.float64)
        beside = self.known | ((y >= self.simultaneous_lower) & (y <= self.simultaneous_upper))
        inside = np.zeros(len(y), bool)
        for row, seen in enumerate(self.known | self._are_classes):
            rest = (y[row] - self.mean[row])[~seen]
            own = self.covariance[row][~seen][:, ~seen]
            inside[row] = not len(rest) or float(rest @ np.linalg.solve(own, rest)) <= self.radius[row] ** 2
        return np.asarray(beside.all(axis=1)), inside

    def columns(self) -> dict[str, Any]:
        """Arrange it by name: ``a_mean``, ``a_lower``, ``a_together_lower`` and so on."""
        named: dict[str, Any] = {}
        for j, name in enumerate(self.outcomes):
            named[f"{name}_mean"], named[f"{name}_sd"] = self.mean[:, j], self.sd[:, j]
            named[f"{name}_lower"], named[f"{name}_upper"] = self.lower[:, j], self.upper[:, j]
            if self._are_classes[j]:
                continue
            named[f"{name}_together_lower"] = self.simultaneous_lower[:, j]
            named[f"{name}_together_upper"] = self.simultaneous_upper[:, j]
        named["effective_draws"] = self.effective_draws
        return named


@dataclass(frozen=True, repr=False)
class SeveralScores(Answer):
    """Scores of predictions of several outcomes.

    Attributes
    ----------
    rows
        Rows with at least one outcome.
    log_score
        Mean log density of a row's observed outcomes; more is better.
    separate_log_score
        The same if the errors had no correlation: the sum of the outcomes' own log densities.
    gain, gain_error
        The difference, what correlation is worth, and its standard error.
    energy_score
        Mean energy score of rows with all outcomes, each in units of its standard deviation among them; less
        is better. None without such rows.
    coverage
        For each level: ``level``, the share of these rows inside their ``region``, inside their
        ``simultaneous`` intervals, and inside ``separate`` intervals of that level all at once.
    outcomes
        Scores of each outcome by itself, see `Posterior.score`.

    """

    rows: int
    log_score: float
    separate_log_score: float
    gain: float
    gain_error: float
    energy_score: float | None
    coverage: list[dict[str, float]]
    outcomes: dict[str, Scores]

    def columns(self) -> dict[str, Any]:
        """Arrange them by name: the score and its value."""
        named: dict[str, float | None] = {
            name: getattr(self, name)
            for name in ("rows", "log_score", "separate_log_score", "gain", "gain_error", "energy_score")
        }
        for each in self.coverage:
            for kind in ("region", "simultaneous", "separate"):
                named[f"{kind}_coverage_{100 * each['level']:g}"] = each[kind]
        return {"score": list(named), "value": [*named.values()]}
