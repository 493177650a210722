"""Tables of a law's quantiles at some normal scores of each row, by which a recalibrated one has moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from sampler.array_types import Floats
from sampler.data.transform import Transform
from sampler.posterior.core.intervals import Given
from sampler.posterior.recalibration.learning import scores_of
from sampler.posterior.recalibration.recalibration import POINTS, SHARES, Recalibration
from sampler.posterior.weighting import noise_law

SIDE = np.array([0.4, 0.9, 1.6, 2.5, 3.6])
NODES = np.concatenate([-SIDE[::-1], [0.0], SIDE])  # in standard deviations from the mean
APART = 1e-9  # least distance of scores


@dataclass(frozen=True)
class ScoreTable:
    """A law's quantiles by normal score: of what the model learns, linear between and beyond nodes.

    `score` and `at` are float64 [row, node].
    """

    score: Floats
    at: Floats
    transform: Transform

    @classmethod
    def of(cls, given: Given, mean: Floats, sd: Floats) -> Self:
        """Tabulate the law of rows by draws that are given; `mean` and `sd` are those by all draws."""
        f, noise, shape, transform = given
        width = np.sqrt(f.var(axis=1) + np.mean(noise**2, axis=-1))
        at = f.mean(axis=1)[:, None] + width[:, None] * NODES
        z = (at[:, :, None] - f[:, None, :]) / (noise if noise.ndim == 1 else noise[:, None, :])
        score = scores_of(noise_law.below(z, shape).mean(axis=2))
        score = np.maximum.accumulate(score, axis=1) + APART * np.arange(len(NODES))
        if not transform:
            at = mean[:, None] + sd[:, None] * NODES
        return cls(score, at, transform)

    def outcomes(self, by: Recalibration, scale: Floats, v: Floats = POINTS) -> Floats:
        """Find the outcomes of the recalibrated law at normal scores v, float64 [row, score]."""
        return self._inside(by, _by_row(by.score_before(v, scale[:, None]), self.score, self.at))

    def moments(self, by: Recalibration, scale: Floats) -> tuple[Floats, Floats]:
        """Compute mean and standard deviation of the recalibrated law, float64 [row]."""
        y, shares = self.outcomes(by, scale, POINTS[::2]), SHARES[::2] / SHARES[::2].sum()
        mean = np.sum(y * shares, axis=1)
        return mean, np.sqrt(np.sum((y - mean[:, None]) ** 2 * shares, axis=1))

    def changed(self, by: Recalibration, scale: Floats, y: Floats) -> Floats:
        """Change outcomes drawn from the law [row, draw] to such of the recalibrated law, in their order."""
        learnt = self.transform.forward(y)
        w = by.score_before(_by_row(learnt, self.at, self.score), scale[:, None])
        return self._inside(by, _by_row(w, self.score, self.at))

    def _inside(self, by: Recalibration, learnt: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return by.inside(self.transform.inverse(learnt))


def _by_row(at: Floats, x: Floats, y: Floats) -> Floats:
    """Interpolate linearly at [row, value] between each row's own nodes x and y [row, node], and beyond."""
    place = np.sum(at[:, :, None] >= x[:, None, 1:-1], axis=2)
    x0, x1, y0, y1 = (np.take_along_axis(each, place + k, axis=1) for each in (x, y) for k in (0, 1))
    return np.asarray(y0 + (at - x0) * ((y1 - y0) / (x1 - x0)))
