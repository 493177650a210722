"""Cancellation of long computations: loops over blocks of rows check a flag after each block."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

StopFlag = threading.Event


class InterruptedWorkError(Exception):
    """Raised in a computation whose flag was set, because its result is no longer wanted."""


_flag: ContextVar[StopFlag | None] = ContextVar("flag", default=None)


@contextmanager
def by(flag: StopFlag) -> Iterator[None]:
    """Let computations in this block and thread be interrupted by setting `flag`."""
    before = _flag.set(flag)
    try:
        yield
    finally:
        _flag.reset(before)


def look() -> None:
    """Raise InterruptedWorkError if the flag in force is set."""
    flag = _flag.get()
    if flag is not None and flag.is_set():
        raise InterruptedWorkError
