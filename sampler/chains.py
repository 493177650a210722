"""The chains of a fit, whatever its method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sampler.methods import METHODS

if TYPE_CHECKING:
    from sampler.storage.draws import Draws
    from sampler.training import Training


class AnyChain(Protocol):
    """What a chain of any method can do: see `sampler.bart.chain.Chain`."""

    iteration: int
    num_kept: int
    training: Training

    @property
    def iterations(self) -> int:
        """Iterations in all."""

    @property
    def phase(self) -> str:
        """`burn_in` or `sampling`."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""

    def run(self, iterations: int) -> int:
        """Do up to so many iterations, without the GIL; how many were done."""

    def take(self) -> Draws | None:
        """The draws kept since the last take."""

    def checkpoint(self) -> bytes:
        """The state between iterations."""

    def statistics(self) -> dict[str, Any]:
        """What the moves did."""


def start_chain(training: Training, chain: int) -> AnyChain:
    """A chain at its first state."""
    started: AnyChain = METHODS[training.settings.method].chain.start(training, chain)
    return started


def resume_chain(training: Training, checkpoint: bytes) -> AnyChain:
    """The chain that the checkpoint was taken of, bit for bit; raises PackedError."""
    resumed: AnyChain = METHODS[training.settings.method].chain.resume(training, checkpoint)
    return resumed
