"""Decisions by the caller of a long computation: to stop it, and to lend it a thread; the cores there are.

Loops over blocks of rows check a flag after each block, and may have the next block evaluated ahead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import TypeVar

B = TypeVar("B")
T = TypeVar("T")
StopFlag = threading.Event
QUOTA_FILE = Path("/sys/fs/cgroup/cpu.max")  # processor time of a container in a period, and the period


def count_cores() -> int:
    """Return the cores this process may use; in a container there may be fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    with suppress(OSError, ValueError):  # "max 100000" where processor time is unlimited
        time, period = map(int, QUOTA_FILE.read_text().split())
        cores = min(cores, max(1, time // period))
    return cores


class InterruptedWorkError(Exception):
    """Raised in a computation whose flag was set, because its result is no longer wanted."""


_flag: ContextVar[StopFlag | None] = ContextVar("flag", default=None)
_spare: ContextVar[ThreadPoolExecutor | None] = ContextVar("spare", default=None)


@contextmanager
def by(flag: StopFlag, spare: ThreadPoolExecutor | None = None) -> Iterator[None]:
    """Let computations in this block and thread be interrupted by setting `flag`, and use a spare thread."""
    before, lent = _flag.set(flag), _spare.set(spare)
    try:
        yield
    finally:
        _flag.reset(before)
        _spare.reset(lent)


def is_watched() -> bool:
    """Tell whether somebody may interrupt the computation."""
    return _flag.get() is not None


def look() -> None:
    """Raise InterruptedWorkError if the flag in force is set."""
    flag = _flag.get()
    if flag is not None and flag.is_set():
        raise InterruptedWorkError


def ahead(compute: Callable[[B], T], blocks: Iterable[B]) -> Iterator[tuple[B, T]]:
    """Yield each block with its result; a spare thread, if there is one, computes the next meanwhile.

    The computation may be interrupted before each block.
    """
    left, spare = list(blocks), _spare.get()
    if spare is None or len(left) < 2:
        for block in left:
            look()
            yield block, compute(block)
        return

    def compute_there(block: B) -> T:
        _spare.set(None)  # in its own context: the thread must not wait for itself
        return compute(block)

    coming = spare.submit(copy_context().run, compute_there, left[0])
    try:
        for number, block in enumerate(left, start=1):
            look()
            result = coming.result()
            if number < len(left):
                coming = spare.submit(copy_context().run, compute_there, left[number])
            yield block, result
    finally:
        coming.cancel()
        wait([coming])
