"""Context of a request: the actor and its limits, set when the request is admitted.

A context variable, so that functions between the endpoint and a change need not pass it on; threads started
for a request inherit it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OwnerLimits:
    """Quotas of one owner; None means unlimited.

    `shared` tells that other owners use the process too: then none takes all of its room and places.
    """

    stored_bytes: int | None = None
    queued: int | None = None
    predictions: int | None = None
    streams: int | None = None  # event streams open in one process
    # Returns the bytes of a worker process that one fit may use; may block.
    fit_memory: Callable[[], int | None] = field(default=lambda: None, repr=False, compare=False)
    fit_seconds: float | None = None  # longest estimated duration of a fit
    shared: bool = False


@dataclass(frozen=True)
class Actor:
    """The actor: `who` is a key's id, `local` (loopback) or `command line`; changes belong to `owner`.

    `in_force` returns whether this actor would still be admitted now; it may block.
    """

    who: str
    owner: str = ""
    request_id: str | None = None
    limits: OwnerLimits = OwnerLimits()
    in_force: Callable[[], bool] = field(default=lambda: True, repr=False, compare=False)


NOBODY = Actor("command line")
_actor: ContextVar[Actor] = ContextVar("actor", default=NOBODY)


def actor() -> Actor:
    """Return the current actor."""
    return _actor.get()


@contextmanager
def acting(who: Actor) -> Iterator[None]:
    """Run the block as the actor `who`."""
    before = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(before)
