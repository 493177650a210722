"""Bars of a fit's progress on the terminal or in a notebook."""

from __future__ import annotations

import io
import threading
import time
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

    from sampler.chains import AnyChain
    from sampler.kernels.jit import Tell
    from sampler.training import Training

    Report = Callable[[int, AnyChain], None]


@contextmanager
def _as_text(bars: Progress) -> Iterator[None]:
    """Show progress bars in a notebook as text, updated in place twice a second."""
    from IPython.display import display  # noqa: PLC0415  # installed wherever a notebook runs
    from rich.console import Console  # noqa: PLC0415

    page = Console(file=io.StringIO(), force_jupyter=False, force_terminal=False, width=100)

    def text() -> dict[str, str]:
        with page.capture() as captured:
            page.print(bars.get_renderable())
        return {"text/plain": captured.get()}

    over = threading.Event()
    handle = display(text(), raw=True, display_id=True)

    def refresh() -> None:
        while not over.wait(0.5):
            handle.update(text(), raw=True)

    thread = threading.Thread(target=refresh, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        handle.update(text(), raw=True)


@contextmanager
def progress_bars(
    training: Training, *, shown: bool, cold: bool
) -> Iterator[tuple[Tell, Callable[[float], None], Report]]:
    """Show a progress bar per chain, and one for compilation where that takes long."""
    if not shown:
        yield (lambda _done, _total: None), (lambda _seconds: None), (lambda _index, _chain: None)
        return
    from rich.console import Console  # noqa: PLC0415  # imported only to show progress
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bars = Progress(*parts, console=console)
    # In a notebook rich needs ipywidgets to show bars, and warns where they are missing.
    alone = console.is_jupyter and find_spec("ipywidgets") is None
    with _as_text(bars) if alone else bars:
        word = "compiling, first run only" if cold else "loading kernels"
        loading = bars.add_task(word, visible=False, total=None)
        tasks = [bars.add_task(f"chain {c + 1}", total=None) for c in range(training.settings.num_chains)]
        begun = time.monotonic()

        def compiling(done: int, total: int) -> None:
            late = time.monotonic() - begun > 1
            bars.update(loading, completed=done, total=total, visible=late and done < total)

        def compiled(seconds: float) -> None:
            if seconds > 0:
                console.print(f"compiled in {seconds:.0f} s; kept on disk, so the next fit starts at once")

        def report(index: int, chain: AnyChain) -> None:
            phase = "burn-in" if chain.phase == "burn_in" else "sampling"
            described = f"chain {index + 1}, {phase}"
            bars.update(
                tasks[index], description=described, completed=chain.iteration, total=chain.iterations
            )

        yield compiling, compiled, report
