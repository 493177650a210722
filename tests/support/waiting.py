"""Waiting for another process or thread."""

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

T = TypeVar("T")


def eventually(what: Callable[[], T], seconds: float = 120.0, why: str | Callable[[], str] = "") -> T:
    """Return the first true value of `what`, or fail after `seconds` with the reason `why`.

    A service that can't be reached counts as not yet.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if value := what():
                return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {why() if callable(why) else why}")
