"""Heartbeats while a unit is processed, independent of the work itself, and the end of work that goes on."""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from app.store.engine import session_scope
from app.store.errors import LeaseLostError
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.units import Directive, Progress
from app.store.tables import CHAIN
from sampler.host.data import interrupt
from worker.context import Context

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0  # between heartbeats
CHAIN_BEAT_SECONDS = 1.5  # of a chain: longer than a slice, whose commit is one
GRACE_SECONDS = 0.5  # for the work to notice that its unit has ended; then its process ends
BEATS_PER_LEASE = 4
LONGEST_SECONDS = 1800.0  # without progress for longer, a unit counts as stuck and its lease expires

END: dict[Directive, Callable[..., None]] = {
    Directive.CANCEL: units.stop,
    Directive.DRAIN: units.release,
    Directive.GIVE_WAY: units.release,
    Directive.TIME_UP: units.finish_early,
}


class EndedError(Exception):
    """The unit was ended or taken over while this process was working on it."""


class _Flag(interrupt.StopFlag):
    """Interrupts the work of a unit; work that looks at it is not stuck."""

    def __init__(self, watch: "Watch") -> None:
        super().__init__()
        self._watch = watch

    def is_set(self) -> bool:
        self._watch.note_life()
        return super().is_set()


class Watch:
    """A thread that sends heartbeats for a unit whenever its process has been silent for a while.

    A cancel, a drain or the end of a chain's time takes effect at once; the process notices it in `check`,
    and in loops that `flag` interrupts. Work that notices it in neither ends with its process, which the pool
    replaces: so no unit outlives its end by more than two slices, whatever it computes.
    """

    def __init__(self, context: Context, claim: Claim) -> None:
        self._progress: Progress | None = None
        self.ended: Directive | None = None  # the directive by which the thread ended the unit
        self.lost = False  # another worker has the unit, or it is gone
        self.flag: interrupt.StopFlag = _Flag(self)  # set with one of these
        self._context, self._engine, self._claim = context, context.engine, claim
        seconds = CHAIN_BEAT_SECONDS if claim.kind == CHAIN else BEAT_SECONDS
        self._every = min(seconds, claim.lease_seconds / BEATS_PER_LEASE)
        self._heard = self._moved = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def check(self) -> None:
        """Raise EndedError if the unit has ended or is lost."""
        if self.lost or self.ended is not None:
            raise EndedError

    def tell(self, progress: Progress | None) -> None:
        """Set the progress for the next heartbeats; None keeps what the process has written itself."""
        self._progress, self._moved = progress, time.monotonic()

    def note_life(self) -> None:
        """Record that the process gets on, in a computation that doesn't count."""
        self._moved = time.monotonic()

    def note_progress(self) -> None:
        """Record that the process has made progress and has written it itself."""
        self._heard = self._moved = time.monotonic()

    def beat(self, progress: Progress | None = None) -> Directive:
        """Send a heartbeat from the process itself, which has made progress; raises as `units.heartbeat`."""
        self.check()
        with session_scope(self._engine) as session:
            directive = units.heartbeat(session, self._claim, progress)
        self.note_progress()
        return directive

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(max(0.0, self._heard + self._every - time.monotonic())):
            now = time.monotonic()
            if now < self._heard + self._every:
                continue  # the process has written itself meanwhile
            if now > self._moved + LONGEST_SECONDS:
                log.error("Unit %s made no progress for %s s.", self._claim.unit_id, LONGEST_SECONDS)
                return
            try:
                self._beat()
            except LeaseLostError:
                self.lost = True
            except SQLAlchemyError as error:
                log.warning("Unit %s: heartbeat failed: %s", self._claim.unit_id, error)
            if self.lost or self.ended is not None:
                self.flag.set()
                self._end_work()
                return
            self._heard = max(self._heard, now)

    def _end_work(self) -> None:
        """End a process of the pool that goes on; all that counts is in the database.

        A worker that stops ends its processes itself.
        """
        if self._over.wait(GRACE_SECONDS) or self._context.forks or self.ended is Directive.DRAIN:
            return
        log.warning("Unit %s has ended, but not its work: the process ends.", self._claim.unit_id)
        self._context.places.wake()
        os._exit(1)

    def _beat(self) -> None:
        claim = self._claim
        with session_scope(self._engine) as session:
            directive = units.heartbeat(session, claim, self._progress)
        if directive is Directive.CONTINUE or (directive is Directive.TIME_UP and claim.kind != CHAIN):
            return
        with session_scope(self._engine) as session:
            END[directive](session, claim)
        self.ended = directive
