"""Who does what is being done, and within which limits: set where a request is let in, known below.

A context variable, so that no function between the edge and a change has to hand it on; threads that are
started for a request inherit it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OwnerLimits:
    """What one owner may have at once; None: any amount."""

    stored_bytes: int | None = None
    queued: int | None = None
    predictions: int | None = None
    streams: int | None = None  # of events, open to one process
    fit_memory: int | None = None  # bytes of a worker's process that one fit may take
    fit_seconds: float | None = None  # that a fit may take by its estimate


@dataclass(frozen=True)
class Actor:
    """Who acts: `who` is a key's id, `local` for this machine, or `command line`; `owner` for whom.

    `in_force` asks whether whoever was let in would be let in again now; it may block.
    """

    who: str
    owner: str = ""
    request_id: str | None = None
    limits: OwnerLimits = OwnerLimits()
    in_force: Callable[[], bool] = field(default=lambda: True, repr=False, compare=False)


NOBODY = Actor("command line")
_actor: ContextVar[Actor] = ContextVar("actor", default=NOBODY)


def actor() -> Actor:
    """Who acts now."""
    return _actor.get()


@contextmanager
def acting(who: Actor) -> Iterator[None]:
    """Whatever is done inside is done by `who`."""
    before = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(before)
