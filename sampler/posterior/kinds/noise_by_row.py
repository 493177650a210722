"""The posterior of a sum of trees whose noise differs by row: a second forest, of precisions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.row_flags import by_row
from sampler.errors import PackedError
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.intervals import Interval, Quantile, Request
from sampler.posterior.posterior import MAX_CELLS, Posterior, Prediction
from sampler.posterior.weighting.quantiles import normal_mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]

FOREST = "precision"
STEP = 2.0**-20  # of log precisions
BLOCK_ROWS = 1024


class NoiseByRowPosterior(Posterior):
    """Draws of two forests: the mean's, and that of the precision w; the noise has variance sigma^2 / w."""

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
        self._precision = Ensemble([draws.forests[FOREST] for draws in chains], len(header.grid.cuts))

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        return super().nbytes + self._precision.nbytes

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

    def sample_sigma(self, X: Any, num_draws: int | None = None) -> Floats:
        """Return draws of the noise standard deviation at each row of X, float64 [chain, draw, row]."""
        return self._noise(self._coded(X), num_draws)

    def _noise(self, coded: Coded, num_draws: int | None = None) -> Floats:
        chosen, used = self._choose(num_draws)
        steps = self._precision.sums(coded.codes, chosen).reshape(self.num_chains, used, coded.num_rows)
        return np.asarray(self._sigma[:, :used, None] * np.exp(-0.5 * STEP * steps))

    def _predict(self, coded: Coded, request: Request, num_draws: int | None) -> Prediction:
        if request.kind != "predictive":
            return super()._predict(coded, request, num_draws)
        chosen, used = self._choose(num_draws)
        count = len(chosen)
        share = np.full(count, 1 / count)
        mean, sd = np.empty(coded.num_rows), np.empty(coded.num_rows)
        bounds = np.empty((len(request.tails), coded.num_rows))
        size = min(BLOCK_ROWS, max(16, MAX_CELLS // count))
        for start in range(0, coded.num_rows, size):
            rows = slice(start, min(start + size, coded.num_rows))
            part = coded.part(rows)
            f = np.ascontiguousarray(self._f(part, used).reshape(count, -1).T)
            noise = np.ascontiguousarray(self._noise(part, used).reshape(count, -1).T)
            mean[rows] = f.mean(axis=1)
            variance = f.var(axis=1, ddof=1) if count > 1 else np.zeros(len(f))
            sd[rows] = np.sqrt(variance + np.mean(noise**2, axis=1))
            if len(request.tails):
                bounds[:, rows] = normal_mixture(f, noise, share, request.tails)
        ends = 2 * len(request.levels)
        return Prediction(
            mean,
            sd,
            [Interval(v, bounds[2 * i], bounds[2 * i + 1]) for i, v in enumerate(request.levels)],
            [Quantile(q, bounds[ends + i]) for i, q in enumerate(request.quantiles)],
            list(coded.warnings),
            used,
            request.kind,
            by_row(coded.marks, self.schema.columns),
        )
