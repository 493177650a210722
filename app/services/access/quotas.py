"""What one owner may have at once: refused with 429 and a time after which it may be otherwise."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from app.services.errors import QuotaError
from app.services.request_context import actor
from app.store import quotas as store

BYTES_PER_TREE = 14  # stored, at most, at default settings (about nine)
LATER = {"stored": 3600, "queued": 30, "predictions": 1}  # seconds after which to try again


def expected_bytes(settings: Mapping[str, Any]) -> int:
    """What a model of these settings will store, about; with stop rules, at most."""
    trees, chains = int(settings.get("num_trees", 0)), int(settings.get("num_chains", 0))
    draws = (settings.get("stop") or {}).get("max_draws") or settings.get("num_draws", 0)
    return BYTES_PER_TREE * trees * chains * int(draws)


def check_stored(session: Session, owner: str, more: int) -> None:
    """Refuse `more` bytes that would not fit; in the transaction that stores them.

    Raises
    ------
    QuotaError
        The owner has, or has asked for, too much.
    """
    most = actor().limits.stored_bytes
    if most is None:
        return
    store.hold(session, owner)
    promised = sum(expected_bytes(settings) for settings in store.open_settings(session, owner))
    has = store.stored_bytes(session, owner) + promised
    if has + more > most:
        raise QuotaError(
            f"This takes {_size(more)}; of {_size(most)} you have {_size(has)} stored or promised to models "
            "that are being fitted: delete what you don't need.",
            retry_after=LATER["stored"],
        )


def check_queued(session: Session, owner: str) -> None:
    """Refuse one more fit, or one more background prediction, when as many as may be are open.

    Raises
    ------
    QuotaError
        Too many are queued or running.
    """
    most = actor().limits.queued
    if most is None:
        return
    store.hold(session, owner)
    found = len(store.open_settings(session, owner)) + store.open_predictions(session, owner)
    if found >= most:
        raise QuotaError(
            f"{found} of your fits and background predictions are queued or running, where {most} may be: "
            "wait for one to end, or cancel one.",
            retry_after=LATER["queued"],
        )


class Turns:
    """How many requests of each owner are being computed in this process."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One more of who acts, for the length of a block; raises QuotaError when there are too many.

        To be used in the event loop alone.
        """
        owner, most = actor().owner, actor().limits.predictions
        if most is not None and self._running[owner] >= most:
            raise QuotaError(
                f"{most} of your predictions are being computed at once, and more may not be.",
                retry_after=LATER["predictions"],
            )
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]  # an owner who went away leaves nothing


def _size(num_bytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.1f} {unit}"
    return f"{num_bytes} bytes"
