"""Start and resumption of chains of any method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sampler.methods import METHODS

if TYPE_CHECKING:
    from sampler.storage.draws import Draws
    from sampler.training import Training


class AnyChain(Protocol):
    """Interface of the chains of all methods.

    Attributes
    ----------
    iteration
        Number of iterations done.
    num_kept
        Number of draws kept so far.
    training
        Data and settings of the fit.

    """

    iteration: int
    num_kept: int
    training: Training

    @property
    def iterations(self) -> int:
        """Number of iterations in all."""

    @property
    def phase(self) -> str:
        """Current phase: "burn_in" or "sampling"."""

    @property
    def done(self) -> bool:
        """Whether all iterations are done."""

    def run(self, iterations: int) -> int:
        """Run up to `iterations` iterations without the GIL; return the number done."""

    def take(self) -> Draws | None:
        """Return the draws kept since the last call, or None, and release them."""

    def checkpoint(self) -> bytes:
        """Encode the state between iterations, without draws not yet taken."""

    def statistics(self) -> dict[str, Any]:
        """Return the counters of the moves as JSON values."""


def start_chain(training: Training, chain: int) -> AnyChain:
    """Start the chain with that index (0, 1, ...) of a fit."""
    started: AnyChain = METHODS[training.settings.method].chain.start(training, chain)
    return started


def resume_chain(training: Training, checkpoint: bytes) -> AnyChain:
    """Restore the chain that wrote the checkpoint, bit for bit; raise PackedError."""
    resumed: AnyChain = METHODS[training.settings.method].chain.resume(training, checkpoint)
    return resumed
