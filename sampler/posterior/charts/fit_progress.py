"""Bars of a fit's progress on the terminal or in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sampler.chains import AnyChain
from sampler.posterior.core.progress import shown_bars
from sampler.training import Training

if TYPE_CHECKING:
    from sampler.kernels.jit import Tell

Report = Callable[[int, AnyChain], None]


@contextmanager
def progress_bars(
    training: Training, *, shown: bool, cold: bool
) -> Iterator[tuple[Tell, Callable[[float], None], Report]]:
    """Show a progress bar per chain, and one for compilation where that takes long."""
    if not shown:
        yield (lambda _done, _total: None), (lambda _seconds: None), (lambda _index, _chain: None)
        return
    with shown_bars() as bars:
        word = "compiling, first run only" if cold else "loading kernels"
        loading = bars.add_task(word, visible=False, total=None)
        tasks = [bars.add_task(f"chain {c + 1}", total=None) for c in range(training.settings.num_chains)]
        begun = time.monotonic()

        def compiling(done: int, total: int) -> None:
            late = time.monotonic() - begun > 1
            bars.update(loading, completed=done, total=total, visible=late and done < total)

        def compiled(seconds: float) -> None:
            if seconds > 0:
                bars.console.print(
                    f"compiled in {seconds:.0f} s; kept on disk, so the next fit starts at once"
                )

        def report(index: int, chain: AnyChain) -> None:
            phase = "burn-in" if chain.phase == "burn_in" else "sampling"
            described = f"chain {index + 1}, {phase}"
            bars.update(
                tasks[index], description=described, completed=chain.iteration, total=chain.iterations
            )

        yield compiling, compiled, report
