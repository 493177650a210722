"""The posterior of classes by a sum of trees for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.errors import PackedError
from sampler.posterior.ensemble import Ensemble
from sampler.posterior.explanations.shap_values import ForestToExplain
from sampler.posterior.kinds.by_figure import FiguresPosterior
from sampler.storage.draws import concatenate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.storage.draws import Draws
    from sampler.storage.model_header import Header

    Floats = NDArray[np.float64]


class ClassesPosterior(FiguresPosterior):
    """Draws of a forest for each class; f is the probability, of the second of two classes or [row, class].

    Only ratios of the forests' values mean anything: probabilities alone are shown and compared.
    """

    def __init__(
        self,
        header: Header,
        chains: Sequence[Draws],
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]],
    ) -> None:
        super().__init__(header, chains, blocks, statistics)
        shares = np.asarray(header.constants.get("shares", ()), np.float64)
        self.width = len(self.schema.target.levels)
        names = list(chains[0].forests)
        forests = all(list(draws.forests) == names for draws in chains)
        if self.width < 2 or len(names) != self.width - 1 or not forests:
            raise PackedError("the draws don't have a forest for each class")
        if shares.shape != (self.width,) or not np.all(np.isfinite(shares) & (shares > 0)):
            raise PackedError("the shares of the classes don't fit the model")
        self._log_shares = np.log(shares)
        features = len(header.grid.cuts)
        others = [Ensemble([draws.forests[name] for draws in chains], features) for name in names]
        self._of_classes = [self._ensemble, *others]
        self.own_work = 500 * self.width  # of exponentials

    def _forests(self, draws: Draws) -> list[Draws]:
        """Return the forests of all classes."""
        return [draws, *draws.forests.values()]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, roughly."""
        return super().nbytes + sum(ensemble.nbytes for ensemble in self._of_classes[1:])

    def forests_to_explain(self) -> tuple[str, list[ForestToExplain]]:
        """Return the scale of SHAP values, in words, and the forest of each class."""
        forests = self._forests(concatenate(self.chains()))
        explained = [
            ForestToExplain(draws, draws.leaf.astype(np.float64) * self._step, log_share)
            for draws, log_share in zip(forests, self._log_shares.tolist(), strict=True)
        ]
        return "the logarithm of each class's weight: differences are log odds", explained

    def _f_of(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats:
        logs = np.empty((len(chosen), coded.num_rows, self.width))
        for number, (ensemble, log_share) in enumerate(zip(self._of_classes, self._log_shares, strict=True)):
            np.multiply(ensemble.sums_of(coded, chosen), self._step, out=logs[:, :, number])
            logs[:, :, number] += log_share
        logs -= logs.max(axis=2, keepdims=True)
        probability = np.exp(logs, out=logs)
        probability /= probability.sum(axis=2, keepdims=True)
        return probability if self.width > 2 else probability[:, :, 1]
