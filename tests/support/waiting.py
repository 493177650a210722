"""Waiting for another process or thread."""

import contextlib
import os
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

T = TypeVar("T")


def stretched(seconds: float) -> float:
    """Return the seconds that this machine may take for what an idle one does in `seconds`, by its load."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def eventually(what: Callable[[], T], seconds: float = 120.0, why: str | Callable[[], str] = "") -> T:
    """Return the first true value of `what`, or fail after `seconds` with the reason `why`.

    A service that can't be reached counts as false. Polling slows down with time, to at least ten times a
    second, because on a busy machine it takes processor time from the awaited work.
    """
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < stretched(seconds):
        with contextlib.suppress(httpx.HTTPError):
            if value := what():
                return value
        time.sleep(min(0.1, 0.01 + elapsed / 20))
    raise AssertionError(f"not within {seconds} s: {why() if callable(why) else why}")
