"""Chains of any method: their interface, what Markov chains have in common, start and resumption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sampler.engines import load_code
from sampler.errors import PackedError
from sampler.methods import METHODS
from sampler.settings import Settings
from sampler.storage.draws import Draws
from sampler.training import Training

ROWS_OF_A_THREAD = 25_000  # fewer take about as long as the threads' waits for each other


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


class MarkovChain:
    """Part that the chains of all engines have in common.

    Attributes
    ----------
    training
        Data and settings of the fit.
    iteration
        Number of iterations done.
    threads
        Number of threads that share its passes over rows, where its engine can; the draws are the same.

    """

    training: Training
    iteration: int
    num_kept: int
    threads: int = 1

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

    def check_counts(self) -> None:
        """Raise PackedError for a restored chain whose draws are not those of its iterations.

        One that was interrupted may be further than the others, and than the fit to which they go on.
        """
        settings = self.training.settings
        kept = max(self.iteration - settings.num_burnin, 0) // settings.thin
        if self.iteration < 0 or self.num_kept != kept:
            raise PackedError("the checkpoint's iterations are none of the fit")


def check_random(random: NDArray[np.uint64]) -> None:
    """Raise PackedError for a state of random numbers that stays as it is, so that they are all equal."""
    if not random.any():
        raise PackedError("the checkpoint's random numbers have no state")


def count_moves(names: Sequence[str], counters: NDArray[np.int64]) -> dict[str, dict[str, int]]:
    """Name the counters, int64 [move, 2], of moves that were proposed; {"grow": {"proposed": .., ..}, ..}."""
    return {
        name: {"proposed": int(proposed), "accepted": int(accepted)}
        for name, (proposed, accepted) in zip(names, counters, strict=True)
        if proposed
    }


def start_chain(training: Training, chain: int) -> AnyChain:
    """Start the chain with that index (0, 1, ...) of a fit."""
    started: AnyChain = _chain_of(training).start(training, chain)
    return started


def resume_chain(training: Training, checkpoint: bytes) -> AnyChain:
    """Restore the chain that wrote the checkpoint, bit for bit; raise PackedError."""
    resumed: AnyChain = _chain_of(training).resume(training, checkpoint)
    return resumed


def _chain_of(training: Training) -> Any:
    """Find the class of a fit's chains."""
    method = METHODS[training.settings.method]
    several = method.engine.several
    return method.chain if training.several is None or several is None else load_code(several)


def use_cores(chain: AnyChain, cores: int) -> None:
    """Let a chain run on several cores where it has the rows for that; its draws are the same."""
    if isinstance(chain, MarkovChain):
        chain.threads = _threads_of(chain.training, cores)


def _threads_of(training: Training, cores: int) -> int:
    """Count the threads that share the rows of a chain which has so many cores."""
    shares = METHODS[training.settings.method].engine.forests and training.several is None
    return max(1, min(cores, training.codes.shape[1] // ROWS_OF_A_THREAD)) if shares else 1


def needed_kernels(training: Training, cores: int = 1) -> list[Settings | str]:
    """List what `sampler.kernels.jit.warm` has to compile before the chains of a fit run.

    `cores`: that each of them has (`use_cores`).
    """
    extra = METHODS[training.settings.method].engine.training_kernels
    shared = ["team"] if _threads_of(training, cores) > 1 else []
    return [training.settings, *(load_code(extra)(training) if extra else ()), *shared]
