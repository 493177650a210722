"""The law of a sum of trees whose noise differs by row: a second forest, of precisions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.errors import PackedError
from sampler.posterior.core.ensemble import Ensemble, rules_per_draw
from sampler.posterior.core.stored_draws import StoredDraws
from sampler.posterior.laws.normal import NormalLaw
from sampler.storage.draws import Draws

FOREST = "precision"
STEP = 2.0**-20  # grid step of log precisions


class NoiseByRowLaw(NormalLaw):
    """Draws of two forests: the mean's, and that of the precision w; the noise has variance sigma^2 / w."""

    noise_differs = True
    noise_work = 300  # of a mixture whose components differ in width, row by row

    def __init__(self, draws: StoredDraws, chains: Sequence[Draws]) -> None:
        super().__init__(draws, chains)
        header = draws.header
        if not all(FOREST in each.forests for each in chains):
            raise PackedError("the draws have no forest of precisions")
        self._precision_rules = [
            rules_per_draw(each.forests[FOREST][: draws.num_draws], header) for each in chains
        ]
        self._precision = Ensemble([each.forests[FOREST] for each in chains], self.ensemble.num_features)

    exact_sums, mean_grid, adds_effect = NormalLaw.exact_sums, NormalLaw.mean_grid, NormalLaw.adds_effect

    def _rule_counts_of(self, part: str) -> list[NDArray[np.int32]]:
        return self._precision_rules if part == "noise" else super()._rule_counts_of(part)

    @cached_property
    def _typical_sigma(self) -> Floats:
        """Geometric mean over the reference rows of each draw's noise sd, float64 [chain, draw].

        Sigma alone means nothing: the forest takes any factor of it.
        """
        return np.asarray(np.exp(np.mean(np.log(self.noise(self.draws.reference)), axis=2)))

    @property
    def sigma(self) -> Floats:
        """Draws of the noise's typical sd, float64 [chain, draw]: its geometric mean over reference rows."""
        return self._typical_sigma

    def noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        """Return the noise sd of the chosen draws at each row, float64 [draw, row]."""
        steps = self._precision.sums_of(self.with_columns(coded), chosen)
        sigma = np.asarray(self.draws.sigma[self.draws.places(chosen)][:, None] * np.exp(-0.5 * STEP * steps))
        return self.with_new_groups(sigma, coded, chosen)
