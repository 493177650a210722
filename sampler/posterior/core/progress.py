"""Progress of long computations on the terminal or in a notebook."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from sampler import interrupt

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
PATIENCE = 2.0  # seconds without a word
_shown = threading.Lock()  # held while a bar is shown: steps may have steps


def track(steps: Collection[T], what: str) -> Iterator[T]:
    """Yield the steps of a computation that may be interrupted before each; show a bar if they take long.

    Where somebody may interrupt it (`interrupt.by`), as in a service, there is no bar.
    """
    begun = time.monotonic()
    with ExitStack() as stack:
        bars: Progress | None = None
        for done, step in enumerate(steps):
            interrupt.look()
            late = bars is None and time.monotonic() - begun > PATIENCE
            if late and not interrupt.is_watched() and _shown.acquire(blocking=False):
                stack.callback(_shown.release)
                bars = stack.enter_context(shown_bars(transient=True))
                bars.add_task(what, total=len(steps))
            if bars is not None:
                bars.update(bars.task_ids[0], completed=done)
            yield step


@contextmanager
def shown_bars(**options: Any) -> Iterator[Progress]:
    """Show progress bars on the standard error's terminal, or in a notebook; nothing elsewhere."""
    from rich.console import Console  # noqa: PLC0415  # imported only to show progress
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bars = Progress(*parts, console=console, **options)
    # In a notebook rich needs ipywidgets to show bars, and warns where they are missing.
    alone = console.is_jupyter and find_spec("ipywidgets") is None
    with _as_text(bars) if alone else bars:
        yield bars


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
