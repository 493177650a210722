"""Quotas per owner: refusal with 429 and the time after which a retry may succeed."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from app.services.errors import BusyError, QuotaError
from app.services.request_context import actor
from app.store.access import quotas as store
from app.store.queue import jobs
from sampler.host.fits import trees_of_parts

BYTES_PER_GROUP = 3  # stored bytes of a group's intercept, per draw
MODEL_BYTES = 10_000  # of a small model besides its draws: header, settings, diagnostics, states of chains
HELD_OUT_BYTES = 40_000  # figures of held-out rows, of an outcome
BYTES_PER_TREE = 14  # upper bound of the stored size at default settings (about nine)
WEBHOOK_BYTES = 1000  # of a delivery
LATER = {"stored": 3600, "queued": 30, "predictions": 1, "room": 10}  # seconds until a retry


def expected_bytes(settings: Mapping[str, Any]) -> int:
    """Estimate the bytes that a model with these settings will store; with stop rules, the maximum."""
    trees, chains = int(settings.get("num_trees", 0)), int(settings.get("num_chains", 0))
    trees *= int(settings.get("classes") or 1)  # a sum of trees for each
    trees += trees_of_parts(settings)
    draws = (settings.get("stop") or {}).get("max_draws") or settings.get("num_draws", 0)
    beside = MODEL_BYTES
    if settings.get("holdout"):
        beside += HELD_OUT_BYTES * len(settings.get("outcomes") or "1")
    groups = BYTES_PER_GROUP * int(settings.get("num_groups") or 0) * (1 + len(settings.get("slopes") or ()))
    return beside + (BYTES_PER_TREE * trees + groups) * chains * int(draws)


def hold(session: Session, owner: str) -> None:
    """Lock the owner's counts, if there are quotas, until the transaction ends.

    A transaction that locks rows before it checks a quota calls this first (`app.store.tables.LOCK_ORDER`).
    """
    limits = actor().limits
    if limits.stored_bytes is not None or limits.queued is not None:
        store.hold(session, owner)


def check_stored(session: Session, owner: str, more: int) -> None:
    """Refuse `more` bytes that exceed the quota; call this in the transaction that stores them.

    Raises
    ------
    QuotaError
        The owner has stored, or has queued fits that will store, too much.
    """
    most = actor().limits.stored_bytes
    if most is None:
        return
    store.hold(session, owner)
    promised = sum(expected_bytes(settings) for settings in store.open_settings(session, owner))
    for settings, count, of_rows in store.unmade(session, owner):
        promised += expected_bytes(settings) * count + of_rows
    has = store.stored_bytes(session, owner) + promised
    if has + more > most:
        raise QuotaError(
            f"This takes {_size(more)}; of {_size(most)} you have {_size(has)} stored or promised to models "
            "that are being fitted: delete what you don't need.",
            retry_after=LATER["stored"],
        )


def check_queued(session: Session, owner: str) -> None:
    """Refuse one more fit, set of fits, background prediction or study if the allowed number is open.

    Raises
    ------
    QuotaError
        Too many are queued or running.
    """
    most = actor().limits.queued
    if most is None:
        return
    store.hold(session, owner)
    count = store.count_open_fits(session, owner) + jobs.count_open(session, owner)
    if count >= most:
        raise QuotaError(
            f"{count} of your fits, background predictions and studies are queued or running, and {most} are "
            "allowed: wait for one to end, or cancel one.",
            retry_after=LATER["queued"],
        )


class Turns:
    """Number of requests of each owner that this process is computing."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Count one more request of the current actor during a block; raises QuotaError beyond the limit.

        Use it only in the event loop.
        """
        owner, most = actor().owner, actor().limits.predictions
        if most is not None and self._running[owner] >= most:
            raise QuotaError(
                f"{most} of your predictions are being computed, which is the most allowed at once.",
                retry_after=LATER["predictions"],
            )
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]  # keep no entries of idle owners


class SharedRoom:
    """Bytes of bodies in one place, memory or a disk, that each owner's requests hold in this process.

    Where owners share the process, one holds at most as many as are left: so there is room for the next, for
    whom the same holds. Use it only in the event loop.

    Parameters
    ----------
    place
        Its name in messages.
    left
        Returns the bytes left in it, given the bytes held.
    """

    def __init__(self, place: str, left: Callable[[int], int]) -> None:
        self._place, self._left = place, left
        self._held: Counter[str] = Counter()

    def check(self, more: int) -> None:
        """Check that there is room for so many more bytes of the current actor.

        Raises
        ------
        QuotaError, BusyError
            The owner's requests hold too much, or those of others do.
        """
        if not actor().limits.shared:
            return
        mine = self._held[actor().owner]
        if mine + more <= self._left(self._held.total()) - more:
            return
        if mine:
            message = (
                f"Your requests hold {_size(mine)} of {self._place}: send this again when one has ended."
            )
            raise QuotaError(message, retry_after=LATER["room"])
        message = (
            f"There is no room in {self._place} for a request of this size now: try again, or send less."
        )
        raise BusyError(message, retry_after=LATER["room"])

    def take(self, more: int) -> None:
        """Hold so many more bytes for the current actor; raises as `check`."""
        self.check(more)
        self._held[actor().owner] += more

    def free(self, owner: str, held: int) -> None:
        """Give back so many bytes of an owner."""
        self._held[owner] -= held
        if not self._held[owner]:
            del self._held[owner]  # keep no entries of idle owners


def _size(num_bytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.1f} {unit}"
    return f"{num_bytes} bytes"
