"""The recalibrated predictive distribution of known outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from sampler.array_types import Floats
from sampler.posterior.laws.predictive import Predictive
from sampler.posterior.recalibration.learning import scores_of
from sampler.posterior.recalibration.recalibration import FARTHEST, SHARES, Recalibration
from sampler.posterior.recalibration.score_table import ScoreTable


@dataclass(frozen=True)
class RecalibratedPredictive:
    """Predictive distribution of the outcomes of rows, recalibrated (docs/maths.md#recalibrated-laws).

    Attributes
    ----------
    law
        The distribution before.
    by
        What is changed.
    scale
        s of each row, float64 [row].
    table
        Quantiles of the rows by normal score.

    """

    has_masses: ClassVar[bool] = False

    law: Predictive
    by: Recalibration
    scale: Floats
    table: ScoreTable

    def log_density(self, y: Floats) -> Floats:
        """Compute the log density of an outcome of each row."""
        before = y - self.by.shift
        w = scores_of(self.law.below(before))
        v = self.by.score(w, self.scale)
        slope = self.by.slope(w / self.scale) / self.scale
        return self.law.log_density(before) + np.log(slope) + 0.5 * (w**2 - v**2)

    def below(self, y: Floats, shares: Floats | None = None) -> Floats:  # noqa: ARG002
        """Compute the probability that each row's outcome is at most y."""
        return np.asarray(ndtr(self.by.score(ndtri(self.law.below(y - self.by.shift)), self.scale)))

    def held(self, level: float) -> Floats:
        """Compute the probability of each row's interval, which is the level."""
        return np.full(len(self.scale), level)

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's outcome; see `Predictive.crps`."""
        points = self.table.outcomes(self.by, self.scale)
        total = np.cumsum(SHARES)
        apart = np.sum(points * SHARES * (2 * total - SHARES - 1), axis=1)
        return np.asarray(np.sum(np.abs(points - y[:, None]) * SHARES, axis=1) - apart)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of each row's equal-tailed interval."""
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, q: float | Floats) -> Floats:
        """Compute each row's quantile, of one probability or of each row's own."""
        w = np.clip(self.by.score_before(ndtri(q), self.scale), -FARTHEST, FARTHEST)
        return self.by.inside(self.law.quantile(ndtr(w)))
