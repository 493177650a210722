"""The posterior of a sum of trees whose noise differs by row: a second forest, of precisions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.explanations.inclusion import rules_per_draw
from sampler.posterior.posterior import Posterior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]

FOREST = "precision"
STEP = 2.0**-20  # grid step of log precisions


class NoiseByRowPosterior(Posterior):
    """Draws of two forests: the mean's, and that of the precision w; the noise has variance sigma^2 / w."""

    noise_differs = True
    own_work = 300  # of a mixture whose components differ in width, row by row

    def __init__(
        self,
        header: Header,
        chains: Sequence[Draws],
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]],
    ) -> None:
        super().__init__(header, chains, blocks, statistics)
        if not all(FOREST in draws.forests for draws in chains):
            raise PackedError("the draws have no forest of precisions")
        self._precision_rules = [
            rules_per_draw(draws.forests[FOREST][: self.num_draws], header) for draws in chains
        ]
        self._precision = Ensemble([draws.forests[FOREST] for draws in chains], len(header.grid.cuts))

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        return super().nbytes + self._precision.nbytes

    def _rule_counts_of(self, part: str) -> list[NDArray[np.int32]]:
        return self._precision_rules if part == "noise" else super()._rule_counts_of(part)

    @cached_property
    def _typical_sigma(self) -> Floats:
        """Geometric mean over the reference rows of each draw's noise sd, float64 [chain, draw].

        Sigma alone means nothing: the forest takes any factor of it.
        """
        return np.asarray(np.exp(np.mean(np.log(self._noise(self.reference)), axis=2)))

    @property
    def sigma(self) -> Floats:
        """Draws of the noise's typical sd, float64 [chain, draw]: its geometric mean over reference rows."""
        return self._typical_sigma

    def _noise_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        steps = self._precision.sums_of(coded, chosen)
        sigma = np.asarray(self._sigma[self._places(chosen)][:, None] * np.exp(-0.5 * STEP * steps))
        return self._with_new_groups(sigma, coded, chosen)
