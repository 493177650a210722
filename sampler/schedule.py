"""Schedule of a Markov chain (burn-in, then sampling), and the counts of its moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sampler.training import Training


class MarkovChain:
    """Part that the chains of all engines have in common.

    Attributes
    ----------
    training
        Data and settings of the fit.
    iteration
        Number of iterations done.

    """

    training: Training
    iteration: int

    @property
    def iterations(self) -> int:
        """Number of iterations in all, burn-in and sampling."""
        return self.training.settings.iterations

    @property
    def phase(self) -> str:
        """Phase of the next iteration: "burn_in" or "sampling"."""
        return "burn_in" if self.iteration < self.training.settings.num_burnin else "sampling"

    @property
    def done(self) -> bool:
        """Whether all iterations are done."""
        return self.iteration >= self.iterations


def count_moves(names: Sequence[str], counters: NDArray[np.int64]) -> dict[str, dict[str, int]]:
    """Name the counters, int64 [move, 2], of moves that were proposed; {"grow": {"proposed": .., ..}, ..}."""
    return {
        name: {"proposed": int(proposed), "accepted": int(accepted)}
        for name, (proposed, accepted) in zip(names, counters, strict=True)
        if proposed
    }
