"""Giving up long computations: loops over pieces of rows look at a flag between two pieces."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Flag = threading.Event


class InterruptedWorkError(Exception):
    """The flag was set: nobody wants the result any more."""


_flag: ContextVar[Flag | None] = ContextVar("flag", default=None)


@contextmanager
def by(flag: Flag) -> Iterator[None]:
    """Let computations inside the block, in this thread, end soon after `flag` is set."""
    before = _flag.set(flag)
    try:
        yield
    finally:
        _flag.reset(before)


def look() -> None:
    """Raise InterruptedWorkError when the flag that is in force is set."""
    flag = _flag.get()
    if flag is not None and flag.is_set():
        raise InterruptedWorkError
