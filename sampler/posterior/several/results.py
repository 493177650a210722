"""Answers about several outcomes: predictions with joint regions, and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.scores import Scores


@dataclass(frozen=True, repr=False)
class SeveralPrediction(Answer):
    """Predictions of several outcomes of rows.

    Attributes
    ----------
    outcomes
        Names of the outcomes.
    level
        Probability of the intervals and regions.
    mean, sd, lower, upper
        float64 [row, outcome]: of each outcome by itself, with its own predictive interval; of two classes
        the probability of the second, with its credible interval. Of a known one, its value (0 or 1 of
        classes), and 0.
    simultaneous_lower, simultaneous_upper
        float64 [row, outcome]: intervals that hold all outcomes of a row at once with probability `level`;
        of classes 0 and 1, which hold either.
    covariance, radius
        The ellipsoid that holds a row's outcomes with probability `level`, float64 [row, outcome, outcome]
        and [row]: (y - mean)' covariance^-1 (y - mean) <= radius^2, of the numbers that are not known.
    effective_draws
        How many draws the answer of each row rests on, float64 [row]: fewer than there are where outcomes
        are known, since draws count by how well they predict these.
    known
        Which outcomes were known, bool [row, outcome].
    warnings
        What to know about the rows.
    labels
        Row labels of the table, or None.
    classes
        Of each outcome its two classes, of numbers none.

    """

    outcomes: tuple[str, ...]
    level: float
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    simultaneous_lower: Floats
    simultaneous_upper: Floats
    covariance: Floats
    radius: Floats
    effective_draws: Floats
    known: NDArray[np.bool_]
    warnings: list[str]
    labels: Any = None
    classes: tuple[tuple[str, ...], ...] = ()

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
