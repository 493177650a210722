"""The law of ordered classes: a latent outcome, normal around a sum of trees, between thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import PackedError
from sampler.families import threshold_names
from sampler.posterior.core.intervals import IntervalFigures
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.law import Law
from sampler.posterior.laws.probit import PROBABILITY
from sampler.storage.draws import Draws


class OrdinalLaw(Law):
    """Ordered classes: f is the probability, of the second of two classes or [row, class].

    P(y <= k) = Phi(threshold k+1 - sum of trees): a larger sum makes higher classes more probable.
    """

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        self.width = len(draws.header.schema.target.levels)
        names = threshold_names(self.width - 1)
        if any(name not in each.scalars for each in chains for name in names):
            raise PackedError("the draws don't have the thresholds between the classes")
        self.thresholds = np.stack(
            [np.concatenate([each.scalars[name] for each in chains]) for name in names], axis=1
        )
        if not np.all(np.isfinite(self.thresholds)) or np.any(np.diff(self.thresholds) < 0):
            raise PackedError("the thresholds between the classes are not in order")
        self.own_work += PROBABILITY * self.width

    def f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Compute probabilities in the chosen draws, float64 [draw, row]; of several [draw, row, class]."""
        f = self._sums_and_parts(coded, chosen)
        sd = self.with_new_groups(np.ones_like(f), coded, chosen)
        if self.width == 2:
            return np.asarray(ndtr((f - self.thresholds[chosen]) / sd))
        edges = np.zeros((*f.shape, self.width + 1))
        for k, threshold in enumerate(self.thresholds[chosen].T, 1):
            edges[:, :, k] = ndtr((threshold[:, None] - f) / sd)
        edges[:, :, -1] = 1.0
        return np.diff(edges, axis=2)

    def fill(self, figures: IntervalFigures, coded: Coded, num_draws: int | None) -> int:
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws, width=self.width + 1)

    def learnt_unit(self) -> str:
        """Say what the trees learn, in words."""
        levels = self.draws.header.schema.target.levels
        return (
            f"a latent level in standard deviations of its noise (ordered probit): the higher, the nearer to "
            f"{levels[-1]!r} than to {levels[0]!r}"
        )
